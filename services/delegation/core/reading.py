"""What a profile's number says about an agent, and how surely.

A profile is an exponential mean, so it rests on few observations however many were made: (2 - alpha) / alpha = 19 at
alpha = 0.1. Read as a Beta distribution over that many, it gives intervals and draws.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv

from kernel.thresholds import DECIMALS
from kernel.values import value

START = 0.5
TAIL = 0.025


@value
class Profile:
    """An agent's record in one dimension.

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
    competence: float = START
    observations: int = 0
    memory: float = 0.0
    weight: float = 1.0
    learning_rate: float = 0.1
    frozen: bool = False


@value
class Interval:
    """A 95 % interval of competence [0..1]."""

    low: float
    high: float


def full_memory(learning_rate: float) -> float:
    """Observations that an exponential mean rests on in the long run [count].

    Source:
        SPEC 3.4: the variance of such a mean is that of (2 - alpha) / alpha observations, not of 1 / alpha.

    Example:
        >>> round(full_memory(0.1), 9)
        19.0
    """
    return (2.0 - learning_rate) / learning_rate


def memory(weight: float, squares: float) -> float:
    """Observations that an estimate rests on, from the weights that outcomes have in it [count].

    Args:
        weight: Sum of the weights of all outcomes [0..1]; the rest is the weight of the start.
        squares: Sum of their squares [0..1].

    Source:
        Kish's effective sample size, (sum w)^2 / sum w^2; it grows from 1 to (2 - alpha) / alpha.

    Example:
        >>> memory(0.1, 0.01), round(memory(1.0, 1 / 19), 9), memory(0.0, 0.0)
        (1.0, 19.0, 0.0)
    """
    return round(weight * weight / squares, DECIMALS) if squares > 0 else 0.0


def beta_reading(profile: Profile) -> tuple[float, float]:
    """Parameters a and b of the Beta distribution that a profile is read as.

    Source:
        SPEC 3.4, of the outcomes alone: m = (p - .5 (1 - w)) / w is their mean, from which the start that still weighs
        1 - w in the competence p is taken out. The uniform prior is ours: without an outcome everything is equally
        likely.

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
    """Mean of the outcomes alone [0..1], from a competence in which they weigh `weight` and the start the rest.

    Example:
        >>> outcome_mean(0.55, 0.1), outcome_mean(0.8, 1.0), outcome_mean(0.5, 0.0)
        (1.0, 0.8, 0.5)
    """
    if weight <= 0:
        return START
    return round(min(1.0, max(0.0, (competence - START * (1.0 - weight)) / weight)), DECIMALS)


def interval(profile: Profile) -> Interval:
    """Central 95 % of the Beta reading, widened to hold the competence itself at the ends of the range.

    Example:
        >>> nothing = interval(Profile(agent="a", dimension="d"))
        >>> round(nothing.low, 3), round(nothing.high, 3)
        (0.025, 0.975)
    """
    a, b = beta_reading(profile)
    low, high = (float(betaincinv(a, b, tail)) for tail in (TAIL, 1.0 - TAIL))
    return Interval(
        low=round(min(low, profile.competence), DECIMALS), high=round(max(high, profile.competence), DECIMALS)
    )


@value
class Reading:
    """What an agent's record says about one task, which may ask for several dimensions.

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


def reading(profiles: Sequence[Profile]) -> Reading:
    """What an agent's profiles in a task's dimensions, in their order, say about the task.

    Source:
        SPEC 3.1: c^p is the minimum over the dimensions; of equal ones the first names it.
    """
    least = min(profiles, key=lambda one: round(one.competence, DECIMALS))
    return Reading(
        agent=least.agent,
        profile=least.competence,
        limiting_dimension=least.dimension,
        observations=least.observations,
        low=min(interval(one).low for one in profiles),
    )


def drawn(profiles: Sequence[Profile], rng: np.random.Generator) -> float:
    """A competence drawn from the Beta readings, the least over the dimensions [0..1]."""
    return min(float(rng.beta(*beta_reading(one))) for one in profiles)


def upper_bound(profiles: Sequence[Profile]) -> float:
    """Upper end of the intervals, the least over the dimensions [0..1]."""
    return min(interval(one).high for one in profiles)
