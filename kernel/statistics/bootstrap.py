"""The bootstrap gives intervals of any statistic by resampling items; chance is passed in."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel.values import value

RESAMPLES = 2000

Column = npt.NDArray[Any]
Statistic = Callable[..., float | None]


@value
class Estimate:
    """An estimate is a statistic with its interval.

    Attributes:
        value: The statistic of the items as they are [unit of the statistic]; None where it has no value.
        low: Lower end of its interval [unit of the statistic]; None where too few resamples have a value.
        high: Upper end [unit of the statistic].
        items: Items [count].
        resamples: Resamples that have a value [count].
    """

    value: float | None
    low: float | None
    high: float | None
    items: int
    resamples: int

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval lies on one side of 0: of a difference, whether it is shown."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def bootstrap_interval(
    statistic: Statistic,
    *columns: Sequence[Any] | Column,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Return a statistic with its percentile interval, by drawing items with replacement.

    Args:
        statistic: Number of the columns given; None where these have none (e.g. AUROC of one kind only).
        columns: What is known of the items, item by item. An item that was observed several times (seeds, repeated
            labels) is one row of a two-dimensional column: drawn as a whole, as it must be.
        rng: Chance.
        resamples: Draws [count].
        level: Of the interval [0..1].

    Returns:
        The statistic and its interval; without an interval when fewer than half of the draws have a value.

    Raises:
        ValueError: When the columns are not equally long, or there is none.

    Source:
        Efron 1979, percentile method (papers.md 4.4).

    Example:
        >>> estimate = bootstrap_interval(np.mean, [0, 1] * 50, rng=np.random.default_rng(0))
        >>> estimate.value, 0.38 < estimate.low < 0.42, 0.58 < estimate.high < 0.62
        (0.5, True, True)
    """
    arrays = [np.asarray(column) for column in columns]
    sizes = {len(array) for array in arrays}
    if len(sizes) != 1:
        raise ValueError(f"columns must be equally long and at least one; they have {sorted(sizes)} items")
    [n] = sizes
    if not n:
        return Estimate(value=None, low=None, high=None, items=0, resamples=0)
    picks = (rng.integers(n, size=n) for _ in range(resamples))
    drawn = [_value(statistic, [array[pick] for array in arrays]) for pick in picks]
    known = [number for number in drawn if number is not None]
    observed = _value(statistic, arrays)
    if len(known) * 2 < resamples or observed is None:
        return Estimate(value=observed, low=None, high=None, items=n, resamples=len(known))
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(
        value=observed, low=round(float(low), 12), high=round(float(high), 12), items=n, resamples=len(known)
    )


def bootstrap_difference(
    statistic: Statistic,
    first: Sequence[Sequence[Any] | Column],
    second: Sequence[Sequence[Any] | Column],
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Return how much a statistic is larger for the second of two systems on the same items, with its paired interval.

    Args:
        statistic: Number of one system's columns; None where these have none.
        first: Columns of one system, item by item.
        second: The same columns of the other, for the same items in the same order.
        rng: Chance.
        resamples: Draws [count]; each takes the same items of both.
        level: Of the interval [0..1].

    Raises:
        ValueError: When the columns are not equally long, or there is none.

    Source:
        Efron 1979, percentile method, on pairs (papers.md 4.4).

    Example:
        >>> right = ([1, 0, 1, 0] * 25, [1, 1, 1, 0] * 25)
        >>> bootstrap_difference(np.mean, right[:1], right[1:], rng=np.random.default_rng(0)).value
        0.25
    """
    split = len(first)

    def difference(*columns: Column) -> float | None:
        before, after = statistic(*columns[:split]), statistic(*columns[split:])
        return None if before is None or after is None else after - before

    return bootstrap_interval(difference, *first, *second, rng=rng, resamples=resamples, level=level)


def _value(statistic: Statistic, arrays: Sequence[Column]) -> float | None:
    number = statistic(*arrays)
    return None if number is None or not np.isfinite(number) else round(float(number), 12)
