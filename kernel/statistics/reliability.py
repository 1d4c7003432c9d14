"""Reliability is how well confidences agree with the scores of the answers.

Source: MetaCogAgent V-F (papers.md 3.5) for the calibration error, papers.md 4.3 for Brier score and chance.
"""

from collections.abc import Sequence

import numpy as np

from kernel.statistics.intervals import wilson
from kernel.statistics.samples import Array, Indexes, Numbers, checked_arrays, unit_array
from kernel.thresholds import DECIMALS
from kernel.values import value

DEFAULT_BINS = 10
# Below this size a distribution is multiplied out directly, above by halves with fast Fourier transforms.
DIRECT = 64


@value
class ReliabilityBin:
    """A bin compares the confidences of one range with the scores of their answers.

    Attributes:
        lower: Lower end, inclusive [0..1].
        upper: Upper end, exclusive but for 1 [0..1].
        observations: Answers in it [count].
        mean_confidence: Their mean confidence [0..1]; None in an empty bin.
        accuracy: Their mean score [0..1]; None in an empty bin.
        accuracy_low: Lower end of its 95 % Wilson interval [0..1].
        accuracy_high: Upper end of its 95 % Wilson interval [0..1].
    """

    lower: float
    upper: float
    observations: int
    mean_confidence: float | None = None
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None


@value
class Reliability:
    """This value measures how far a set of confidences can be trusted.

    Attributes:
        calibration_error: ECE [0..1]; None without observations.
        brier_score: Brier score [0..1]; None without observations.
        bins: Bins of equal width, lowest first.
    """

    calibration_error: float | None
    brier_score: float | None
    bins: Sequence[ReliabilityBin]


def reliability(confidences: Numbers, scores: Numbers, bins: int = DEFAULT_BINS) -> Reliability:
    """Return the calibration error, Brier score and bins of the same answers.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].
        bins: Bins of equal width [count, >= 1].

    Raises:
        ValueError: When there is no bin, or the numbers do not fit together.
    """
    return Reliability(
        calibration_error=calibration_error(confidences, scores, bins),
        brier_score=brier_score(confidences, scores),
        bins=reliability_bins(confidences, scores, bins),
    )


def reliability_bins(confidences: Numbers, scores: Numbers, bins: int = DEFAULT_BINS) -> list[ReliabilityBin]:
    """Return the bins of equal width, lowest first, empty ones too.

    Args:
        confidences: Beliefs that the answers are right [0..1]. Which bin one belongs to is decided on values rounded to
            1e-9, so that 0.29 stands in the bin that begins there.
        scores: How right the answers were [0..1].
        bins: How many [count, >= 1].

    Raises:
        ValueError: When there is no bin, or the numbers do not fit together.

    Example:
        >>> [bin.accuracy for bin in reliability_bins([0.2, 0.5, 1.0], [0, 1, 0], 2)]
        [0.0, 0.5]
    """
    beliefs, labels = checked_arrays(confidences, scores)
    where = _bin_of(beliefs, bins)
    return [_bin(index, bins, beliefs[where == index], labels[where == index]) for index in range(bins)]


def calibration_error(confidences: Numbers, scores: Numbers, bins: int = DEFAULT_BINS) -> float | None:
    """Return the expected calibration error, ECE [0..1]; None without observations.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].
        bins: Bins of equal width [count, >= 1].

    Raises:
        ValueError: When there is no bin, or the numbers do not fit together.

    Source:
        MetaCogAgent V-F (papers.md 3.5): Σ_b |B_b|/n · |acc(B_b) - conf(B_b)| over bins of equal width.

    Example:
        >>> calibration_error([0.75, 0.75, 0.25], [1, 1, 0])
        0.25
    """
    beliefs, labels = checked_arrays(confidences, scores)
    if not len(beliefs):
        return None
    where = _bin_of(beliefs, bins)
    gaps = np.bincount(where, weights=labels - beliefs, minlength=bins)
    return round(float(np.abs(gaps).sum()) / len(beliefs), 12)


def chance_calibration_error(confidences: Numbers, bins: int = DEFAULT_BINS) -> float | None:
    """Return ECE that perfect calibration shows by chance with these confidences, in the mean [0..1]; None without any.

    Exact, no simulation: where each answer is right with the probability of its confidence, independently, the
    right ones of a bin are distributed as a sum of unequal coins (Poisson binomial), of which the mean absolute
    deviation is taken. Graded scores vary less, and show less.

    Args:
        confidences: Confidence of each answer [0..1].
        bins: Bins of equal width [count, >= 1].

    Raises:
        ValueError: When there is no bin, or a confidence lies outside [0, 1].

    Source:
        Ours (papers.md 4.3): about .10 at 100 answers and .03 at 1,000.

    Example:
        >>> chance_calibration_error([0.5])
        0.5
    """
    beliefs = unit_array("confidences", confidences)
    if not len(beliefs):
        return None
    where = _bin_of(beliefs, bins)
    gaps = [_mean_deviation(beliefs[where == index]) for index in np.unique(where)]
    return round(sum(gaps) / len(beliefs), 12)


def brier_score(confidences: Numbers, scores: Numbers) -> float | None:
    """Return the mean squared difference of confidence and score [0..1]; None without observations.

    Args:
        confidences: Confidence of each answer [0..1].
        scores: How right each answer was [0..1].

    Raises:
        ValueError: When the numbers do not fit together.

    Source:
        Brier 1950 (papers.md 4.3), for two outcomes.

    Example:
        >>> brier_score([1.0, 0.5], [1, 0])
        0.125
    """
    beliefs, labels = checked_arrays(confidences, scores)
    return round(float(np.mean((beliefs - labels) ** 2)), 12) if len(beliefs) else None


def _bin_of(beliefs: Array, bins: int) -> Indexes:
    if bins < 1:
        raise ValueError(f"there must be at least 1 bin, not {bins}")
    return np.minimum(np.floor(np.round(beliefs * bins, DECIMALS)), bins - 1).astype(np.intp)


def _bin(index: int, bins: int, beliefs: Array, labels: Array) -> ReliabilityBin:
    lower, upper, n = index / bins, (index + 1) / bins, len(beliefs)
    if not n:
        return ReliabilityBin(lower=lower, upper=upper, observations=0)
    interval = wilson(float(labels.sum()), n)
    return ReliabilityBin(
        lower=lower,
        upper=upper,
        observations=n,
        mean_confidence=round(float(beliefs.mean()), 12),
        accuracy=round(float(labels.mean()), 12),
        accuracy_low=interval.low,
        accuracy_high=interval.high,
    )


def _mean_deviation(chances: Array) -> float:
    """Return the mean absolute deviation of the number of heads of unequal coins from its mean [coins]."""
    counts = np.arange(len(chances) + 1)
    return float(np.abs(counts - chances.sum()) @ _heads(chances))


def _heads(chances: Array) -> Array:
    """Return the distribution of the number of heads of unequal coins."""
    if len(chances) > DIRECT:
        return _sum(_heads(chances[: len(chances) // 2]), _heads(chances[len(chances) // 2 :]))
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, (1 - chance, chance))
    return distribution


def _sum(one: Array, other: Array) -> Array:
    """Return the distribution of the sum of two independent counts."""
    size = len(one) + len(other) - 1
    product = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)
    return np.clip(product, 0, None)
