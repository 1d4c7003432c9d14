"""This module compares two systems by whether each was right on the same questions, and says when that decides.

Where both give the same answer, both are right or both are wrong: such questions tell nothing of the difference, and
need no label. So the difference is that on the other questions, times their share of all.
"""

from enum import StrEnum
from math import ceil, sqrt

from scipy.special import bdtrc

from kernel.statistics.intervals import Interval, wilson
from kernel.values import value

# Level of the exact test [0..1].
LEVEL = 0.05
# Difference in the share right up to which two systems count as the same [0..1].
MARGIN = 0.02
# Least number of questions on which exactly one is right that can decide: 2 / 2^6 < 0.05 [count].
LEAST_DECIDING = 6
# Labels above which it is not said how many are needed [count].
MOST_LABELS = 100_000


class Comparison(StrEnum):
    """This is what the labels say of the second system beside the first."""

    BETTER = "BETTER"
    WORSE = "WORSE"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"


@value
class PairedCounts:
    """These counts are of questions with a label for both systems.

    Attributes:
        both: Questions on which both are right [count, >= 0].
        first: Those on which only the first is [count, >= 0].
        second: Those on which only the second is [count, >= 0].
        neither: Those on which neither is [count, >= 0].
    """

    both: float = 0
    first: float = 0
    second: float = 0
    neither: float = 0

    @property
    def total(self) -> float:
        """Return the number of questions [count]."""
        return self.both + self.first + self.second + self.neither

    def times(self, factor: float) -> "PairedCounts":
        """Return the counts of so many times as many questions, of which the same shares are right.

        Args:
            factor: How many times as many [> 0].
        """
        counts = {"both": self.both, "first": self.first, "second": self.second, "neither": self.neither}
        return PairedCounts(**{name: count * factor for name, count in counts.items()})


@value
class PairedDifference:
    """A difference is by how much the share right of the second system exceeds that of the first.

    Attributes:
        value: The difference [-1..1]; None where no label says it.
        low: Lower end of its 95 % interval [-1..1].
        high: Upper end [-1..1].
        p: Probability of so uneven a division if both were equally good, by the exact test [0..1].

    Source:
        Ours (papers.md 4.4).
    """

    value: float | None
    low: float
    high: float
    p: float

    @property
    def comparison(self) -> Comparison:
        """Return what the difference decides.

        BETTER and WORSE need an interval without 0 and p <= 0.05, SAME an interval within two points of 0.

        Source:
            Ours (papers.md 4.4); that a gain needs the exact test too is the rule of the evaluations.

        Example:
            >>> PairedDifference(value=0.1, low=0.03, high=0.2, p=0.01).comparison
            <Comparison.BETTER: 'BETTER'>
        """
        if self.low >= -MARGIN and self.high <= MARGIN:
            return Comparison.SAME
        if self.p > LEVEL or self.low <= 0 <= self.high:
            return Comparison.UNDECIDED
        return Comparison.BETTER if self.low > 0 else Comparison.WORSE


def mcnemar(first: float, second: float) -> float:
    """Return the two-sided probability of so uneven a division if each was equally often the only one that is right.

    Args:
        first: Questions on which only the first system is right [count].
        second: Those on which only the second is [count].

    Returns:
        The probability, p [0..1].

    Source:
        McNemar 1947 (papers.md 4.4), in its exact form: 2 P(X >= max(b, c)) for X from Binomial(b + c, 1/2), at most 1.

    Example:
        >>> round(mcnemar(0, 6), 9), mcnemar(3, 3)
        (0.03125, 1.0)
    """
    trials = round(first + second)
    if not trials:
        return 1.0
    larger = min(trials, round(max(first, second)))
    return min(1.0, 2 * float(bdtrc(larger - 1, trials, 0.5)))


def paired_interval(counts: PairedCounts) -> Interval:
    """Return the 95 % interval of the second system's share right less the first's; without a label all of [-1, 1].

    Source:
        Newcombe 1998 (paired data), method 10 (papers.md 4.4): the Wilson intervals of both shares, combined with their
        correlation φ, whose numerator is lessened by n/2 where it is positive.

    Example:
        >>> interval = paired_interval(PairedCounts(both=5, neither=5))
        >>> round(interval.low, 4), round(interval.high, 4)
        (-0.1666, 0.1666)
    """
    n = counts.total
    if n <= 0:
        return Interval(low=-1.0, high=1.0)
    one, other = counts.both + counts.first, counts.both + counts.second
    first, second = _wilson(one, n), _wilson(other, n)
    phi = _correlation(counts)
    difference = (other - one) / n
    below = _distance(other / n - second.low, first.high - one / n, phi)
    above = _distance(second.high - other / n, one / n - first.low, phi)
    return Interval(low=max(-1.0, round(difference - below, 12)), high=min(1.0, round(difference + above, 12)))


def _wilson(successes: float, n: float) -> Interval:
    """Return the Wilson interval of a share, also of numbers that are not whole."""
    scaled = max(1, round(n))
    return wilson(successes * scaled / n, scaled)


def _correlation(counts: PairedCounts) -> float:
    n = counts.total
    product = (
        (counts.both + counts.first)
        * (counts.second + counts.neither)
        * (counts.both + counts.second)
        * (counts.first + counts.neither)
    )
    if product <= 0:
        return 0.0
    numerator = counts.both * counts.neither - counts.first * counts.second
    return (max(0.0, numerator - n / 2) if numerator > 0 else numerator) / sqrt(product)


def _distance(second: float, first: float, phi: float) -> float:
    return sqrt(max(0.0, second * second - 2 * phi * second * first + first * first))


def paired_difference(pairs: int, agreeing: int, labelled: PairedCounts) -> PairedDifference:
    """Return by how much the share right of the second system exceeds that of the first, over all questions.

    Args:
        pairs: Questions that both answered [count].
        agreeing: Those on which they surely gave the same answer [count, 0..pairs].
        labelled: The others that have a label for both.

    Returns:
        The difference on the labelled others, times the share of the others. Its interval is that of the labelled
        ones, each end times the end of the share's Wilson interval that takes it further from 0, where it lies beyond
        0, and nearer to 0 where it does not.

    Raises:
        ValueError: For more that agree than there are.

    Source:
        Ours (papers.md 4.4). It takes the labelled others for a random sample of them.

    Example:
        >>> found = paired_difference(100, 80, PairedCounts(second=10))
        >>> found.value, round(found.p, 4), found.comparison
        (0.2, 0.002, <Comparison.BETTER: 'BETTER'>)
    """
    if not 0 <= agreeing <= pairs:
        raise ValueError(f"{agreeing} of {pairs} pairs agree")
    if not pairs:
        return PairedDifference(value=None, low=-1.0, high=1.0, p=1.0)
    differing, share = pairs - agreeing, wilson(pairs - agreeing, pairs)
    inner = paired_interval(labelled)
    n = labelled.total
    if n > 0:
        known: float | None = differing / pairs * (labelled.second - labelled.first) / n
    else:
        known = None if differing else 0.0
    return PairedDifference(
        value=known,
        low=inner.low * (share.high if inner.low < 0 else share.low),
        high=inner.high * (share.high if inner.high > 0 else share.low),
        p=mcnemar(labelled.first, labelled.second),
    )


def labels_needed(pairs: int, agreeing: int, labelled: PairedCounts) -> int | None:
    """Return about how many more of the questions without agreement need a label of both until that decides.

    Args:
        pairs: Questions that both answered [count].
        agreeing: Those on which they surely gave the same answer [count].
        labelled: The others that have a label for both.

    Returns:
        The number at which the interval would decide if all shares stayed as they are [count]; 0 where it does
        already, `LEAST_DECIDING` where there is no label yet; None where more than `MOST_LABELS` are needed, or none
        can help.

    Source:
        Ours (papers.md 4.4).

    Example:
        >>> labels_needed(100, 80, PairedCounts(second=3)), labels_needed(100, 80, PairedCounts())
        (3, 6)
    """
    if paired_difference(pairs, agreeing, labelled).comparison is not Comparison.UNDECIDED:
        return 0
    n = labelled.total
    if n <= 0:
        return LEAST_DECIDING
    few, many = ceil(n), MOST_LABELS

    def decides(total: int) -> bool:
        found = paired_difference(pairs, agreeing, labelled.times(total / n))
        return found.comparison is not Comparison.UNDECIDED

    if not decides(many):
        return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if decides(middle) else (middle, many)
    return many - ceil(n)
