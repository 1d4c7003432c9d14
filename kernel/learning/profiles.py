"""A capability profile estimates an agent's competence; this module computes its number and its certainty.

A profile is an exponential mean, so it rests on few observations however many were made: (2 - alpha) / alpha = 19 at
alpha = 0.1. Read as a Beta distribution over that many, it gives intervals and draws.
"""

from collections.abc import Iterable, Sequence, Set
from enum import StrEnum

import numpy as np
from scipy.special import betaincinv

from kernel.confidence.rules import LEARNING_RATE
from kernel.statistics.samples import effective_size
from kernel.thresholds import DECIMALS
from kernel.values import value

INITIAL_COMPETENCE = 0.5
TAIL = 0.025


@value
class Profile:
    """A profile is an agent's record in one dimension.

    Attributes:
        agent: The agent.
        dimension: The dimension.
        competence: Estimated probability of a right answer [0..1].
        observations: Outcomes learned since the start or the last reset [count].
        memory: Observations that the estimate rests on [count, >= 0].
        weight: Weight of all outcomes in the competence [0..1]; the rest is that of the start.
        learning_rate: Step toward the next outcome [0 < alpha <= 1].
        frozen: Whether outcomes teach it nothing for now.
    """

    agent: str
    dimension: str
    competence: float = INITIAL_COMPETENCE
    observations: int = 0
    memory: float = 0.0
    weight: float = 1.0
    learning_rate: float = LEARNING_RATE
    frozen: bool = False


@value
class CompetenceInterval:
    """This is a 95 % interval of competence [0..1]."""

    low: float
    high: float


def full_memory(learning_rate: float) -> float:
    """Return the observations that an exponential mean rests on in the long run [count].

    Args:
        learning_rate: Step toward an outcome, alpha [0 < alpha <= 1].

    Source:
        Ours (papers.md 3.4): the variance of such a mean is that of (2 - alpha) / alpha observations, not of 1 / alpha.

    Example:
        >>> round(full_memory(0.1), 9)
        19.0
    """
    return (2.0 - learning_rate) / learning_rate


def memory(weight: float, squares: float) -> float:
    """Return the observations that an estimate rests on, from the weights that outcomes have in it [count].

    Args:
        weight: Sum of the weights of all outcomes [0..1]; the rest is the weight of the start.
        squares: Sum of their squares [0..1].

    Source:
        Kish 1965, effective sample size (papers.md 3.4): (sum w)^2 / sum w^2; it grows from 1 to (2 - alpha) / alpha.

    Example:
        >>> memory(0.1, 0.01), round(memory(1.0, 1 / 19), 9), memory(0.0, 0.0)
        (1.0, 19.0, 0.0)
    """
    return round(effective_size(weight, squares), DECIMALS)


def beta_reading(profile: Profile) -> tuple[float, float]:
    """Return the parameters a and b of the Beta distribution that a profile stands for.

    Returns:
        The parameters a and b [both >= 1].

    Source:
        Ours (papers.md 3.4), of the outcomes alone: m = (p - .5 (1 - w)) / w is their mean, from which the start that
        still weighs 1 - w in the competence p is taken out. The uniform prior is ours: without an outcome everything is
        equally likely.

    Example:
        >>> beta_reading(Profile(agent="a", dimension="d")), beta_reading(
        ...     Profile(agent="a", dimension="d", competence=0.75, memory=4.0)
        ... )
        ((1.0, 1.0), (4.0, 2.0))
        >>> beta_reading(Profile(agent="a", dimension="d", competence=0.55, memory=1.0, weight=0.1))
        (2.0, 1.0)
    """
    mean = outcome_mean(profile.competence, profile.weight)
    return 1.0 + profile.memory * mean, 1.0 + profile.memory * (1.0 - mean)


def outcome_mean(competence: float, weight: float) -> float:
    """Return the mean of the outcomes alone [0..1], without the start that the competence still holds.

    Args:
        competence: Competence, which the start has a part in [0..1].
        weight: Weight of the outcomes in it [0..1]; with 0 the mean is that of the start.

    Example:
        >>> outcome_mean(0.55, 0.1), outcome_mean(0.8, 1.0), outcome_mean(0.5, 0.0)
        (1.0, 0.8, 0.5)
    """
    if weight <= 0:
        return INITIAL_COMPETENCE
    return round(min(1.0, max(0.0, (competence - INITIAL_COMPETENCE * (1.0 - weight)) / weight)), DECIMALS)


def interval(profile: Profile) -> CompetenceInterval:
    """Return the central 95 % of the Beta distribution, widened to hold the competence itself at the ends of the range.

    Example:
        >>> nothing = interval(Profile(agent="a", dimension="d"))
        >>> round(nothing.low, 3), round(nothing.high, 3)
        (0.025, 0.975)
    """
    a, b = beta_reading(profile)
    low, high = (float(betaincinv(a, b, tail)) for tail in (TAIL, 1.0 - TAIL))
    return CompetenceInterval(
        low=round(min(low, profile.competence), DECIMALS), high=round(max(high, profile.competence), DECIMALS)
    )


@value
class ProfileEstimate:
    """This value is what an agent's profiles estimate for one task, which may need several dimensions.

    Attributes:
        agent: The agent.
        profile: Least competence over the task's dimensions, c^p [0..1].
        limiting_dimension: Where it is.
        observations: Observations behind it [count].
        low: Least lower end of the intervals [0..1].
    """

    agent: str
    profile: float
    limiting_dimension: str
    observations: int
    low: float


def profile_estimate(profiles: Sequence[Profile]) -> ProfileEstimate:
    """Return what an agent's profiles in a task's dimensions, in their order, estimate for the task.

    Source:
        MetaCogAgent Eq. 1 (papers.md 3.1): c^p is the minimum over the dimensions; of equal ones the first names it.
    """
    least = min(profiles, key=lambda one: round(one.competence, DECIMALS))
    return ProfileEstimate(
        agent=least.agent,
        profile=least.competence,
        limiting_dimension=least.dimension,
        observations=least.observations,
        low=min(interval(one).low for one in profiles),
    )


def sampled_competence(profiles: Sequence[Profile], rng: np.random.Generator) -> float:
    """Draw a competence from the Beta distributions, the least over the dimensions [0..1]."""
    return min(float(rng.beta(*beta_reading(one))) for one in profiles)


def upper_bound(profiles: Sequence[Profile]) -> float:
    """Return the upper end of the intervals, the least over the dimensions [0..1]."""
    return min(interval(one).high for one in profiles)


class ProfileChange(StrEnum):
    """This is the kind of event that changed a profile."""

    OUTCOME = "OUTCOME"
    RESET = "RESET"
    IMPORT = "IMPORT"


@value
class Lesson:
    """A lesson is what one agent learns from a label: r is 1 for right and 0 for wrong.

    Attributes:
        agent: Who learns.
        outcome: Outcome, r [right 1, wrong 0].
    """

    agent: str
    outcome: int


@value
class Change:
    """This value is one recorded change of a profile.

    Attributes:
        change: What it was.
        outcome: The outcome, r [right 1, wrong 0]; None for other changes.
        learning_rate: Step toward it, alpha [0 < alpha <= 1]; None for other changes.
        competence_after: Competence that a reset or an import set [0..1].
    """

    change: ProfileChange
    outcome: int | None = None
    learning_rate: float | None = None
    competence_after: float = INITIAL_COMPETENCE


def updated_competence(competence: float, outcome: float, learning_rate: float = LEARNING_RATE) -> float:
    """Return the competence after an outcome [0..1].

    The order of operations is that of the store's statement, so that both give the same bits.

    Args:
        competence: Competence before [0..1].
        outcome: Outcome, r [right 1, wrong 0].
        learning_rate: Step toward it, alpha [0 < alpha <= 1].

    Source:
        MetaCogAgent Eq. 4 (papers.md 3.4).

    Example:
        >>> updated_competence(0.5, 1), updated_competence(0.5, 0, 0.2)
        (0.55, 0.4)
    """
    return competence + learning_rate * (outcome - competence)


def replayed_competence(changes: Iterable[Change], start: float = INITIAL_COMPETENCE) -> float:
    """Return the competence after a recorded order of changes [0..1]; an exponential mean depends on that order.

    Args:
        changes: The changes, oldest first.
        start: Competence before the first [0..1].
    """
    competence = start
    for one in changes:
        if one.change is ProfileChange.OUTCOME:
            assert one.outcome is not None
            assert one.learning_rate is not None
            competence = updated_competence(competence, float(one.outcome), one.learning_rate)
        else:
            competence = one.competence_after
    return competence


def lessons(*, executor: str, voters: Sequence[str], winners: Set[str], correct: bool) -> list[Lesson]:
    """Return who learns what from the label of a task's answer.

    Args:
        executor: Who solved the task; empty when all did.
        voters: Everybody who wrote something, when all did.
        winners: Those of them whose answer won.
        correct: Whether the answer was right.

    Source:
        MetaCogAgent III-D (papers.md 3.4): the agent that executed, as the paper's text has it (its Algorithm 1 writes
        the first one). After a vote: if the answer was right, those who gave it get r = 1 and the others 0; if it was
        wrong, those who gave it get r = 0 and the others, whose answers have no label, nothing. A vote without a valid
        answer teaches no agent.

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
    """Return the step toward the next outcome while a detected change is recent [0 < step <= 1].

    Args:
        learning_rate: Step in ordinary times, alpha [0 < alpha <= 1].
        since_change: Observations since the change [count, >= 1]; None when none is recent.

    Returns:
        max(alpha, 2 / (s + 2)): the estimate rests on the s observations since the change and the next one, for
        an exponential mean with step a rests on (2 - a) / a of them.

    Source:
        Ours (papers.md 3.6): the mean of the s outcomes since a change has the rate 2 / (s + 2).

    Example:
        >>> memory_rate(0.1, 8), memory_rate(0.1, 40), memory_rate(0.1, None)
        (0.2, 0.1, 0.1)
    """
    return learning_rate if since_change is None else max(learning_rate, 2.0 / (since_change + 2))
