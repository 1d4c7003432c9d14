"""Shares with their intervals."""

from collections.abc import Iterable

from kernel.statistics.intervals import Interval, wilson
from kernel.values import value


@value
class Share:
    """A share with its 95 % interval.

    Attributes:
        count: How many.
        of: Of how many.
        interval: Wilson's.
    """

    count: int
    of: int
    interval: Interval

    @property
    def value(self) -> float | None:
        """The share [0..1]; None of nothing."""
        return self.count / self.of if self.of else None


def share(happened: Iterable[bool]) -> Share:
    """Return how many of them happened.

    Example:
        >>> share([True, False, False, True]).value
        0.5
    """
    each = list(happened)
    return Share(count=sum(each), of=len(each), interval=wilson(sum(each), len(each)))
