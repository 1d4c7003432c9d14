"""Chance, as figures take it: its source, and how often it is drawn."""

import numpy as np

from kernel.statistics.bootstrap import RESAMPLES
from kernel.values import value


@value
class Chance:
    """The source of chance.

    Attributes:
        rng: Its source.
        draws: How often items are resampled or levels shuffled, for one figure [count].
    """

    rng: np.random.Generator
    draws: int = RESAMPLES


def seeded(seed: int, draws: int = RESAMPLES) -> Chance:
    """Chance that comes out the same each time."""
    return Chance(rng=np.random.default_rng(seed), draws=draws)
