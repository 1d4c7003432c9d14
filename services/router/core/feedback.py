"""Feedback on an answer gives a label, from which calibration, experience and capability profiles may learn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from kernel.errors import InvalidArgument
from kernel.values import value

RIGHT_FROM = 0.5


class LabelOrigin(StrEnum):
    """An origin is how an answer came to be labelled.

    Source:
        Ours (papers.md 5.3): labels count for a promise only where they were drawn at random, in an exam or from served
        requests.
    """

    EXAM = "EXAM"
    SAMPLED = "SAMPLED"
    VOLUNTEERED = "VOLUNTEERED"


# Origins of labels that were drawn at random, and so say something of all answers.
DRAWN_AT_RANDOM = frozenset({LabelOrigin.EXAM, LabelOrigin.SAMPLED})


@value
class Learnable:
    """This value holds the parts of a run that feedback can teach.

    Attributes:
        confidence_source: Where its confidence comes from; empty when it has none.
        has_answer: Whether it has a question and an answer whose texts are stored.
        tasks: Delegation tasks that led to the answer.
    """

    confidence_source: str = ""
    has_answer: bool = False
    tasks: Sequence[str] = ()


@value
class FeedbackUse:
    """This value states the use that is made of feedback.

    Attributes:
        right: Whether the answer counts as right.
        calibrates: Whether it counts for the calibration of the confidence.
        becomes_experience: Whether question and answer become experience.
        tasks: Delegation tasks whose profiles learn.
    """

    right: bool
    calibrates: bool = False
    becomes_experience: bool = False
    tasks: Sequence[str] = ()


def score_of(*, correct: bool | None, score: float | None) -> float:
    """Return how right an answer was [0..1], given in one of two ways.

    Args:
        correct: Whether the answer is right; None: not given.
        score: How right it is [0..1]; None: not given.

    Raises:
        InvalidArgument: When both or neither are given, or the score is not in [0, 1].

    Example:
        >>> score_of(correct=True, score=None), score_of(correct=None, score=0.25)
        (1.0, 0.25)
    """
    if (correct is None) == (score is None):
        raise InvalidArgument("give either `correct` or `score`, and not both", field="correct")
    if score is None:
        return 1.0 if correct else 0.0
    if not math.isfinite(score) or not 0 <= score <= 1:
        raise InvalidArgument(f"score is {score}; it must lie in [0, 1]", field="score", score=str(score))
    return float(score)


def is_right(score: float) -> bool:
    """Return whether an answer of that score counts as right, where only right or wrong can be learned.

    Args:
        score: How right the answer is [0..1].
    """
    return score >= RIGHT_FROM


def use_of_feedback(score: float, run: Learnable, *, receivers: frozenset[str], counts: bool) -> FeedbackUse:
    """Return the use that is made of feedback.

    Args:
        score: How right the answer was [0..1].
        run: The parts of the run that feedback can teach.
        receivers: Who can learn beside calibration: `experience`, `delegation`.
        counts: Whether the feedback may teach, and is the first on its run that may.

    Source:
        Ours (papers.md 3.4): feedback counts once; it teaches profiles, verified answers and calibration.
    """
    right = is_right(score)
    if not counts:
        return FeedbackUse(right=right)
    return FeedbackUse(
        right=right,
        calibrates=bool(run.confidence_source),
        becomes_experience="experience" in receivers and right and run.has_answer,
        tasks=tuple(run.tasks) if "delegation" in receivers else (),
    )


def task_ids(account: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the identifiers of the delegation tasks in a strategy's own account, each once, in their order.

    Example:
        >>> task_ids({"task_id": "t-1", "profile_updates": [{"task_id": "t-1"}, {"task_id": "t-2"}], "answer": "4"})
        ('t-1', 't-2')
    """
    return tuple(dict.fromkeys(_task_ids(account or {})))


def _task_ids(item: Any) -> Iterator[str]:  # noqa: ANN401 - plain data is of any kind
    if isinstance(item, Mapping):
        named = item.get("task_id")
        if isinstance(named, str) and named:
            yield named
        item = list(item.values())
    if isinstance(item, list | tuple):
        for part in item:
            yield from _task_ids(part)
