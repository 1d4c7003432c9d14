"""The worth of routing: answers of two systems, mixed by decisions, against shuffled decisions. Pure.

If decisions were shuffled over the items, the mix would be right as often as s B + (1 - s) A, with s the share
sent and A, B the shares right of the two systems. What the real decisions have above that is their worth; it is exact,
no draw of chance is in it, and it needs no model call beyond the answers of both systems.
"""

import numpy as np
import numpy.typing as npt

from evals.stats.bootstrap_means import NOTHING, percentile_estimate, resampled_means
from evals.stats.chance import Chance
from evals.stats.gains import Contrast, Scores, contrast
from evals.stats.separation import Band, Flags
from kernel.values import value

# Shuffles of decisions, for a band: its ends need no more.
SHUFFLES = 1000


@value
class Pair:
    """The scores of two systems on the same items [0..1 each]."""

    first: Scores
    second: Scores


def mixed(pair: Pair, sent: Flags) -> Scores:
    """Return what is right of the mix that gives the items `sent` to the second system."""
    return np.where(sent, pair.second, pair.first)


def worth(first: Scores, second: Scores, sent: npt.NDArray[np.float64]) -> float:
    """Return how much more often the mix is right than with the same decisions shuffled.

    Source:
        Ours (papers.md 4.4).

    Example:
        >>> right = np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4)
        >>> worth(*right, np.array([1.0, 1.0, 0.0, 0.0])), worth(*right, np.array([0.0, 0.0, 1.0, 1.0]))
        (0.25, -0.25)
    """
    better = second - first
    return float(np.mean(sent * better) - np.mean(sent) * np.mean(better))


def worth_interval(pair: Pair, sent: Flags, chance: Chance) -> Contrast:
    """The worth of decisions, with its bootstrap interval over items; it rests on those where the systems differ."""
    if not len(sent):
        return contrast(NOTHING, 0, 0)
    given, better = sent.astype(np.float64), pair.second - pair.first
    means = resampled_means(np.stack([given * better, given, better]), chance)
    seen = worth(pair.first, pair.second, given)
    found = percentile_estimate(seen, means[:, 0] - means[:, 1] * means[:, 2], len(sent))
    return contrast(found, len(sent), int(np.count_nonzero(better)))


def shuffled_mixes(pair: Pair, sent: Flags, chance: Chance) -> Band:
    """Shares right of the mixes that the real decisions make when they are shuffled over the items."""
    if not len(sent):
        return Band(mean=None, low=None, high=None, draws=0)
    made = [float(mixed(pair, chance.rng.permutation(sent)).mean()) for _ in range(min(chance.draws, SHUFFLES))]
    low, high = np.quantile(made, [0.025, 0.975])
    return Band(mean=float(np.mean(made)), low=float(low), high=float(high), draws=len(made))


def highest(levels: Scores, count: int) -> Flags:
    """The `count` items with the highest levels; of equal ones the earlier.

    Example:
        >>> highest(np.array([0.2, 0.9, 0.9, 0.1]), 1).tolist()
        [False, True, False, False]
    """
    made = np.zeros(len(levels), dtype=np.bool_)
    made[np.argsort(-levels, kind="stable")[:count]] = True
    return made
