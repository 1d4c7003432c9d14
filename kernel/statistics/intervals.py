"""This module computes intervals of shares."""

from math import sqrt

from kernel.values import value

# Quantile of the normal distribution for two-sided 95 %.
Z95 = 1.959963984540054


@value
class Interval:
    """This is a confidence interval.

    Attributes:
        low: Its lower end [unit of what it is of].
        high: Its upper end [unit of what it is of].
    """

    low: float
    high: float


def wilson(successes: float, n: int, z: float = Z95) -> Interval:
    """Return the Wilson interval of a share.

    Args:
        successes: Successes [0..n]; a sum of scores where outcomes are graded, for which the interval is too wide
            rather than too narrow.
        n: Observations [count]; without any, the interval is all of [0, 1].
        z: Quantile of the normal distribution [> 0]; left out: two-sided 95 %.

    Returns:
        Interval of the share [0..1].

    Raises:
        ValueError: For more successes than observations, or fewer than none.

    Source:
        Wilson 1927 (papers.md 4.4): (p + z²/2n ± z √(p (1 - p)/n + z²/4n²)) / (1 + z²/n).

    Example:
        >>> interval = wilson(8, 10)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.4902, 0.9433)
    """
    if not 0 <= successes <= n * (1 + 1e-12):
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return Interval(low=0.0, high=1.0)
    share = min(1.0, successes / n)
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    return Interval(low=max(0.0, round(centre - half, 12)), high=min(1.0, round(centre + half, 12)))
