"""This module fits weights for levels that together predict an event, and a threshold for their weighted mean.

A level is a number in [0, 1] that is high where the event is likely, or NaN where it is unknown. Weights are >= 0 and
sum to 1; those of the known levels are rescaled, and fewer than two known levels have no weighted mean.

Source: ours (papers.md 1.2), where the event is a wrong answer of System 1 and the weighted mean the activation.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from kernel.statistics.samples import FOLDS, Array, Flags, Numbers, stratified_folds, unit_array
from kernel.thresholds import DECIMALS
from kernel.values import value
from kernel.weighted_mean import weighted_terms

# Weight of the pull towards the prior weights at this slope, against the sum of log losses: as of about 100 items whose
# levels are spread evenly.
PULL = 2.0
FIRST_SLOPE = 4.0
# Slope below which the levels carry no information.
LEAST_SLOPE = 1e-3
WEIGHT_DECIMALS = 4

Weights = tuple[float, ...]


@value
class ShareThreshold:
    """This value is a threshold, with the share that passes it.

    Attributes:
        threshold: A value passes if and only if it reaches this [0..1].
        passing: What passes [count].
        total: Of how much [count].
    """

    threshold: float
    passing: int
    total: int

    @property
    def share(self) -> float:
        """Return the share that passes [0..1]."""
        return self.passing / self.total


def weighted_means(levels: Array, weights: Sequence[float]) -> Array:
    """Return the weighted mean of the known levels of each row [0..1]; NaN where it has none.

    Args:
        levels: A row for each item, a column for each level [0..1, or NaN].
        weights: One for each column [>= 0, sum 1].

    Example:
        >>> weighted_means(np.array([[0.55, 0.72, 0.85, 0.0]]), (0.30, 0.25, 0.25, 0.20)).tolist()
        [0.5575]
    """
    known = [[None if isnan(level) else float(level) for level in row] for row in levels]
    found = [weighted_terms(row, weights) for row in known]
    means = [nan if terms is None else round(sum(term for term in terms if term is not None), 12) for terms in found]
    return np.array(means, dtype=np.float64)


def fitted_weights(levels: Array, events: Flags, prior: Sequence[float]) -> Weights:
    """Fit the weights under which the weighted mean predicts the event best, by logistic regression.

    The event's log-odds are taken for slope · weighted mean + intercept with a slope >= 0. What is fitted is pulled
    towards `prior`: few events leave the weights near it, and levels without information leave them there altogether.

    Args:
        levels: A row for each item, a column for each level [0..1, or NaN].
        events: Whether the event happened, for each item.
        prior: The weights so far [>= 0, sum 1].

    Returns:
        Weights, rounded to four decimals [>= 0, sum 1].
    """
    even = [1 / levels.shape[1]] * levels.shape[1]
    keep = np.isfinite(weighted_means(levels, even))
    known, filled = np.isfinite(levels[keep]).astype(np.float64), np.nan_to_num(levels[keep])
    happened, old = events[keep].astype(np.float64), np.asarray(prior, dtype=np.float64)

    def loss(fit: Array) -> tuple[float, Array]:
        return _loss(fit, known, filled, happened, old)

    starts = [np.append(FIRST_SLOPE * np.asarray(one), 0.0) for one in (old, even)]
    bounds = [(0.0, None)] * len(old) + [(None, None)]
    fits = [minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts]
    slopes = np.asarray(min(fits, key=lambda fit: float(fit.fun)).x[:-1])
    return rounded_weights(slopes / slopes.sum()) if slopes.sum() > LEAST_SLOPE else tuple(map(float, old))


def held_out_means(
    levels: Array, events: Flags, prior: Sequence[float], rng: np.random.Generator, folds: int = FOLDS
) -> Array:
    """Return the weighted mean of each item under weights fitted without it, by folds; NaN where it has none.

    They predict the event as well as fitted weights would for new items.

    Args:
        levels: A row for each item, a column for each level [0..1, or NaN].
        events: Whether the event happened, for each item.
        prior: The weights so far [>= 0, sum 1].
        rng: Chance, for the folds.
        folds: Folds [count, >= 2].

    Returns:
        Mean of each item [0..1, shape (items,)]; NaN where it has none.
    """
    means = np.full(len(levels), nan)
    for part in stratified_folds(events, folds, rng):
        rest = np.ones(len(levels), dtype=np.bool_)
        rest[part] = False
        means[part] = weighted_means(levels[part], fitted_weights(levels[rest], events[rest], prior))
    return means


def threshold_for_share(values: Numbers, share: float, *, passing: int = 0, failing: int = 0) -> ShareThreshold:
    """Return the threshold with which the share that passes is nearest to the one wanted.

    Of two as near the one that lets less pass; of all that do the same, one with few decimals in the middle.

    Args:
        values: Values that are compared with it [0..1].
        share: Share wanted [0..1].
        passing: Items without a value that pass whatever it is [count].
        failing: Items without a value that never pass [count].

    Raises:
        ValueError: When there is no item, or a value or the share lies outside [0, 1].

    Example:
        >>> threshold_for_share([0.1, 0.2, 0.4, 0.8], 0.25)
        ShareThreshold(threshold=0.6, passing=1, total=4)
    """
    numbers = np.round(unit_array("values", values), DECIMALS)
    total = len(numbers) + passing + failing
    if not total or not 0 <= share <= 1:
        raise ValueError(f"a share of {share} of {total} items cannot be had")
    levels = np.unique(numbers)
    ranges = [(-1.0, float(levels[0])), *pairwise(map(float, levels))] if len(levels) else []
    candidates = [
        ShareThreshold(threshold=_middle(low, high), passing=passing + int((numbers >= high).sum()), total=total)
        for low, high in ranges
    ]
    if not len(levels) or levels[-1] < 1:
        candidates.append(ShareThreshold(threshold=1.0, passing=passing, total=total))
    return min(candidates, key=lambda one: (round(abs(one.share - share), 12), one.passing))


def _loss(fit: Array, known: Array, filled: Array, happened: Array, prior: Array) -> tuple[float, Array]:
    """Return the log loss with the pull, and its gradient.

    `fit` is slope · weight for each level, then the intercept.
    """
    slopes, intercept = fit[:-1], fit[-1]
    slope, masses = slopes.sum(), np.maximum(known @ slopes, 1e-12)
    means = (filled @ slopes) / masses
    odds = slope * means + intercept
    gaps = expit(odds) - happened
    aside = slopes - FIRST_SLOPE * prior
    cost = np.logaddexp(0, odds).sum() - happened @ odds + PULL * aside @ aside / 2
    by_slope = means[:, None] + slope * (filled - known * means[:, None]) / masses[:, None]
    return float(cost), np.append(gaps @ by_slope + PULL * aside, gaps.sum())


def rounded_weights(weights: Array) -> Weights:
    """Return `weights` to four decimals; the greatest takes what rounding leaves over.

    Args:
        weights: A weight for each level [>= 0, sum 1; shape (levels,)].

    Returns:
        Weights to four decimals [>= 0, sum exactly 1].
    """
    rounded = np.round(weights, WEIGHT_DECIMALS)
    rounded[np.argmax(rounded)] += 1 - rounded.sum()
    return tuple(round(float(one), WEIGHT_DECIMALS) for one in rounded)


def _middle(low: float, high: float) -> float:
    """Return a number with few decimals in the middle of what is above `low` and up to `high`."""
    if low < 0:
        return 0.0
    shorter = (round((low + high) / 2, decimals) for decimals in range(2, DECIMALS))
    return next((one for one in shorter if low < one <= high), high)
