"""Answers are marked once, and what is shown of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.answers.batch_lines import BatchResult
from cli.exam.arms import ArmKind, ExamArm
from cli.exam.journal import ExamIdentity, ExamJournal, Mark, open_exam
from cli.exam.requests import AnswerOutcome, ExamAnswer, ExamQuestion, answer_of, questions
from cli.exam.results import gains, results
from cli.exam.taking import left_of, mark_all
from evals.items import Item
from kernel.answers import AnswerType

ONE, TWO = ExamArm(kind=ArmKind.STRATEGY, name="system1"), ExamArm(kind=ArmKind.STRATEGY, name="vote")
ADA = ExamArm(kind=ArmKind.AGENT, name="ada")


def item(name: str, **more: Any) -> Item:  # noqa: ANN401
    facts = {"dataset": "d", "question": "?", "answer": "4", "answer_type": AnswerType.NUMBER, "dimension": "sums"}
    return Item(id=name, **{**facts, **more})


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[ExamJournal]:
    with open_exam(tmp_path / "journal") as opened:
        opened.start(ExamIdentity(tasks="d", per_kind=1, seed=0, arms="a", max_tokens=1), [ONE, TWO])
        yield opened


def given(journal: ExamJournal, question: ExamQuestion, text: str, outcome: str = "ANSWERED") -> None:
    names: dict[str, Any] = {"token": question.token, "arm": question.arm.label, "item": question.item.id}
    journal.answered(ExamAnswer(**names, outcome=AnswerOutcome(outcome), text=text, record="r"))


@pytest.mark.parametrize(
    ("asked", "text", "right"),
    [
        (item("a"), "Two and two.\nFinal Answer: 4", True),
        (item("a"), "Final Answer: 5", False),
        (item("a"), "I cannot tell.", False),
        (
            item("a", answer_type=AnswerType.TEXT, answer="a river", aliases=["a stream"]),
            "Final Answer: a stream",
            True,
        ),
        (
            item(
                "a", answer_type=AnswerType.TEXT, answer="Because the light of the sun is scattered by the air in it."
            ),
            "Final Answer: Since air scatters the sunlight, blue most of all the colours, it looks blue from below.",
            None,
        ),
        (
            item("a", answer_type=AnswerType.CODE, answer="def f(): return 4", tests="assert f() == 4"),
            "```python\ndef f():\n    return 4\n```",
            True,
        ),
        (
            item("a", answer_type=AnswerType.CODE, answer="def f(): return 4", tests="assert f() == 4"),
            "```python\ndef f():\n    return 5\n```",
            False,
        ),
    ],
)
def test_an_answer_is_right_wrong_or_cannot_be_compared(
    journal: ExamJournal, asked: Item, text: str, right: bool | None
) -> None:
    own = questions(journal.journal_id, [ONE], [asked])
    given(journal, own[0], text)

    mark_all(own, journal)

    assert journal.marks[own[0].token].right is right


def test_a_mark_is_made_once(journal: ExamJournal) -> None:
    own = questions(journal.journal_id, [ONE], [item("a")])
    given(journal, own[0], "Final Answer: 4")
    journal.marked(Mark(token=own[0].token, right=False, answer="by hand"))

    mark_all(own, journal)

    assert journal.marks[own[0].token].answer == "by hand"


def test_a_share_is_of_the_compared_answers_and_the_rest_is_counted_apart(journal: ExamJournal) -> None:
    own = questions(journal.journal_id, [ONE], [item(name) for name in "abcdef"])
    for question, text in zip(own, ["4", "4", "5"], strict=False):
        given(journal, question, f"Final Answer: {text}")
    given(journal, own[3], "", "ABSTAINED")
    given(journal, own[4], "", "FAILED")
    mark_all(own, journal)

    [row] = results(own, journal)

    assert (row.asked, row.right.count, row.right.of, row.abstained, row.failed) == (5, 2, 3, 1, 1)
    assert [question.item.id for question in left_of(own, journal)] == ["e", "f"]


def test_a_gain_counts_only_questions_that_are_labelled_for_both(journal: ExamJournal) -> None:
    own = questions(journal.journal_id, [ONE, TWO], [item(name) for name in "abc"])
    for question in own:
        if question.item.id != "c" or question.arm == TWO:
            given(journal, question, "Final Answer: 4" if question.arm == TWO else "Final Answer: 5")
    mark_all(own, journal)

    [row] = gains(own, journal, seed=0)

    assert (row.arm, row.kind, row.gain.labels, row.gain.gain) == ("strategy:vote", "sums", 2, 1.0)


def test_without_system_one_there_is_no_gain(journal: ExamJournal) -> None:
    own = questions(journal.journal_id, [TWO], [item("a")])
    given(journal, own[0], "Final Answer: 4")
    mark_all(own, journal)

    assert list(gains(own, journal, seed=0)) == []


@pytest.mark.parametrize(
    ("arm", "body", "outcome", "text", "record"),
    [
        (
            ONE,
            {"choices": [{"message": {"content": "4"}}], "metacog": {"run_id": "r", "outcome": "ANSWERED"}},
            AnswerOutcome.ANSWERED,
            "4",
            "r",
        ),
        (
            ONE,
            {"choices": [{"message": {"content": "no answer"}}], "metacog": {"run_id": "r", "outcome": "ABSTAINED"}},
            AnswerOutcome.ABSTAINED,
            "",
            "r",
        ),
        (ADA, {"task_id": "t", "answer_text": "4", "outcome": "ANSWERED"}, AnswerOutcome.ANSWERED, "4", "t"),
        (ONE, "not JSON", AnswerOutcome.FAILED, "", ""),
    ],
)
def test_a_reply_is_an_answer_an_abstention_or_a_failure(
    arm: ExamArm,
    body: object,
    outcome: AnswerOutcome,
    text: str,
    record: str,
) -> None:
    [question] = questions("journal", [arm], [item("a")])

    found = answer_of(question, BatchResult(custom_id=question.token, digest="", status=200, body=body))

    assert (found.outcome, found.text, found.record) == (outcome, text, record)


def test_an_answer_that_a_promise_withholds_is_labelled_all_the_same() -> None:
    [question] = questions("journal", [ONE], [item("a")])
    own = {"run_id": "r", "outcome": "ABSTAINED", "promise": {"state": "WITHHELD", "withheld": "It is 4."}}
    body = {"choices": [{"message": {"content": "No answer was given."}}], "metacog": own}

    found = answer_of(question, BatchResult(custom_id=question.token, digest="", status=200, body=body))

    assert (found.outcome, found.text, found.record) == (AnswerOutcome.ANSWERED, "It is 4.", "r")


def test_a_failure_has_its_reason() -> None:
    [question] = questions("journal", [ONE], [item("a")])
    body = {"error": {"message": "out of order"}}

    found = answer_of(question, BatchResult(custom_id=question.token, digest="", status=400, body=body))

    assert (found.outcome, found.error) == (AnswerOutcome.FAILED, "out of order")
