"""This module checks the numbers that all statistics take, and deals items into folds."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indexes = npt.NDArray[np.intp]
Numbers = Sequence[float] | npt.NDArray[np.floating]

# From this score on an answer counts as right where only right or wrong makes sense.
RIGHT = 0.5
# Folds of every cross-validation [count].
FOLDS = 5


def unit_array(name: str, numbers: Numbers) -> Array:
    """Return `numbers` as an array [each in 0..1].

    Args:
        name: What they are, for messages.
        numbers: The numbers [0..1].

    Raises:
        ValueError: For one that is outside, or not a number.
    """
    array = np.asarray(numbers, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one column of numbers; it has {array.ndim} dimensions")
    if not bool(np.all((array >= 0) & (array <= 1))):
        raise ValueError(f"{name} must lie in [0, 1]")
    return array


def checked_arrays(confidences: Numbers, scores: Numbers) -> tuple[Array, Array]:
    """Return confidences and the scores of the same answers, as checked arrays.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].

    Returns:
        Confidences and scores [0..1, both of shape (n,)].

    Raises:
        ValueError: When they are not equally many, or one lies outside [0, 1].
    """
    beliefs, labels = unit_array("confidences", confidences), unit_array("scores", scores)
    if len(beliefs) != len(labels):
        raise ValueError(f"there are {len(beliefs)} confidences and {len(labels)} scores")
    return beliefs, labels


def right(scores: Numbers) -> Flags:
    """Return whether each answer counts as right.

    Args:
        scores: How right each answer was [0..1].

    Example:
        >>> right([0.0, 0.49, 0.5, 1.0]).tolist()
        [False, False, True, True]
    """
    return unit_array("scores", scores) >= RIGHT


def effective_size(total: float, squares: float) -> float:
    """Return the number of equally weighted observations that weighted ones amount to [count]; 0 without a weight.

    Args:
        total: Sum of the weights [>= 0].
        squares: Sum of their squares [>= 0].

    Source:
        Kish 1965 (papers.md 1.6, 3.4): (Σ w)² / Σ w².

    Example:
        >>> effective_size(4.0, 10.0), effective_size(0.0, 0.0)
        (1.6, 0.0)
    """
    return total * total / squares if squares > 0 else 0.0


def stratified_folds(strata: Sequence[int] | Flags, count: int, rng: np.random.Generator) -> list[Indexes]:
    """Deal items into folds by chance, so that each fold has its share of every stratum.

    Strata must not follow the outcome too closely: folds that share the outcome at each confidence also share its
    noise, and a fit to noise then passes for a gain.

    Args:
        strata: Stratum of each item, e.g. whether it is right [any integer].
        count: Folds [count, >= 2].
        rng: Chance; one made from a constant gives the same folds of the same number of items.

    Returns:
        Indexes of the items by fold; every item is in exactly one.

    Raises:
        ValueError: For fewer than two folds.

    Example:
        >>> folds = stratified_folds([0, 0, 1, 1], 2, np.random.default_rng(0))
        >>> [int((fold >= 2).sum()) for fold in folds]
        [1, 1]
    """
    if count < 2:
        raise ValueError(f"there must be at least 2 folds, not {count}")
    ranked = np.lexsort((rng.permutation(len(strata)), np.asarray(strata, dtype=np.int64)))
    return [np.sort(ranked[start::count]) for start in range(count)]
