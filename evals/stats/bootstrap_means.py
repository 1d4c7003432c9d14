"""Bootstrap of means, many draws at a time; `kernel.statistics.bootstrap` has any statistic, one by one. Pure."""

import numpy as np
import numpy.typing as npt

from evals.stats.chance import Chance
from kernel.statistics.bootstrap import Estimate

Array = npt.NDArray[np.float64]

# Picks that are held at a time [count].
BLOCK = 1 << 20


def resampled_means(columns: Array, chance: Chance) -> Array:
    """Means of the columns over items drawn with replacement.

    Args:
        columns: One row for each column, one entry for each item.
        chance: For the draws.

    Returns:
        One row for each draw, one entry for each column; each draw takes the same items of all columns.
    """
    n = columns.shape[1]
    at_a_time = max(1, BLOCK // n)
    parts = []
    for start in range(0, chance.draws, at_a_time):
        picks = chance.rng.integers(n, size=(min(at_a_time, chance.draws - start), n))
        parts.append(columns[:, picks].mean(axis=2).T)
    return np.concatenate(parts)


def percentile_estimate(seen: float, drawn: Array, items: int) -> Estimate:
    """A statistic with the percentile interval of its draws."""
    low, high = np.quantile(drawn, [0.025, 0.975])
    ends = (round(float(low), 12), round(float(high), 12))
    return Estimate(value=round(seen, 12), low=ends[0], high=ends[1], items=items, resamples=len(drawn))


NOTHING = Estimate(value=None, low=None, high=None, items=0, resamples=0)
