"""Rows as columns: one score for each item, so that arms are compared on the same items. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.harness.rows import Row
from evals.stats.chance import Chance
from evals.stats.gains import Scores, Spread, paired_gain, spread
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

ByItem = Mapping[str, float]


@value
class Paired:
    """Scores of two arms on the items that both answered.

    Attributes:
        items: Names of the items, in order.
        first: Scores of one arm.
        second: Scores of the other.
    """

    items: tuple[str, ...]
    first: Scores
    second: Scores


def by_item(rows: Sequence[Row]) -> ByItem:
    """Share of seeds with which each item was answered right [0..1]."""
    labels: dict[str, list[bool]] = {}
    for row in rows:
        labels.setdefault(row.item.id, []).append(row.right)
    return {item: sum(each) / len(each) for item, each in labels.items()}


def over_seeds(rows: Sequence[Row]) -> Spread:
    """Share right, as its mean and standard deviation over the seeds."""
    seeds = dict.fromkeys(row.seed for row in rows)
    return spread([float(np.mean([row.right for row in rows if row.seed == seed])) for seed in seeds])


def paired(first: ByItem, second: ByItem) -> Paired:
    """Two arms on the items that both answered."""
    both = tuple(item for item in first if item in second)
    return Paired(
        items=both,
        first=np.array([first[item] for item in both], dtype=np.float64),
        second=np.array([second[item] for item in both], dtype=np.float64),
    )


def gain_over(before: Sequence[Row], after: Sequence[Row], chance: Chance) -> Estimate:
    """Return how much more often `after` is right than `before`, on the items and seeds that both answered."""
    shared = {(row.item.id, row.seed) for row in before} & {(row.item.id, row.seed) for row in after}
    both = paired(by_item(_among(before, shared)), by_item(_among(after, shared)))
    return paired_gain(both.first, both.second, chance)


def _among(rows: Sequence[Row], shared: set[tuple[str, int]]) -> Sequence[Row]:
    return [row for row in rows if (row.item.id, row.seed) in shared]
