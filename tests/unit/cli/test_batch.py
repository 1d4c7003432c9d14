"""`metacog batch`: every line gets a result, once, in order, whatever happens on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.answers.batch_journal import open_journal
from cli.answers.batch_lines import BatchResult, read_requests, request
from cli.terminal.exits import FORBIDDEN, OK, PARTIAL, USAGE, UnusableInput
from tests.support.models.scripted_service import ScriptedService
from tests.unit.cli.running import Metacog

CHAT = "/v1/chat/completions"
POST = f"POST {CHAT}"


def line(name: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": {"model": "metacog", **body}}


def written(folder: Path, *lines: Any) -> Path:  # noqa: ANN401
    file = folder / "in.jsonl"
    file.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines))
    return file


def results(file: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in file.read_text().splitlines()]


@pytest.fixture
def router(service: ScriptedService) -> ScriptedService:
    service.always("GET /v1/models", json={"data": []})
    service.always(POST, json={"choices": [], "metacog": {}})
    return service


def test_results_are_in_the_order_of_the_requests_and_in_openais_format(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    router.reply(POST, json={"n": 1}, x_metacog_run_id="run-1")
    asked = written(tmp_path, *(line(name) for name in "edcba"))

    done = metacog("batch", asked, tmp_path / "out.jsonl", "--router", router.url, "--concurrency", 1)

    found = results(tmp_path / "out.jsonl")
    assert (done.status, "5 of 5 answered" in done.err) == (OK, True)
    assert [each["custom_id"] for each in found] == list("edcba")
    assert found[0]["response"] == {"status_code": 200, "request_id": "run-1", "body": {"n": 1}}
    assert [each["error"] for each in found] == [None] * 5
    assert len({each["id"] for each in found}) == 5
    assert not (tmp_path / "out.jsonl.part").exists()


def test_the_number_of_concurrent_requests_is_limited(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    asked = written(tmp_path, *(line(str(number)) for number in range(30)))

    metacog("batch", asked, tmp_path / "out.jsonl", "--router", router.url, "--concurrency", 3)

    assert router.most_at_once <= 3
    assert len(results(tmp_path / "out.jsonl")) == 30


@pytest.mark.parametrize(
    ("bad", "expected_text"),
    [
        ("{nonsense\n", "line 2: it is not JSON"),
        ({"method": "POST", "url": CHAT, "body": {}}, "line 2: custom_id must be a name"),
        ({**line("b"), "method": "GET"}, "line 2: method of 'b' must be"),
        ({**line("b"), "url": "http://elsewhere/"}, "line 2: url of 'b' must be a path"),
        (line("b", stream=True), "line 2: body of 'b' must be an object, without stream"),
        (line("a"), "line 2: custom_id 'a' is also that of line 1"),
    ],
)
def test_an_invalid_file_raises_an_error_before_a_request_is_sent(
    metacog: Metacog, router: ScriptedService, tmp_path: Path, bad: object, expected_text: str
) -> None:
    done = metacog("batch", written(tmp_path, line("a"), bad), tmp_path / "out.jsonl", "--router", router.url)

    assert (done.status, router.asked) == (USAGE, [])
    assert expected_text in done.err


def test_a_temporary_failure_is_retried_after_the_requested_pause(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    router.reply(POST, json={"error": {"message": "busy"}}, status=429, retry_after="0")
    router.hang_up(POST)

    done = metacog("batch", written(tmp_path, line("a")), tmp_path / "out.jsonl", "--router", router.url)

    assert done.status == OK
    assert [request.line for request in router.asked].count(POST) == 3


def test_a_permanent_failure_is_stored_listed_and_repeated_alone(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    asked = written(tmp_path, line("good"), line("bad", messages=[]), line("gone"))
    router.reply(POST, json={"n": 1})
    router.reply(POST, json={"error": {"message": "messages must not be empty"}}, status=400)
    router.hang_up(POST)
    words = ("batch", asked, out, "--router", router.url, "--concurrency", 1, "--attempts", 1)

    first = metacog(*words)
    failed = results(out)
    router.asked.clear()
    again = metacog(*words, "--json")

    assert first.status == PARTIAL
    assert "1 of 3 answered" in first.err
    assert "failed: bad: messages must not be empty" in first.err
    assert "failed: gone:" in first.err
    assert [each["custom_id"] for each in failed] == ["good", "bad", "gone"]
    assert failed[1]["response"]["status_code"] == 400
    assert (failed[2]["response"], failed[2]["error"]["code"]) == (None, "unreachable")
    assert (again.status, json.loads(again.out)["failed"]) == (OK, [])
    assert [request.line for request in router.asked].count(POST) == 2
    assert results(out)[0]["response"]["body"] == {"n": 1}


def test_after_a_kill_only_requests_without_a_result_are_sent(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    asked = written(tmp_path, line("a"), line("b"), line("c", changed=True))
    before = [request(json.dumps(line(name))) for name in "abc"]
    with open_journal(out) as kept:
        for one in (before[0], before[2]):
            kept.record(BatchResult(custom_id=one.custom_id, digest=one.digest, status=200, body={"from": "before"}))
    with (tmp_path / "out.jsonl.part").open("ab") as torn:
        torn.write(b'{"custom_id": "b", "dig')

    done = metacog("batch", asked, out, "--router", router.url)

    assert (done.status, "1 of 3 are answered already" in done.err) == (OK, True)
    assert [each["response"]["body"].get("from") for each in results(out)] == ["before", None, None]
    assert sorted("changed" in one.body for one in router.asked if one.line == POST) == [False, True]


def test_one_process_at_a_time_works_on_a_file(tmp_path: Path) -> None:
    with open_journal(tmp_path / "out.jsonl"), pytest.raises(UnusableInput, match="another process works on"):
        open_journal(tmp_path / "out.jsonl").__enter__()


def test_results_of_another_batch_are_not_overwritten(
    metacog: Metacog, router: ScriptedService, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious\n")
    asked = written(tmp_path, line("a"))

    rejected = metacog("batch", asked, out, "--router", router.url)
    kept, journals = out.read_text(), list(tmp_path.glob("*.part"))
    forced = metacog("batch", asked, out, "--router", router.url, "--force")

    assert (rejected.status, kept, journals) == (USAGE, "precious\n", [])
    assert (forced.status, len(results(out))) == (OK, 1)


def test_a_wrong_key_is_reported_once_and_nothing_is_sent(
    metacog: Metacog, service: ScriptedService, tmp_path: Path
) -> None:
    service.reply("GET /v1/models", json={"error": {"message": "no"}}, status=401)

    done = metacog("batch", written(tmp_path, line("a")), tmp_path / "out.jsonl", "--router", service.url)

    assert (done.status, len(service.asked)) == (FORBIDDEN, 1)


def test_an_empty_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="contains no request"):
        read_requests(written(tmp_path, "\n"))
