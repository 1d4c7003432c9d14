"""The smallest difference that paired items can show, which follows from their number. Pure."""

from math import ceil, sqrt

from kernel.statistics.intervals import Z95

# Share of the items on which two ways of answering differ in being right; one in six is usual for votes against one
# answer of the same model [0..1].
DIFFERING = 1 / 6


def least_gain(items: int, differing: float = DIFFERING) -> float:
    """Return the smallest gain whose 95 % interval would not hold 0 [0..1]: half the width of that interval.

    Args:
        items: Paired items [count, >= 1].
        differing: Share of them on which the two differ [0..1].

    Returns:
        1.96 sqrt(differing / items): each item that differs counts 1 or -1, all others 0.

    Source:
        Ours (papers.md 4.4).

    Example:
        >>> round(least_gain(1600), 3), round(least_gain(250), 3), round(least_gain(24), 2)
        (0.02, 0.051, 0.16)
    """
    return min(1.0, Z95 * sqrt(differing / items))


def least_area(wrong: int, right: int) -> float | None:
    """Return the smallest area above 0.5 whose 95 % interval would not hold 0.5 [0..0.5].

    Args:
        wrong: Items that System 1 gets wrong [count].
        right: Items that it gets right [count].

    Returns:
        1.96 sqrt((wrong + right + 1) / (12 wrong right)), half the width at an area of one half; None where one of the
        two is 0.

    Source:
        Mann and Whitney 1947 (papers.md 4.4).

    Example:
        >>> round(least_area(50, 150), 3), least_area(0, 10)
        (0.093, None)
    """
    if not wrong or not right:
        return None
    return min(0.5, Z95 * sqrt((wrong + right + 1) / (12 * wrong * right)))


def items_needed(gain: float, differing: float = DIFFERING) -> int:
    """Return how many paired items show a gain [count].

    Args:
        gain: The gain [> 0].
        differing: As `least_gain`.

    Example:
        >>> items_needed(0.02), items_needed(0.05)
        (1601, 257)
    """
    return ceil(Z95**2 * differing / gain**2)
