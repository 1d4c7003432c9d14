"""Self-consistency with as many generations as the procedure makes calls: what is asked, and how it is counted."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from evals.benchmark.tasks import cross_domain
from evals.delegation.arms import ASSESS, SAME_CALLS, SOLVE, arms
from evals.delegation.baselines import SAME, most_frequent_is_right, same_calls
from evals.delegation.figures import FULL, figures
from evals.delegation.files import COMMAND, write_report
from evals.delegation.replay import Rules, replay
from evals.delegation.tasks import Sampled, tasks
from evals.harness.arms import Arm
from evals.harness.rows import recorded_evaluation
from evals.records import Record
from evals.stats.chance import seeded
from kernel.answers import AnswerType
from tests.support.delegation_records import AGENTS, a_recording, a_task
from tests.support.evaluation_records import an_item
from tests.support.evaluation_replies import arbitration, reply, sample, spent

# Three agents, alpha asked twice: four calls for the ratings, and three answers.
RATED: Record = {
    "assessments": [{"agent": "alpha", "attempts": 2}, {"agent": "beta", "attempts": 1}, {"agent": "gamma"}]
}
ANSWERED: Mapping[str, Record] = {ASSESS: RATED, SOLVE: {"votes": []}}


def the_control(max_tokens: int = 0) -> Arm:
    [made] = [arm for arm in arms(max_tokens=max_tokens) if arm.name == SAME_CALLS]
    return made


def drawn(*answers: str | None) -> tuple[Sampled, ...]:
    """Samples of 10 tokens each, the first with a prompt of 20."""
    return tuple(
        Sampled(answer=answer, right=answer == "4", tokens=10 if place else 30) for place, answer in enumerate(answers)
    )


def sampled(made: list[Record], *answers: str, leaving: int = 0) -> list[Record]:
    """`made` with samples of the control for all tasks but the first `leaving`."""
    names = [one["id"] for one in made if one["kind"] == "item"][leaving:]
    report = arbitration("4", [sample(answer, 0) for answer in answers], usage=spent(len(answers)))
    return [*made, *(reply(name, SAME_CALLS, report, path="/v1/arbitrations") for name in names)]


def test_the_arbiter_is_asked_for_as_many_samples_as_the_procedure_can_make_calls() -> None:
    call = the_control(max_tokens=64).call(an_item(1), 7, ANSWERED)

    assert call is not None
    assert (call.service, call.path, call.body["variant"]) == ("arbiter", "/v1/arbitrations", "SELF_CONSISTENCY")
    assert (call.body["self_consistency_samples"], call.body["return_samples"]) == (7, True)
    assert call.body["solver_max_tokens"] == 64


def test_programs_are_not_sampled_nor_tasks_that_no_replay_will_have() -> None:
    program = next(item for item in cross_domain(7) if item.answer_type is AnswerType.CODE)
    control = the_control()

    assert control.call(program, 7, ANSWERED) is None
    # A failed request leaves an empty reply.
    assert control.call(an_item(1), 7, {ASSESS: {}, SOLVE: {"votes": []}}) is None
    assert control.call(an_item(1), 7, {ASSESS: RATED, SOLVE: {}}) is None


def test_the_control_can_be_left_out() -> None:
    assert SAME_CALLS not in [arm.name for arm in arms(equal_compute=False)]


def test_the_most_frequent_answer_wins_and_of_several_the_first() -> None:
    assert most_frequent_is_right(drawn("5", "4", "4"))
    assert not most_frequent_is_right(drawn("5", "4"))
    assert most_frequent_is_right(drawn(None, None, "4", "5"))
    assert not most_frequent_is_right(drawn(None, None))


def test_each_task_gets_the_calls_that_the_procedure_made_on_it_in_each_order() -> None:
    # alpha first: 0.56 is enough, one rating and one answer. beta first: three ratings, and alpha's answer.
    made = a_task({"alpha": 0.6, "beta": 0.1, "gamma": 0.1}, "a", samples=drawn("5", "4", "4", None, "5", "5"))
    done = [one for turn in (0, 1) for one in replay([made], AGENTS, Rules(), turn=turn).done]

    chosen = same_calls(done)(made, 0)

    assert [one.calls for one in done] == [2, 4]
    # Two samples elect 5, which came first; four elect 4. 30 + 10 tokens, and 30 + 3 * 10.
    assert chosen is not None
    assert (chosen.right, chosen.calls, chosen.tokens) == (0.5, 3, 50)


def test_with_fewer_samples_than_calls_all_of_them_vote_and_without_any_nothing_is_known() -> None:
    rated = {"alpha": 0.1, "beta": 0.1, "gamma": 0.1}
    short, bare = a_task(rated, samples=drawn("4", "5", "4")), a_task(rated, number=1)
    [*done] = replay([short, bare], AGENTS, Rules()).done

    way = same_calls(done)

    assert [one.calls for one in done] == [6, 6]
    found = way(short, 0)
    assert found is not None
    assert (found.right, found.calls) == (1.0, 3)
    assert way(bare, 1) is None


def test_the_prompt_of_each_request_is_charged_with_the_first_of_its_samples() -> None:
    report = arbitration("4", [sample("4", 0, tokens=10 + place) for place in range(5)],
                       usage={**spent(5, 40, 60), "http_calls": 2})  # fmt: skip
    [made, *_] = tasks(
        recorded_evaluation(
            [*a_recording(2, honest=True), reply("t-0", SAME_CALLS, report, path="/v1/arbitrations")], COMMAND
        )
    )

    # 40 tokens in two requests: three samples of the first, two of the second.
    assert [one.tokens for one in made.samples] == [30, 11, 12, 33, 14]
    assert all(one.right for one in made.samples)


def test_the_report_sets_it_beside_the_procedure_on_the_tasks_that_have_samples(tmp_path: Path) -> None:
    made = sampled(a_recording(12, honest=True), "4", "4", "5", "5", "5", "5", leaving=2)
    found = {
        each.name: each for each in figures(tasks(recorded_evaluation(made, COMMAND)), [], seeded(7, draws=50)).methods
    }

    report = write_report(made, tmp_path, seeded(7, draws=50))

    # With two calls 4 wins, with four it came first of two equally frequent ones.
    assert found[SAME].accuracy.value == 1.0
    assert found[SAME].accuracy.items == 10
    # Everybody is right who is asked: no gain over it, and fewer calls than on all twelve tasks.
    gain = found[SAME].gain
    assert gain is not None
    assert gain.value == 0.0
    assert 0 < found[SAME].calls < found[FULL].calls
    assert re.search(r"\| self-consistency \| 1\.00 \[1\.00, 1\.00\] \|[^\n]* \| \*\*", report)
    assert "Fewer tasks, and compared on these: self-consistency 10." in report
    assert "Programs cannot be voted on" in report
    # By difficulty: the two tasks without samples are an easy one that crosses kinds, and a hard one.
    assert re.search(r"\| self-consistency \| [^\n]* \(3\) \| [^\n]* \(5\) \| [^\n]* \(2\) \|", report)


@pytest.mark.parametrize("more", [[], ["t-3"]])
def test_recordings_without_the_control_are_reported_on_as_before(tmp_path: Path, more: list[str]) -> None:
    lost = [{"kind": "reply", "item": item, "arm": SAME_CALLS, "seed": 7, "error": {"status": 400}} for item in more]

    report = write_report([*a_recording(12, honest=True), *lost], tmp_path, seeded(7, draws=50))

    assert "| self-consistency |" not in report
    assert "Programs cannot be voted on" not in report
    assert "**Table II**, 12 tasks. All methods but AutoGen are replayed" in report
