"""Generated tasks of many steps: the same for the same seed, computed ends, and figures counted by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.errors import RecordsUnusable
from evals.harness.rows import recorded_evaluation
from evals.horizon.arms import arms, introduced, step_arm
from evals.horizon.figures import episodes, figures
from evals.horizon.files import COMMAND, write_report
from evals.horizon.tasks import Lock, Step, applied, end_state, locks
from evals.publishing.records import published
from evals.records import Record
from evals.stats.chance import seeded
from tests.support.evaluation_replies import chat, reply, run_record

SEED = 7


def test_the_same_numbers_give_the_same_tasks_and_another_seed_others() -> None:
    once, again, other = locks([2, 5], 10, 4, 7), locks([2, 5], 10, 4, 7), locks([2, 5], 10, 4, 8)

    assert once == again
    assert not {lock.item.id for lock in once} & {lock.item.id for lock in other}
    assert [len(lock.steps) for lock in once[:4]] == [2, 5, 2, 5]
    assert len({lock.item.question for lock in once}) == len(once)


def test_the_end_state_is_that_of_all_steps_and_is_stated_nowhere() -> None:
    for lock in locks([1, 6, 12], 20, 4, 7):
        shown = lock.start
        for number, step in enumerate(lock.steps, 1):
            one = lock.step_item(number, shown)
            shown = applied(shown, step)
            assert int(one.answer) == int(shown)
            assert lock.steps[number - 1].instruction in one.question
        assert int(lock.item.answer) == int(shown) == int(end_state(lock.start, lock.steps))


def test_steps_by_hand() -> None:
    steps = [Step(kind="turn", first=1, second=9), Step(kind="swap", first=2, second=3), Step(kind="all", second=5)]

    # 4072: 4 + 9 is 3; then 0 and 7 change places; then each digit up by 5; then backwards.
    assert [end_state("4072", steps[:count]) for count in (1, 2, 3)] == ["3072", "3702", "8257"]
    assert end_state("4072", [*steps, Step(kind="reverse")]) == "7528"


LOCKS = locks([3], 2, 4, 7)


def body(lock: Lock, arm: str, replies: dict[str, Record]) -> Any:  # noqa: ANN401
    made = {one.name: one for one in arms(LOCKS, "vote", equal_compute=False)}
    call = made[arm].call(lock.item, SEED, replies)
    return None if call is None else call.body["messages"][0]["content"]


def test_a_step_sees_what_its_own_way_has_left_right_or_wrong() -> None:
    lock = LOCKS[0]
    said = {"system1@1": chat("Final Answer: 7"), "vote@1": chat("Final Answer: 1234")}

    assert f"It shows {lock.start}." in body(lock, "system1@1", {})
    assert "It shows 0007." in body(lock, "system1@2", said)
    assert "It shows 1234." in body(lock, "vote@2", said)
    # What cannot be read leaves the lock as it was; a step without a reply ends the task.
    assert f"It shows {lock.start}." in body(lock, "vote@2", {"vote@1": chat("I cannot tell.")})
    assert body(lock, "vote@3", said) is None


def test_self_consistency_gets_at_each_step_what_the_strategy_spent_there() -> None:
    made = {one.name: one for one in arms(LOCKS, "vote")}
    said = {"vote@1": chat("Final Answer: 7", usage={"generations": 4}), "system1@1": chat("Final Answer: 8")}

    call = made["self-consistency@1"].call(LOCKS[0].item, SEED, said)

    assert call is not None
    assert call.body["self_consistency_samples"] == 4


def recorded(way: str, answers: Sequence[Sequence[str]]) -> list[Record]:
    """Answers of one way to the steps of each task."""
    return [
        reply(lock.item.id, step_arm(way, number), chat(f"Final Answer: {text}"), path="/v1/chat/completions")
        for lock, texts in zip(LOCKS, answers, strict=True)
        for number, text in enumerate(texts, 1)
    ]


def opened() -> list[Record]:
    by_id = {lock.item.id: lock for lock in LOCKS}
    names = [arm.name for arm in arms(LOCKS, "vote", equal_compute=False)]
    return [run_record(COMMAND, *names), *(introduced(by_id, lock.item, "") for lock in LOCKS)]


def right(lock: Lock) -> list[str]:
    return [end_state(lock.start, lock.steps[:count]) for count in (1, 2, 3)]


def test_ends_single_steps_and_first_errors_are_those_counted_by_hand() -> None:
    first, second = LOCKS
    spoiled = applied("0000", second.steps[1])
    # The first task is right; in the second the first step is wrong, and both after it right for what it left.
    wrong = ["0", spoiled, applied(spoiled, second.steps[2])]
    assert right(second)[0] != "0000"
    records = [*opened(), *recorded("system1", [right(first), wrong]), *recorded("vote", [right(first), right(second)])]

    found = episodes(recorded_evaluation(records, COMMAND), records)
    ways = {way.name: way for way in figures(found, "vote", seeded(7, draws=50))[3]}

    system1, vote = ways["system1"], ways["vote"]
    assert (system1.right.value, vote.right.value) == (0.5, 1.0)
    assert system1.steps is not None
    assert (system1.steps.count, system1.steps.of) == (5, 6)
    assert system1.independent == pytest.approx((5 / 6) ** 3)
    assert (system1.first_error, vote.first_error) == (1.0, None)
    assert vote.gains["system1"].value == 0.5
    assert system1.gains == {}


def test_a_task_with_a_missing_step_is_left_out_and_counted(tmp_path: Path) -> None:
    first, second = LOCKS
    records = [*opened(), *recorded("system1", [right(first), right(second)]),
               *recorded("vote", [right(first), right(second)[:2]])]  # fmt: skip

    report = write_report(records, tmp_path, seeded(7, draws=50))

    assert "- tasks left out: vote 1\n" in report
    assert "| 3 | vote | 1 | 1.00" in report
    assert "**too few items**" in report
    assert "a gain of 80.0 points or more would show" in report
    assert (tmp_path / "horizon.svg").exists()


def test_published_records_give_the_same_report(tmp_path: Path) -> None:
    records = [*opened(), *recorded("system1", [["0", "1", "2"], right(LOCKS[1])]),
               *recorded("vote", [right(LOCKS[0]), right(LOCKS[1])])]  # fmt: skip

    assert write_report(published(records), tmp_path, seeded(7)) == write_report(records, tmp_path, seeded(7))


def test_without_a_whole_task_there_is_nothing_to_report_on(tmp_path: Path) -> None:
    records = [*opened(), *recorded("system1", [["1"], ["2"]])]

    with pytest.raises(RecordsUnusable, match="no task was done to its end"):
        write_report(records, tmp_path)
