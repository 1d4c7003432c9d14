"""Feedback gives a label, from which its receivers learn."""

import math

import pytest

from kernel.errors import InvalidArgument
from services.router.core.feedback import Learnable, is_right, score_of, task_ids, use_of_feedback

ALL_RECEIVERS = frozenset({"delegation", "experience"})
RUN = Learnable(confidence_source="delegation", has_answer=True, tasks=("t-1", "t-2"))


@pytest.mark.parametrize(
    ("correct", "score", "expected"), [(True, None, 1.0), (False, None, 0.0), (None, 0.7, 0.7), (None, 0, 0.0)]
)
def test_a_score_is_given_in_one_of_two_ways(correct: bool | None, score: float | None, expected: float) -> None:
    assert score_of(correct=correct, score=score) == expected


@pytest.mark.parametrize(
    ("correct", "score"), [(None, None), (True, 1.0), (None, math.nan), (None, math.inf), (None, -0.1), (None, 1.01)]
)
def test_what_is_no_score_is_rejected(correct: bool | None, score: float | None) -> None:
    with pytest.raises(InvalidArgument) as error:
        score_of(correct=correct, score=score)

    assert error.value.reason == "MALFORMED_REQUEST"


@pytest.mark.parametrize(("score", "right"), [(0.5, True), (0.49, False), (1.0, True), (0.0, False)])
def test_from_a_half_on_an_answer_counts_as_right(score: float, right: bool) -> None:
    assert is_right(score) is right


def test_a_right_answer_teaches_all_receivers() -> None:
    use = use_of_feedback(0.8, RUN, receivers=ALL_RECEIVERS, counts=True)

    assert (use.right, use.calibrates, use.becomes_experience) == (True, True, True)
    assert use.tasks == ("t-1", "t-2")


def test_a_wrong_answer_becomes_no_experience_and_teaches_the_others() -> None:
    use = use_of_feedback(0.2, RUN, receivers=ALL_RECEIVERS, counts=True)

    assert (use.right, use.calibrates, use.becomes_experience) == (False, True, False)
    assert use.tasks == ("t-1", "t-2")


def test_feedback_that_does_not_count_teaches_no_receiver() -> None:
    use = use_of_feedback(1.0, RUN, receivers=ALL_RECEIVERS, counts=False)

    assert (use.right, use.calibrates, use.becomes_experience, use.tasks) == (True, False, False, ())


def test_a_run_without_confidence_or_contents_calibrates_nothing_and_becomes_no_experience() -> None:
    use = use_of_feedback(1.0, Learnable(), receivers=ALL_RECEIVERS, counts=True)

    assert (use.calibrates, use.becomes_experience, use.tasks) == (False, False, ())


def test_a_receiver_that_is_not_there_gets_no_message() -> None:
    use = use_of_feedback(1.0, RUN, receivers=frozenset(), counts=True)

    assert (use.becomes_experience, use.tasks) == (False, ())


def test_the_tasks_of_a_run_are_in_the_strategys_account() -> None:
    assert task_ids(None) == ()
    assert task_ids({"stages": [{"text": "task_id"}]}) == ()
    assert task_ids({"task_id": "t-1", "votes": [{"task_id": "t-2"}, {"task_id": ""}], "n": {"task_id": 3}}) == (
        "t-1",
        "t-2",
    )
