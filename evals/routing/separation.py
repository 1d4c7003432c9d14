"""These measures say how well a level of the items separates wrong from right System 1 answers. Pure."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.routing.rows import Row
from evals.stats.chance import Chance
from evals.stats.separation import Flags, Groups, Levels, flags, within_interval
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.values import value

Level = Callable[[Row], float | None]


@value
class Separation:
    """The separation of wrong from right System 1 answers by a level.

    Attributes:
        pooled: Over all items.
        within: Mean of the areas inside the data sets that have both.
        by_set: Inside each data set.
        unknown: Items without the level, which are left out [count].
    """

    pooled: Discrimination
    within: Estimate
    by_set: Mapping[str, Discrimination]
    unknown: int


@value
class Columns:
    """Items whose level is known: level, whether System 1 is wrong, and the data set's number."""

    levels: Levels
    wrong: Flags
    groups: Groups


def columns(rows: Sequence[Row], level: Level) -> Columns:
    """The rows whose `level` is known, as columns."""
    known = [(found, row) for row in rows if (found := level(row)) is not None]
    numbers: dict[str, int] = {}
    for row in rows:
        numbers.setdefault(row.dataset, len(numbers))
    return Columns(
        levels=np.array([found for found, _ in known], dtype=np.float64),
        wrong=flags([row.wrong for _, row in known]),
        groups=np.array([numbers[row.dataset] for _, row in known], dtype=np.intp),
    )


def discrimination(rows: Sequence[Row], level: Level) -> Discrimination:
    """The area of `level` over the rows where it is known, with DeLong's interval."""
    known = columns(rows, level)
    return auroc(known.levels, known.wrong)


def separation(rows: Sequence[Row], level: Level, chance: Chance) -> Separation:
    """Return how well `level` separates, over all rows and inside each data set."""
    known = columns(rows, level)
    sets = dict.fromkeys(row.dataset for row in rows)
    return Separation(
        pooled=auroc(known.levels, known.wrong),
        within=within_interval(known.levels, known.wrong, known.groups, chance),
        by_set={each: discrimination([row for row in rows if row.dataset == each], level) for each in sets},
        unknown=len(rows) - len(known.levels),
    )
