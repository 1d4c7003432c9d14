"""Gains: how much better one arm is than another on the same items, and what may be concluded. Pure."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy import stats

from evals.stats.bootstrap_means import NOTHING, percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

Scores = npt.NDArray[np.float64]

# Fewer items that differ allow no conclusion: if all go one way, chance does so more often than 1 time in 20 (2 / 2^5).
LEAST_ITEMS = 6
# What the sign test must stay below, as 95 % intervals do.
SIGNIFICANCE = 0.05


class Conclusion(StrEnum):
    """The conclusion that an interval allows."""

    GAIN = "gain"
    LOSS = "loss"
    NONE = "no gain"
    UNKNOWN = "too few items"


@value
class Contrast(Estimate):
    """A difference between two arms, and on how many items it rests.

    Attributes:
        counted: Items that it is taken from [count]; of areas those of the rarer outcome.
        differing: Items on which the arms differ [count]: all others do not show which is better.
        by_signs: Probability that chance alone divides these as unevenly, where each is right by one arm and wrong by
            the other (exact sign test, two-sided) [0..1]; None where the scores are not of that kind.
    """

    counted: int
    differing: int
    by_signs: float | None = None


@value
class Spread:
    """A figure over repetitions.

    Attributes:
        mean: Mean over the seeds; None without any.
        deviation: Standard deviation over the seeds (n - 1); None with fewer than two.
        seeds: Seeds [count].
    """

    mean: float | None
    deviation: float | None
    seeds: int


def conclusion(found: Estimate) -> Conclusion:
    """The conclusion on a difference: a gain whose interval holds zero is no gain, and few items allow none.

    A gain, or a loss, needs `LEAST_ITEMS` items that differ: an interval that holds zero is no gain whatever their
    number, and one that does not may be chance where they are fewer. With few more of them the percentile bootstrap is
    too sure, so that the exact sign test must agree where there is one.

    Example:
        >>> conclusion(Estimate(value=0.1, low=-0.01, high=0.2, items=50, resamples=2000))
        <Conclusion.NONE: 'no gain'>
        >>> conclusion(Estimate(value=0.1, low=0.01, high=0.2, items=50, resamples=2000))
        <Conclusion.GAIN: 'gain'>
        >>> conclusion(Contrast(value=0.1, low=0.01, high=0.2, items=50, resamples=2000, counted=50, differing=5))
        <Conclusion.UNKNOWN: 'too few items'>
    """
    counted, differing = _rests_on(found)
    if found.low is None or found.high is None or counted < LEAST_ITEMS:
        return Conclusion.UNKNOWN
    if not found.excludes_zero:
        return Conclusion.NONE
    if differing < LEAST_ITEMS:
        return Conclusion.UNKNOWN
    if isinstance(found, Contrast) and found.by_signs is not None and found.by_signs > SIGNIFICANCE:
        return Conclusion.NONE
    return Conclusion.GAIN if found.low > 0 else Conclusion.LOSS


def contrast(found: Estimate, counted: int, differing: int, by_signs: float | None = None) -> Contrast:
    """`found` as a difference that is taken from `counted` items, `differing` of which differ."""
    return Contrast(
        value=found.value,
        low=found.low,
        high=found.high,
        items=found.items,
        resamples=found.resamples,
        counted=counted,
        differing=differing,
        by_signs=by_signs,
    )


def mean_interval(scores: Sequence[float] | Scores, chance: Chance) -> Estimate:
    """A mean with its percentile interval by bootstrap; one score for each item."""
    column = np.asarray(scores, dtype=np.float64)
    if not len(column):
        return NOTHING
    return percentile_estimate(float(column.mean()), resampled_means(column[None], chance)[:, 0], len(column))


def paired_gain(before: Sequence[float] | Scores, after: Sequence[float] | Scores, chance: Chance) -> Contrast:
    """Return how much higher the mean of `after` is, item by item, with its paired bootstrap interval.

    Args:
        before: Score of each item [0..1]; over several seeds their mean, so that an item is drawn as a whole.
        after: Scores of the same items in the same order.
        chance: For resampling.

    Raises:
        ValueError: When they are not equally many.

    Example:
        >>> from evals.stats.chance import seeded
        >>> found = paired_gain([0, 0, 1, 1] * 10, [0, 1, 1, 1] * 10, seeded(7))
        >>> found.value, found.excludes_zero
        (0.25, True)
    """
    better = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    found, differing = mean_interval(better, chance), int(np.count_nonzero(better))
    return contrast(found, len(better), differing, sign_test(better))


def sign_test(differences: Sequence[float] | Scores) -> float | None:
    """Probability that chance alone divides differences as unevenly, two-sided and exact; equal pairs do not count.

    Args:
        differences: -1, 0 or 1 for each item.

    Returns:
        A probability [0..1]; None where some difference is another, or none is there.

    Example:
        >>> sign_test([1, 1, 1, 1, 1, 1, 0])  # 2 / 2 ** 6
        0.03125
    """
    signs = np.asarray(differences, dtype=np.float64)
    signs = signs[signs != 0]
    if not len(signs) or not np.all(np.abs(signs) == 1):
        return None
    return float(stats.binomtest(int((signs > 0).sum()), len(signs)).pvalue)


def _rests_on(found: Estimate) -> tuple[int, int]:
    return (found.counted, found.differing) if isinstance(found, Contrast) else (found.items, found.items)


def spread(by_seed: Sequence[float]) -> Spread:
    """Mean and standard deviation over repetitions, as the papers print them.

    Example:
        >>> spread([0.8, 0.9, 1.0])
        Spread(mean=0.9, deviation=0.1, seeds=3)
    """
    if not by_seed:
        return Spread(mean=None, deviation=None, seeds=0)
    deviation = round(float(np.std(by_seed, ddof=1)), 12) if len(by_seed) > 1 else None
    return Spread(mean=round(float(np.mean(by_seed)), 12), deviation=deviation, seeds=len(by_seed))
