"""The requests of an exam on a service that answers nothing more."""

import json
from pathlib import Path

from cli.exam.taking import MOST_UNANSWERED
from cli.terminal.exits import PARTIAL, UNREACHABLE
from tests.support.models.scripted_service import ScriptedService
from tests.unit.cli.running import Metacog

CHAT = "POST /v1/chat/completions"
MODELS = {"data": [{"id": "small", "metacog": {"kind": "model", "price": None}}]}


def words(service: ScriptedService, folder: Path, count: int) -> list[object]:
    line = {"question": "What is 2 + 2?", "answer": "4", "answer_type": "NUMBER", "kind": "sums"}
    (folder / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for _ in range(count)))
    files = ["--tasks", folder / "tasks.jsonl", "--journal", folder / "journal"]
    bounds = ["--attempts", 1, "--concurrency", 1, "--per-kind", count]
    return ["exam", "--yes", *files, *bounds, "--router", service.url]


def test_an_exam_ends_when_many_requests_in_a_row_have_no_reply(
    metacog: Metacog, service: ScriptedService, tmp_path: Path
) -> None:
    service.always("GET /v1/models", json=MODELS)
    for _ in range(MOST_UNANSWERED):
        service.hang_up(CHAT)

    done = metacog(*words(service, tmp_path, MOST_UNANSWERED + 5))

    assert done.status == UNREACHABLE
    assert f"{MOST_UNANSWERED} requests in a row had no reply of the router" in done.err
    assert [request.line for request in service.asked].count(CHAT) == MOST_UNANSWERED


def test_an_exam_goes_on_after_some_requests_without_a_reply(
    metacog: Metacog, service: ScriptedService, tmp_path: Path
) -> None:
    service.always("GET /v1/models", json=MODELS)
    answered = {"run_id": "r", "outcome": "ABSTAINED"}
    for _ in range(3):
        service.hang_up(CHAT)
        service.reply(CHAT, json={"choices": [], "metacog": answered})

    done = metacog(*words(service, tmp_path, 6))

    assert done.status == PARTIAL
    assert [request.line for request in service.asked].count(CHAT) == 6
    assert done.err.count("failed: model:small") == 3
