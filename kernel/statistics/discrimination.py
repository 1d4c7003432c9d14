"""Discrimination is how well a level separates two kinds of items."""

from collections.abc import Sequence
from math import log, sqrt

import numpy as np
from scipy.special import expit

from kernel.statistics.intervals import Z95, Interval, wilson
from kernel.statistics.samples import Array, Flags, Numbers
from kernel.values import value


@value
class Discrimination:
    """This value is the area under the receiver operating characteristic, with its interval.

    Attributes:
        auroc: Probability that a positive one has the higher level than a negative one, ties half [0..1]; None unless
            there are both.
        low: Lower end of its 95 % interval [0..1].
        high: Upper end of its 95 % interval [0..1].
        positives: Positive ones [count].
        negatives: Negative ones [count].
        exact: Whether the interval is DeLong's. Where the levels leave his variance at 0 (all apart, all tied, one of a
            kind) it is the much wider Wilson interval of as many coins as there are of the rarer kind.
    """

    auroc: float | None
    low: float | None
    high: float | None
    positives: int
    negatives: int
    exact: bool = True


def auroc(levels: Numbers, positive: Sequence[bool] | Flags) -> Discrimination:
    """Measure how well `levels` separate the positive from the negative.

    Args:
        levels: A level of each item [any finite number]; only their order matters.
        positive: Whether each item is positive.

    Returns:
        The area with DeLong's 95 % interval, laid on the log-odds of the area so that it stays inside [0, 1].

    Raises:
        ValueError: When they are not equally many, or a level is not a number.

    Source:
        Mann and Whitney 1947; DeLong, DeLong and Clarke-Pearson 1988, by midranks as Sun and Xu 2014 (papers.md 4.4).

    Example:
        >>> auroc([0.1, 0.4, 0.4, 0.8], [False, False, True, True]).auroc
        0.875
    """
    level, is_positive = np.asarray(levels, dtype=np.float64), np.asarray(positive, dtype=np.bool_)
    if level.shape != is_positive.shape or level.ndim != 1:
        raise ValueError(f"there are {level.size} levels and {is_positive.size} kinds")
    if not bool(np.all(np.isfinite(level))):
        raise ValueError("levels must be numbers")
    above, below = level[is_positive], level[~is_positive]
    m, n = len(above), len(below)
    if not m or not n:
        return Discrimination(auroc=None, low=None, high=None, positives=m, negatives=n, exact=False)
    wins, losses = _placements(above, below)
    area = float(wins.mean())
    spread = _deviation(wins, losses)
    interval = _on_log_odds(area, spread) if spread > 0 and 0 < area < 1 else _coins(area, min(m, n))
    return Discrimination(
        auroc=round(area, 12), low=interval.low, high=interval.high, positives=m, negatives=n, exact=spread > 0
    )


def _placements(above: Array, below: Array) -> tuple[Array, Array]:
    """Return the share of negatives below each positive, and the share of positives above each negative."""
    ranks = _midranks(np.concatenate([above, below]))
    m, n = len(above), len(below)
    return (ranks[:m] - _midranks(above)) / n, 1 - (ranks[m:] - _midranks(below)) / m


def _midranks(levels: Array) -> Array:
    """Return the rank of each level from 1; those that are alike share the mean of theirs."""
    _, where, counts = np.unique(levels, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[where]
    return ranks


def _deviation(wins: Array, losses: Array) -> float:
    """Return DeLong's standard deviation of the area; 0 where it is undefined."""
    if min(len(wins), len(losses)) < 2:
        return 0.0
    deviation = sqrt(float(wins.var(ddof=1)) / len(wins) + float(losses.var(ddof=1)) / len(losses))
    return deviation if deviation > 1e-9 else 0.0


def _on_log_odds(area: float, deviation: float) -> Interval:
    centre, half = log(area / (1 - area)), Z95 * deviation / (area * (1 - area))
    return Interval(low=round(float(expit(centre - half)), 12), high=round(float(expit(centre + half)), 12))


def _coins(area: float, n: int) -> Interval:
    return wilson(area * n, n)
