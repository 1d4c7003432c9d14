"""Recovery is the part of the gap between a weak and a strong model that a router closes, call by call. Pure.

Source: papers.md 4.4, the measures that are usual for routers between two models: the performance gap recovered (PGR)
at a share of strong calls, its mean over all shares (APGR), and the share of strong calls at which half or four fifths
are recovered.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evals.stats.chance import Chance
from evals.stats.routing_worth import SHUFFLES
from evals.stats.separation import Band, Flags, Levels
from kernel.values import value

Array = npt.NDArray[np.float64]


@value
class Path:
    """The gap recovered at growing shares of strong calls; straight between the points.

    Attributes:
        shares: Shares of strong calls, from 0 to 1.
        recovered: Share of the gap recovered there; 0 at first, 1 at last, and anything between.
    """

    shares: Array
    recovered: Array


def recovery(levels: Levels, weak: Flags | Array, strong: Flags | Array) -> Path | None:
    """The gap recovered as the items with the highest levels go to the strong model.

    Args:
        levels: Level of each item; the highest goes first, and items of one level go together, in random order.
        weak: Whether the weak model is right.
        strong: Whether the strong model is right.

    Returns:
        The path; None where the strong model is no better than the weak one, so that there is no gap.

    Example:
        >>> made = recovery(np.array([0.9, 0.1]), np.array([False, True]), np.array([True, True]))
        >>> made.shares.tolist(), made.recovered.tolist()
        ([0.0, 0.5, 1.0], [0.0, 1.0, 1.0])
    """
    better = np.asarray(strong, dtype=np.float64) - np.asarray(weak, dtype=np.float64)
    gap = float(better.sum())
    if not len(better) or gap <= 0:
        return None
    _, group, counts = np.unique(-np.asarray(levels, dtype=np.float64), return_inverse=True, return_counts=True)
    gained = np.bincount(group, weights=better)
    return Path(
        shares=np.concatenate([[0.0], np.cumsum(counts) / len(better)]),
        recovered=np.concatenate([[0.0], np.cumsum(gained) / gap]),
    )


def mean_recovered(levels: Levels, weak: Flags | Array, strong: Flags | Array) -> float | None:
    """Gap recovered, in the mean over all shares of strong calls (APGR); 0.5 is what chance gives. None without a gap.

    Example:
        >>> mean_recovered(np.array([0.9, 0.1]), np.array([False, True]), np.array([True, True]))
        0.75
    """
    path = recovery(levels, weak, strong)
    return None if path is None else float(np.trapezoid(path.recovered, path.shares))


def cost_at(levels: Levels, weak: Flags | Array, strong: Flags | Array, wanted: float) -> float | None:
    """Least share of strong calls that recovers `wanted` of the gap [0..1]; None without a gap.

    Example:
        >>> cost_at(np.array([0.9, 0.1]), np.array([False, True]), np.array([True, True]), 0.5)
        0.25
    """
    path = recovery(levels, weak, strong)
    if path is None:
        return None
    at = int(np.argmax(path.recovered >= wanted - 1e-12))
    if at == 0:
        return 0.0
    before, after = path.recovered[at - 1], path.recovered[at]
    share = (wanted - before) / (after - before)
    return float(path.shares[at - 1] + share * (path.shares[at] - path.shares[at - 1]))


def cost_at_half(levels: Levels, weak: Flags | Array, strong: Flags | Array) -> float | None:
    """Share of strong calls at half of the gap."""
    return cost_at(levels, weak, strong, 0.5)


def cost_at_most(levels: Levels, weak: Flags | Array, strong: Flags | Array) -> float | None:
    """Share of strong calls at four fifths of the gap."""
    return cost_at(levels, weak, strong, 0.8)


@value
class ShuffledCosts:
    """The costs of the same levels shuffled over the items.

    The cost is read where the gap is reached first, which chance does early where the gap is small: compare with this
    and not with the share itself.

    Attributes:
        at_half: Shares of strong calls at half of the gap.
        at_most: The same at four fifths.
    """

    at_half: Band
    at_most: Band


def shuffled_costs(levels: Levels, weak: Flags | Array, strong: Flags | Array, chance: Chance) -> ShuffledCosts:
    """Return what `levels` cost where they are shuffled over the items; without a gap there is no cost."""
    # A source of its own: what is drawn here moves no other figure.
    [rng] = chance.rng.spawn(1)
    costs = [
        (cost_at_half(made, weak, strong), cost_at_most(made, weak, strong))
        for made in (rng.permutation(levels) for _ in range(min(chance.draws, SHUFFLES)))
    ]
    return ShuffledCosts(at_half=_band([half for half, _ in costs]), at_most=_band([most for _, most in costs]))


def _band(costs: Sequence[float | None]) -> Band:
    known = [cost for cost in costs if cost is not None]
    if not known:
        return Band(mean=None, low=None, high=None, draws=0)
    low, high = np.quantile(known, [0.025, 0.975])
    return Band(mean=float(np.mean(known)), low=float(low), high=float(high), draws=len(known))


def knowing(weak: Sequence[bool], strong: Sequence[bool]) -> Levels:
    """The level that knows both outcomes; items that only the strong one gets right come first."""
    return np.asarray(strong, dtype=np.float64) - np.asarray(weak, dtype=np.float64)
