"""A recording of real services over a scripted model, and live answers beside its replay."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from evals.harness.rows import recorded_evaluation
from evals.harness.session import RECORDS, Session, record
from evals.items import Item, read_sets
from evals.recording.compressed import CompressedRecords
from evals.recording.live import AUTO, COMMAND, SYSTEM_ONE, VOTE, live_answers, live_plan, live_rows
from evals.recording.recorder import RecordingPlan, item_records, record_items
from evals.records import read_records
from evals.suite import Addresses, SuiteClient
from kernel.msv.assessors import AssessorName
from tests.support.arbiter import arbiter_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Body, router_at

PROGRAM = "```python\nprint(8)\n```"


def says(body: Body) -> Sequence[str]:
    """Eight, whatever is asked; a program prints it, and nothing matters."""
    prompt, count = str(body["messages"][-1]["content"]), body.get("n") or 1
    if "response_format" in body:
        return [json.dumps({"r": [0, 0, 0]})] * count
    if "complete Python program" in prompt:
        return [PROGRAM] * count
    return ["Yes" if "Yes or No" in prompt else "Final Answer: 8"] * count


@pytest.fixture
def items(tmp_path: Path) -> Sequence[Item]:
    about = {"dataset": "sums", "dimension": "math_computation", "difficulty": "easy", "answer_type": "number"}
    lines = [{"id": f"sums-{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n), **about} for n in (3, 4)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_sets(tmp_path, [], 2)


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Addresses]:
    scripted.answer = says
    async with AsyncExitStack() as opened:
        arbiter = await opened.enter_async_context(arbiter_at(scripted))
        router = await opened.enter_async_context(
            router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}, assessor=AssessorName.ANSWERS)
        )
        yield Addresses(router=router.rest, arbiter=arbiter.rest)


async def test_the_services_answer_what_a_recording_asks_and_the_replay_agrees_with_them(
    suite: Addresses, items: Sequence[Item], tmp_path: Path
) -> None:
    async with SuiteClient(suite, timeout_s=60) as apis:
        with CompressedRecords(tmp_path / "recording.jsonl.gz") as file:
            done = await record_items(RecordingPlan(items=items, timeout_ms=60_000), apis.post, file)
        with CompressedRecords(tmp_path / "recording.jsonl.gz") as file:
            recorded = item_records(file.records)
        session = Session(command=COMMAND, typed="metacog eval record", folder=tmp_path / "live", asks_router=True)
        await record(session, live_plan(items, 1, 60_000), apis, lambda: None)

    assert (done.items, done.failed) == (2, ())
    assert [item.id for item in recorded] == ["sums-3", "sums-4"]
    for item in recorded:
        answers = {source: [one.answer for one in each] for source, each in item.answers.items()}
        assert answers == {"draft": ["8"], "reasoned": ["8"] * 3, "program": ["8"]}
        assert [one.right for each in item.answers.values() for one in each] == [item.id == "sums-4"] * 5
        assert item.state["importance"] == 0
    live = live_rows(live_answers(recorded_evaluation(read_records(tmp_path / "live" / RECORDS), COMMAND)), recorded)
    assert [(row.arm, row.live.count, row.live.of, row.replayed, row.alike.count) for row in live] == [
        (name, 1, 2, 0.5, 2) for name in (SYSTEM_ONE, VOTE, AUTO)
    ]
    assert [row.same_choice.count if row.same_choice else None for row in live][-1] == 2
