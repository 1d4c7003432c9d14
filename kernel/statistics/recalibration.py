"""Recalibration maps a raw confidence to a served one; this module fits two forms of map and chooses between them.

Both forms learn from smoothed labels: no number of labels makes an answer certain, so no map leads to 0 or 1.

Source: papers.md 4.3. Platt 1999 (logistic curve, smoothed targets), Zadrozny and Elkan 2002 (isotonic regression).
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import numpy as np
from scipy.special import expit, logit

from kernel.statistics.samples import FOLDS, RIGHT, Array, Indexes, Numbers, checked_arrays, stratified_folds
from kernel.thresholds import exceeds, reaches
from kernel.values import value

# Labelled answers from which a map is fitted [count]. At 100 even perfect calibration shows an error of about .10,
# which is the size that a map corrects.
MINIMUM_LABELS = 100
# Labels since the last fit, as a share of those it was fitted on, from which the next is made [> 0].
GROWTH = 0.2
# Of the chance that deals the folds.
SEED = 0
# Confidences nearer to 0 or 1 than this have the log-odds of this [0..1].
NEAREST = 0.001
# Weight of the pull towards the identity: of the squared distance of slope and intercept against the sum of log losses.
PULL = 1.0
# Newton's method ends with a step below this, or after so many.
TINY = 1e-9
MOST_STEPS = 50
# Points that a logistic curve is drawn through; a straight line between them is within 0.003 of it for slopes up to 2.
CURVE_POINTS = 61


class Method(StrEnum):
    """A method is the form of a map."""

    ISOTONIC = "ISOTONIC"
    PLATT = "PLATT"


@value
class Point:
    """A point is one support of a map.

    Attributes:
        confidence: Raw confidence [0..1].
        calibrated: Confidence that is served [0..1].
    """

    confidence: float
    calibrated: float


Points = Sequence[Point]


@value
class FittedMap:
    """This value is the best map that the labels give, and whether it is better than none.

    Attributes:
        method: Its form.
        points: Points of it, by rising confidence; linear between them, level beyond them.
        observations: Answers it was fitted on [count].
        brier_before: Brier score without it [0..1].
        brier_after: Cross-validated Brier score with it [0..1].
        gain_error: Standard error of the difference, answer by answer [>= 0].
    """

    method: Method
    points: Points
    observations: int
    brier_before: float
    brier_after: float
    gain_error: float

    @property
    def improves(self) -> bool:
        """Return whether the map is better than none: by more than the standard error of the gain.

        Simulated, 200 times each at 50 to 1,000 answers: of the maps for confidences that need none, 36 to 50 % would
        pass without that margin, with it 3 to 12 %; of those that correct an error of .19, 94 % pass at 100 answers and
        99 % at 200.
        """
        return exceeds(self.brier_before - self.brier_after, self.gain_error)


def is_fit_due(
    labels: int, *, since: int, fitted_on: int | None, minimum: int = MINIMUM_LABELS, growth: float = GROWTH
) -> bool:
    """Return whether it is time to fit a map: from `minimum` labels on, and again after a share more.

    Args:
        labels: Labelled answers [count].
        since: Labels that have come in since the last fit [count].
        fitted_on: Labelled answers that the last map was fitted on [count]; None before the first fit.
        minimum: Labelled answers from which a map is fitted at all [count, >= 1].
        growth: Share of `fitted_on` that `since` must reach, and at least one label [> 0].

    Example:
        >>> [is_fit_due(labels, since=labels, fitted_on=None) for labels in (99, 100)]
        [False, True]
        >>> [is_fit_due(100 + since, since=since, fitted_on=100) for since in (19, 20)]
        [False, True]
    """
    if labels < minimum:
        return False
    return fitted_on is None or reaches(since, max(1.0, growth * fitted_on))


def recalibration(confidences: Numbers, scores: Numbers, folds: int = FOLDS) -> FittedMap:
    """Return the better of an isotonic map and a logistic one, by Brier score on folds it was not fitted on.

    The folds are alike in right and wrong, and dealt by a constant seed: the same answers give the same map.

    Args:
        confidences: Beliefs that the answers are right [0..1].
        scores: How right they were [0..1].
        folds: How many [count, >= 2].

    Raises:
        ValueError: For fewer answers than folds, or numbers that do not fit together.
    """
    beliefs, labels = checked_arrays(confidences, scores)
    if len(beliefs) < folds:
        raise ValueError(f"{len(beliefs)} answers are too few for {folds} folds")
    parts = stratified_folds(labels >= RIGHT, folds, np.random.default_rng(SEED))
    before = (beliefs - labels) ** 2
    after = {method: (_held_out(fit, beliefs, labels, parts) - labels) ** 2 for method, fit in FITS.items()}
    method = min(FITS, key=lambda one: round(float(after[one].mean()), 12))
    return FittedMap(
        method=method,
        points=FITS[method](beliefs, labels),
        observations=len(beliefs),
        brier_before=round(float(before.mean()), 12),
        brier_after=round(float(after[method].mean()), 12),
        gain_error=round(float((before - after[method]).std() / len(beliefs) ** 0.5), 12),
    )


def cross_fitted(confidences: Numbers, scores: Numbers, folds: int = FOLDS) -> Array:
    """Return each confidence as it would be served by the map that the labels of the other folds give [0..1].

    As in the product there is no map with fewer than `MINIMUM_LABELS` labels, nor where none is better.

    Args:
        confidences: Beliefs that the answers are right [0..1].
        scores: How right they were [0..1].
        folds: How many [count, >= 2].

    Raises:
        ValueError: For numbers that do not fit together.

    Example:
        >>> cross_fitted([0.9, 0.2], [1, 0]).tolist()
        [0.9, 0.2]
    """
    beliefs, labels = checked_arrays(confidences, scores)
    served = beliefs.copy()
    for part in stratified_folds(labels >= RIGHT, folds, np.random.default_rng(SEED)):
        rest = np.delete(np.arange(len(beliefs)), part)
        if len(rest) >= MINIMUM_LABELS:
            found = recalibration(beliefs[rest], labels[rest], folds)
            points = found.points if found.improves else ()
            served[part] = [calibrated(points, float(belief)) for belief in beliefs[part]]
    return served


def calibrated(points: Points, confidence: float) -> float:
    """Return a confidence as a map serves it [0..1]; without points as it is.

    Args:
        points: Points of the map, by rising confidence.
        confidence: Confidence before [0..1].

    Example:
        >>> calibrated([Point(confidence=0.2, calibrated=0.1), Point(confidence=1.0, calibrated=0.5)], 0.6)
        0.3
    """
    if not points:
        return confidence
    above = bisect_right(points, confidence, key=lambda point: point.confidence)
    if above in (0, len(points)):
        return points[0 if above == 0 else -1].calibrated
    left, right = points[above - 1], points[above]
    share = (confidence - left.confidence) / (right.confidence - left.confidence)
    return round(left.calibrated + share * (right.calibrated - left.calibrated), 12)


def isotonic_points(confidences: Numbers, scores: Numbers) -> list[Point]:
    """Return the never falling map nearest to the labels, by the ends of its steps.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].

    Raises:
        ValueError: When there is no answer, or the numbers do not fit together.

    Example:
        >>> [(p.confidence, round(p.calibrated, 4)) for p in isotonic_points([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])]
        [(0.2, 0.25), (0.4, 0.5), (0.6, 0.5), (0.8, 0.75)]
    """
    beliefs, labels = checked_arrays(confidences, scores)
    if not len(beliefs):
        raise ValueError("there is no answer to learn from")
    levels, where, counts = np.unique(beliefs, return_inverse=True, return_counts=True)
    means = np.bincount(where, weights=_smoothed(labels)) / counts
    from scipy.optimize import isotonic_regression  # it takes long, and a service that starts fits nothing

    steps = np.clip(isotonic_regression(means, weights=counts.astype(np.float64)).x, 0, 1)
    return _corners(levels, np.round(steps, 12))


def platt_points(confidences: Numbers, scores: Numbers) -> list[Point]:
    """Return the logistic curve over the log-odds that fits the labels best, by points of it.

    It is 1 / (1 + e^-(a · log-odds + b)) with a >= 0. It is pulled towards the identity, a = 1 and b = 0, which decides
    while there are few labels.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].

    Raises:
        ValueError: When there is no answer, or the numbers do not fit together.
    """
    slope, intercept = platt_curve(confidences, scores)
    grid = np.linspace(logit(NEAREST), -logit(NEAREST), CURVE_POINTS)
    levels, curve = expit(grid), expit(slope * grid + intercept)
    return [
        Point(confidence=round(float(x), 12), calibrated=round(float(y), 12))
        for x, y in zip(levels, curve, strict=True)
    ]


def platt_curve(confidences: Numbers, scores: Numbers) -> tuple[float, float]:
    """Return slope (>= 0) and intercept of the logistic curve over the log-odds that fits the labels best.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].

    Returns:
        Slope [>= 0] and intercept [log-odds].

    Raises:
        ValueError: When there is no answer, or the numbers do not fit together.
    """
    beliefs, labels = checked_arrays(confidences, scores)
    if not len(beliefs):
        raise ValueError("there is no answer to learn from")
    odds, targets = logit(np.clip(beliefs, NEAREST, 1 - NEAREST)), _smoothed(labels)
    slope, intercept = _nearest_curve(odds, targets)
    return (slope, intercept) if slope >= 0 else (0.0, _nearest_curve(np.zeros_like(odds), targets)[1])


def _nearest_curve(odds: Array, targets: Array) -> tuple[float, float]:
    """Return slope and intercept of least log loss and pull, by Newton's method with step halving."""
    slope, intercept = 1.0, 0.0
    for _ in range(MOST_STEPS):
        chances = expit(slope * odds + intercept)
        gaps, spreads = chances - targets, chances * (1 - chances)
        uphill = float(gaps @ odds) + PULL * (slope - 1), float(gaps.sum()) + PULL * intercept
        a, b, c = float(spreads @ odds**2) + PULL, float(spreads @ odds), float(spreads.sum()) + PULL
        scale = 1 / (a * c - b * b)
        step = scale * (c * uphill[0] - b * uphill[1]), scale * (a * uphill[1] - b * uphill[0])
        here, share = _loss(odds, targets, slope, intercept), 1.0
        while share > TINY and _loss(odds, targets, slope - share * step[0], intercept - share * step[1]) > here:
            share /= 2
        slope, intercept = slope - share * step[0], intercept - share * step[1]
        if max(abs(step[0]), abs(step[1])) < TINY:
            break
    return slope, intercept


def _loss(odds: Array, targets: Array, slope: float, intercept: float) -> float:
    bent = slope * odds + intercept
    pull = PULL * ((slope - 1) ** 2 + intercept**2) / 2
    return float(np.logaddexp(0, bent).sum() - targets @ bent) + pull


Fit = Callable[[Array, Array], list[Point]]
# The simpler form first: it wins ties.
FITS: Mapping[Method, Fit] = {Method.PLATT: platt_points, Method.ISOTONIC: isotonic_points}


def _held_out(fit: Fit, beliefs: Array, labels: Array, parts: Sequence[Indexes]) -> Array:
    """Return the confidences of each part, mapped by the map that is fitted to the other parts."""
    mapped = np.empty_like(beliefs)
    for part in parts:
        rest = np.ones(len(beliefs), dtype=np.bool_)
        rest[part] = False
        points = fit(beliefs[rest], labels[rest])
        mapped[part] = np.interp(beliefs[part], [p.confidence for p in points], [p.calibrated for p in points])
    return mapped


def _smoothed(labels: Array) -> Array:
    """Return labels drawn in from 0 and 1, as if one more answer of each kind had been seen (Platt's targets)."""
    good = float(labels.sum())
    bad = len(labels) - good
    lowest, highest = 1 / (bad + 2), (good + 1) / (good + 2)
    return lowest + (highest - lowest) * labels


def _corners(levels: Array, steps: Array) -> list[Point]:
    """Return the points where a staircase bends."""
    last = len(levels) - 1
    corners = [i for i in range(last + 1) if i in (0, last) or not steps[i - 1] == steps[i] == steps[i + 1]]
    return [Point(confidence=float(levels[i]), calibrated=float(steps[i])) for i in corners]
