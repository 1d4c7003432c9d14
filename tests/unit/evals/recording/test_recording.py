"""The recorder with a scripted suite: what is asked, what is kept, and how it goes on after a kill."""

import gzip
from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest

from evals.errors import RecordsUnusable, ServiceUnreachable
from evals.recording.compressed import CompressedRecords, read_compressed
from evals.recording.recorder import Recorded, RecordingPlan, item_records, record_items
from evals.recording.values import ItemRecord
from evals.router_client import RequestRejected
from kernel.answers import AnswerType
from tests.unit.evals.recording.recordings import DIGESTS, ScriptedServices, a_choice, a_sum, plan

# Requests for one item: System 1 with its assessment, three reasoned votes, a program, the other model, one check.
REQUESTS = 7


class Killed(Exception):
    """Ends a recording as a kill does: nothing more is written."""


async def recorded_to(file: Path, made: RecordingPlan, suite: ScriptedServices) -> Recorded:
    with CompressedRecords(file) as records:
        return await record_items(made, suite.post, records)


def items_in(file: Path) -> list[ItemRecord]:
    return list(item_records(read_compressed(file)))


def plain_text(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode()


def cut_off(file: Path, many: int) -> None:
    file.write_bytes(file.read_bytes()[:-many])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording.jsonl.gz"


async def test_an_item_is_asked_for_by_the_services_own_apis(file: Path) -> None:
    suite = ScriptedServices()

    await recorded_to(file, plan([a_sum(2)]), suite)

    assert suite.asked == {"router /v1/assess": 1, "arbiter /v1/votes": 5, "router /v1/chat/completions": 1}
    votes = [body for path, body in suite.bodies if path == "/v1/votes"]
    assert all(body["agree"] == body["most"] == 1 for body in votes)
    assert [body["sources"][0]["mode"] for body in votes].count("PROGRAM") == 1
    assert [body["sources"][0].get("model") for body in votes].count("small") == 1
    seeds = [body["seed"] for body in votes]
    assert len(set(seeds)) == len(seeds), "equal seeds would give equal samples"


async def test_every_item_has_seeds_of_its_own(file: Path) -> None:
    suite = ScriptedServices()

    await recorded_to(file, plan([a_sum(1), a_sum(2)]), suite)

    seeds = [body["seed"] for _, body in suite.bodies]
    assert len(set(seeds)) == len(seeds), "items of one seed would draw the same random numbers, and err together"


async def test_answers_with_whether_they_are_right_and_checks_are_stored(file: Path) -> None:
    await recorded_to(file, plan([a_sum(2)]), ScriptedServices("4.0"))

    (item,) = items_in(file)
    assert {source: [one.answer for one in each] for source, each in item.answers.items()} == {
        "draft": ["4"], "reasoned": ["4"] * 3, "program": [None], "other": ["4"],
    }  # fmt: skip
    assert [one.right for one in item.answers["reasoned"]] == [True] * 3
    assert item.answers["program"][0].invalid == "the program failed"
    assert (item.answers["draft"][0].tokens, item.answers["other"][0].seconds) == (12, 1.5)
    assert item.checks.inside == 0.75
    assert item.checks.inside_logprob == pytest.approx(log(0.75))
    assert item.checks.alone == pytest.approx(exp(-0.5) / (exp(-0.5) + exp(-1.5)))
    assert item.checks.alone_logprob == -0.5
    assert item.state == {"correctness": 0.7, "importance": 0.2, "emotional_response": 0.1}


async def test_no_text_of_a_question_an_option_or_a_model_is_in_the_file(file: Path) -> None:
    await recorded_to(file, plan([a_sum(2), a_choice(1)]), ScriptedServices("a secret option" + " and more" * 9))
    await recorded_to(file, plan([a_sum(2), a_choice(1), a_choice(2)]), ScriptedServices("B"))

    text = plain_text(file)

    assert "choices-2" in text
    assert not any(words in text for words in ("secret", "Which", "A long text", "wrote", "option and"))


async def test_a_long_answer_is_kept_as_a_digest_that_equal_answers_share(file: Path) -> None:
    named = replace(a_sum(1), answer="x", answer_type=AnswerType.TEXT)
    long = "the " + "very " * 30 + "long answer"

    await recorded_to(file, plan([named]), ScriptedServices(long))

    (item,) = items_in(file)
    spellings = {one.answer for each in item.answers.values() for one in each if one.answer is not None}
    assert len(spellings) == 1
    assert spellings.pop().startswith("sha256 ")


async def test_without_another_model_none_is_asked(file: Path) -> None:
    suite = ScriptedServices()

    await recorded_to(file, plan([a_sum(2)], other=""), suite)

    assert suite.asked["arbiter /v1/votes"] == 4
    assert "other" not in items_in(file)[0].answers


async def test_the_next_start_goes_on_after_the_last_whole_item(file: Path) -> None:
    items = [a_sum(number) for number in range(1, 5)]
    killed = ScriptedServices(stop_after=2 * REQUESTS + 3, error=Killed())
    with pytest.raises(Killed):
        await recorded_to(file, plan(items), killed)
    assert [item.id for item in items_in(file)] == ["sums-1", "sums-2"]
    suite = ScriptedServices()

    found = await recorded_to(file, plan(items), suite)

    assert (found.items, found.added) == (4, 2)
    assert [item.id for item in items_in(file)] == ["sums-1", "sums-2", "sums-3", "sums-4"]
    assert suite.asked.total() == 2 * REQUESTS, "the third item was not whole: all of it is asked for again"


async def test_an_item_that_a_kill_cut_off_in_the_file_is_recorded_again(file: Path) -> None:
    await recorded_to(file, plan([a_sum(1), a_sum(2)]), ScriptedServices())
    cut_off(file, 20)

    found = await recorded_to(file, plan([a_sum(1), a_sum(2)]), ScriptedServices())

    assert (found.items, found.added) == (2, 1)


async def test_a_temporary_error_leaves_the_item_for_the_next_start(file: Path) -> None:
    late = RequestRejected("/v1/votes", 504, {"detail": "too late"}, "arbiter")
    found = await recorded_to(file, plan([a_sum(1), a_sum(2)]), ScriptedServices(stop_after=1, error=late))
    assert (found.items, [one.split(":")[0] for one in found.failed]) == (0, ["sums-1", "sums-2"])

    found = await recorded_to(file, plan([a_sum(1), a_sum(2)]), ScriptedServices())

    assert (found.items, found.failed) == (2, ())


async def test_a_service_that_is_away_ends_the_start(file: Path) -> None:
    away = ServiceUnreachable("no arbiter answers")

    with pytest.raises(ServiceUnreachable):
        await recorded_to(file, plan([a_sum(1)]), ScriptedServices(stop_after=0, error=away))


async def test_after_its_time_no_further_item_is_begun(file: Path) -> None:
    suite = ScriptedServices()

    found = await recorded_to(file, plan([a_sum(1)], within_s=0.0), suite)

    assert (found.items, suite.asked.total()) == (0, 0)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"seed": 8}, "made with seed 7, this start has 8"),
        ({"described": "eight bits"}, "made with described '', this start has 'eight bits'"),
        ({"other": "third"}, "made with other 'small', this start has 'third'"),
    ],
)
async def test_a_recording_is_not_continued_otherwise(file: Path, more: dict[str, object], complaint: str) -> None:
    await recorded_to(file, plan([a_sum(1)]), ScriptedServices())

    with pytest.raises(RecordsUnusable, match=complaint):
        await recorded_to(file, plan([a_sum(1), a_sum(2)], **more), ScriptedServices())


async def test_another_question_of_the_same_name_is_rejected(file: Path) -> None:
    await recorded_to(file, plan([a_sum(1)]), ScriptedServices())
    other = replace(a_sum(1), question="Something else?")

    with pytest.raises(RecordsUnusable, match="holds another question as sums-1"):
        await recorded_to(file, plan([other]), ScriptedServices())


async def test_an_answer_by_another_prompt_is_rejected(file: Path) -> None:
    await recorded_to(file, plan([a_sum(1)]), ScriptedServices())
    changed = {**DIGESTS, "program": {"program": "dd" * 32}}

    with pytest.raises(RecordsUnusable, match="the prompt program of program is another one"):
        await recorded_to(file, plan([a_sum(1), a_sum(2)]), ScriptedServices(digests=changed))

    assert [item.id for item in items_in(file)] == ["sums-1"]
