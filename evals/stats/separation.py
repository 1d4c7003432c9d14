"""Separation of wrong from right answers by a level, over all items and in each set, and what chance would give.

Over several sets the pooled area mixes two things: separating a hard set from an easy one, and a hard item from an
easy one of the same set. The mean of the areas inside the sets is the second alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from evals.stats.chance import Chance
from evals.stats.gains import Contrast, contrast
from kernel.statistics.bootstrap import Estimate, bootstrap_difference, bootstrap_interval
from kernel.values import value

Levels = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Groups = npt.NDArray[np.intp]
Rank = Callable[[], Levels]


@value
class Band:
    """The range of a statistic by chance.

    Attributes:
        mean: Mean over the draws; None where it has no value.
        low: 2.5 % of the draws are below.
        high: 2.5 % are above.
        draws: Draws [count].
    """

    mean: float | None
    low: float | None
    high: float | None
    draws: int


def area(levels: Levels, wrong: Flags) -> float | None:
    """Probability that a wrong one has the higher level than a right one, ties half [0..1]; None unless there are both.

    Example:
        >>> area(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
        0.875
    """
    above, below = levels[wrong], np.sort(levels[~wrong])
    if not len(above) or not len(below):
        return None
    wins = int(below.searchsorted(above, "left").sum() + below.searchsorted(above, "right").sum())
    return wins / (2 * len(above) * len(below))


def mean_area_within(levels: Levels, wrong: Flags, groups: Groups) -> float | None:
    """Mean of the areas inside the groups that have both wrong and right ones, each group counted once [0..1].

    Example:
        >>> levels, wrong = np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, True, True, False])
        >>> mean_area_within(levels, wrong, np.array([0, 0, 1, 1]))
        0.5
    """
    areas = [area(levels[groups == group], wrong[groups == group]) for group in np.unique(groups)]
    known = [each for each in areas if each is not None]
    return sum(known) / len(known) if known else None


def within_interval(levels: Levels, wrong: Flags, groups: Groups, chance: Chance) -> Estimate:
    """The mean area inside the groups, with its bootstrap interval."""
    return bootstrap_interval(mean_area_within, levels, wrong, groups, rng=chance.rng, resamples=chance.draws)


def area_gain(before: Levels, after: Levels, wrong: Flags, chance: Chance) -> Contrast:
    """Return how much larger the area of one level is than that of another on the same items, with its paired interval.

    It rests on the items of the rarer outcome: an area is made of pairs, and each of these has one of them.
    """
    found = bootstrap_difference(area, [before, wrong], [after, wrong], rng=chance.rng, resamples=chance.draws)
    rarer = min(int(wrong.sum()), int((~wrong).sum()))
    return contrast(found, rarer, rarer)


def random_band(wrong: Flags, chance: Chance) -> Band:
    """Areas of levels that are drawn at random."""
    return _band(lambda: chance.rng.random(len(wrong)), wrong, chance.draws)


def shuffled_band(levels: Levels, wrong: Flags, chance: Chance) -> Band:
    """Areas of the real levels, shuffled over the items."""
    return _band(lambda: chance.rng.permutation(levels), wrong, chance.draws)


def shuffled_within_band(levels: Levels, wrong: Flags, groups: Groups, chance: Chance) -> Band:
    """Areas of the real levels, shuffled inside each group: what knowing the group alone gives."""
    places = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def shuffled() -> Levels:
        made = levels.copy()
        for place in places:
            made[place] = chance.rng.permutation(levels[place])
        return made

    return _band(shuffled, wrong, chance.draws)


def flags(wrong: Sequence[bool]) -> Flags:
    """`wrong` as an array."""
    return np.asarray(wrong, dtype=np.bool_)


def _band(drawn: Rank, wrong: Flags, draws: int) -> Band:
    areas = [found for _ in range(draws) if (found := area(drawn(), wrong)) is not None]
    if not areas:
        return Band(mean=None, low=None, high=None, draws=0)
    low, high = np.quantile(areas, [0.025, 0.975])
    return Band(mean=float(np.mean(areas)), low=float(low), high=float(high), draws=len(areas))
