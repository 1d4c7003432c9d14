"""How a profile moves with outcomes, who learns what from a verdict, and how a recorded order is replayed.

Source: SPEC 3.4, Eq. 4: p <- p + alpha (r - p).
"""

from collections.abc import Iterable, Sequence, Set
from enum import StrEnum

from kernel.values import value
from services.delegation.core.reading import START


class ProfileChange(StrEnum):
    """What changed a profile."""

    OUTCOME = "OUTCOME"
    RESET = "RESET"
    IMPORT = "IMPORT"


@value
class Lesson:
    """What one agent learns from a verdict: r is 1 for right and 0 for wrong."""

    agent: str
    outcome: int


@value
class Change:
    """One recorded change of a profile.

    Attributes:
        change: What it was.
        outcome: The outcome, r; None for other changes.
        learning_rate: Step toward it, alpha (0..1]; None for other changes.
        competence_after: Competence that a reset or an import set [0..1].
    """

    change: ProfileChange
    outcome: int | None = None
    learning_rate: float | None = None
    competence_after: float = START


def learned(competence: float, outcome: float, learning_rate: float = 0.1) -> float:
    """Competence after an outcome [0..1].

    The order of operations is that of the store's statement, so that both give the same bits.

    Source:
        SPEC 3.4, Eq. 4.

    Example:
        >>> learned(0.5, 1), learned(0.5, 0, 0.2)
        (0.55, 0.4)
    """
    return competence + learning_rate * (outcome - competence)


def replayed(changes: Iterable[Change], start: float = START) -> float:
    """Competence after a recorded order of changes [0..1]; an exponential mean depends on that order."""
    competence = start
    for one in changes:
        if one.change is ProfileChange.OUTCOME:
            assert one.outcome is not None
            assert one.learning_rate is not None
            competence = learned(competence, float(one.outcome), one.learning_rate)
        else:
            competence = one.competence_after
    return competence


def lessons(*, executor: str, voters: Sequence[str], winners: Set[str], correct: bool) -> list[Lesson]:
    """Who learns what from a verdict on a task's answer.

    Args:
        executor: Who solved the task; empty when all did.
        voters: Everybody who wrote something, when all did.
        winners: Those of them whose answer won.
        correct: Whether the answer was right.

    Source:
        SPEC 3.4: the agent that executed, as the paper's text has it (its Algorithm 1 writes the first one). After a
        vote: if the answer was right, those who gave it get r = 1 and the others 0; if it was wrong, those who gave it
        get r = 0 and the others, whose answers nobody checked, nothing. A vote without a valid answer teaches nobody.

    Example:
        >>> [f"{one.agent}{one.outcome}" for one in lessons(executor="", voters="abc", winners={"a"}, correct=True)]
        ['a1', 'b0', 'c0']
        >>> [f"{one.agent}{one.outcome}" for one in lessons(executor="", voters="abc", winners={"a"}, correct=False)]
        ['a0']
    """
    if executor:
        return [Lesson(agent=executor, outcome=int(correct))]
    if not winners:
        return []
    taught = voters if correct else [voter for voter in voters if voter in winners]
    return [Lesson(agent=voter, outcome=int(correct and voter in winners)) for voter in taught]


def memory_rate(learning_rate: float, since_change: int | None) -> float:
    """Step toward the next outcome while a detected change is recent (0..1].

    Args:
        learning_rate: Step in ordinary times, alpha (0..1].
        since_change: Observations since the change [count, >= 1]; None when none is recent.

    Returns:
        max(alpha, 2 / (s + 2)): the estimate rests on the s observations since the change and the one that comes, for
        an exponential mean with step a rests on (2 - a) / a of them.

    Example:
        >>> memory_rate(0.1, 8), memory_rate(0.1, 40), memory_rate(0.1, None)
        (0.2, 0.1, 0.1)
    """
    return learning_rate if since_change is None else max(learning_rate, 2.0 / (since_change + 2))
