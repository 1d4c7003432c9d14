"""The weighted mean of known levels is the one rule behind activation, experience and the parts of a component.

Source: MSV, routing and fitness functions (papers.md 1.1): weights are >= 0 and sum to 1. Rescaling the weights of the
known levels is ours. The fitness of many agents at once (`kernel.roles.fitness_matrix`) is the same rule on arrays.
"""

from collections.abc import Iterable, Sequence

# How far a sum of weights may be from 1.
SUM_TOLERANCE = 1e-9


def sums_to_one(weights: Iterable[float]) -> bool:
    """Return whether all weights are >= 0 and sum to 1.

    Args:
        weights: The weights [any numbers].

    Example:
        >>> sums_to_one([0.3, 0.7]), sums_to_one([0.5, 0.6]), sums_to_one([-0.5, 1.5]), sums_to_one([float("nan"), 1.0])
        (True, False, False, False)
    """
    numbers = list(weights)
    return all(weight >= 0 for weight in numbers) and abs(sum(numbers) - 1) <= SUM_TOLERANCE


def weighted_terms(
    levels: Sequence[float | None], weights: Sequence[float], *, least_known: int = 2
) -> list[float | None] | None:
    """Return what each level contributes to the weighted mean, the known weights rescaled to sum to 1.

    Args:
        levels: Levels [0..1]; None where one is unknown.
        weights: One for each level [>= 0].
        least_known: Levels that must be known [count, >= 1].

    Returns:
        A term for each level [0..1], None for an unknown one; None instead of all where fewer levels are known, or all
        known ones have weight 0.

    Example:
        >>> weighted_terms([0.5, None, 1.0], [0.25, 0.5, 0.25])
        [0.25, None, 0.5]
        >>> weighted_terms([0.5, None, None], [0.25, 0.5, 0.25]) is None
        True
    """
    total = sum(weight for level, weight in zip(levels, weights, strict=True) if level is not None)
    if sum(level is not None for level in levels) < least_known or not total > 0:
        return None
    pairs = zip(levels, weights, strict=True)
    return [None if level is None else round(level * weight / total, 12) for level, weight in pairs]


def weighted_mean(levels: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the weighted mean of the known levels [0..1]; None when none with a weight is known.

    Args:
        levels: The levels [0..1]; None where one is unknown.
        weights: Weight of each level [>= 0].

    Example:
        >>> weighted_mean([0.9, None, 0.6], [1.0, 1.0, 1.0])
        0.75
    """
    known = [(level, weight) for level, weight in zip(levels, weights, strict=True) if level is not None]
    total = sum(weight for _, weight in known)
    return round(sum(level * weight for level, weight in known) / total, 12) if total > 0 else None
