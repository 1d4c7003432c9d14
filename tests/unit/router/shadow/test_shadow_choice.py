"""Which runs get a shadow, and when two answers are the same."""

import pytest

from chassis.ids import new_id
from kernel.answers import AnswerType
from services.router.core.shadow import AnswerAgreement, UnknownAgreement, agreement, has_shadow

SUM = "What is 2 + 2?"
CITY = "What is the capital of France?"


def test_the_share_of_runs_is_the_one_asked_for_whatever_the_replica() -> None:
    # 4,000 of 20,000 identifiers, with a standard deviation of √(20,000 * .2 * .8) = 57: within six of them.
    names = [f"run-{number}" for number in range(20_000)]
    chosen = {name for name in names if has_shadow(name, 0.2)}

    assert abs(len(chosen) - 4_000) < 6 * 57
    assert chosen == {name for name in reversed(names) if has_shadow(name, 0.2)}


def test_a_larger_share_contains_the_smaller() -> None:
    names = [new_id() for _ in range(500)]

    assert {name for name in names if has_shadow(name, 0.1)} <= {name for name in names if has_shadow(name, 0.3)}
    assert not any(has_shadow(name, 0.0) for name in names)
    assert all(has_shadow(name, 1.0) for name in names)


@pytest.mark.parametrize(
    ("question", "one", "other", "agrees"),
    [
        (SUM, "It is 4.", "Two and two make 4.0.\nFinal Answer: 4", True),
        (SUM, "It is 4.", "It is 5.", False),
        (CITY, "Paris.", "paris", True),
        (CITY, "Paris.", "Lyon.", False),
        ("Why is it so?", "Since it rained, and so on.", " Since it rained, and so on. ", True),
    ],
)
def test_answers_are_compared_by_the_equality_of_their_type(
    question: str, one: str, other: str, *, agrees: bool
) -> None:
    assert agreement(question, one, other) == agreement(question, other, one) == AnswerAgreement(agrees=agrees)


@pytest.mark.parametrize(
    ("one", "other", "agrees"),
    [("$18", "18", True), ("10", "10 km", True), ("10 km", "10,000 m", True), ("10 km", "10 miles", False)],
)
def test_numbers_are_compared_with_their_units(one: str, other: str, *, agrees: bool) -> None:
    assert agreement("How many?", one, other, AnswerType.NUMBER) == AnswerAgreement(agrees=agrees)
    assert agreement("How many?", other, one, AnswerType.NUMBER) == AnswerAgreement(agrees=agrees)


@pytest.mark.parametrize(
    ("question", "one", "other", "answer_type", "reason"),
    [
        (SUM, "It is 4.", " ", None, "NO_ANSWER"),
        (SUM, "It is 4.", "I do not know.", None, "DIFFERENT_TYPES"),
        (SUM, "It is 4.", "I do not know.", AnswerType.NUMBER, "NO_SHORT_ANSWER"),
        (CITY, "Paris.", "The capital is Paris.", None, "WORDING"),
        (CITY, "Paris.", "It rained for a long time there, " * 5, AnswerType.TEXT, "LONG_ANSWER"),
        ("Write f.", "def f(): return 1", "def f(): return 2 - 1", AnswerType.CODE, "PROGRAM"),
        ("What is it?", r"Final Answer: \sqrt{8}", r"Final Answer: 2\sqrt{2}", AnswerType.NUMBER, "MATHEMATICS"),
    ],
)
def test_what_cannot_be_compared_is_unknown_with_its_reason(
    question: str, one: str, other: str, answer_type: AnswerType | None, reason: str
) -> None:
    expected = AnswerAgreement(not_compared=UnknownAgreement(reason))

    assert agreement(question, one, other, answer_type) == agreement(question, other, one, answer_type) == expected
