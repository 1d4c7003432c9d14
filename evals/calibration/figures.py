"""The calibration of served confidences, by kind of question. Pure.

The map is fitted as the router fits it: over all kinds of one source of confidence. Each answer is served by the map of
the other folds, so no label helps to calibrate its own answer.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evals.stats.chance import Chance
from kernel.statistics.bootstrap import Estimate, bootstrap_interval
from kernel.statistics.recalibration import cross_fitted
from kernel.statistics.reliability import brier_score, calibration_error, chance_calibration_error
from kernel.values import value

# The error that MetaCogAgent reports for its system (papers.md 3.5), at which an interval is held [0..1].
CLAIMED = 0.087
# Labels of a kind from which its error has an interval [count].
LEAST_LABELS = 20
ALL = "all kinds"

Floats = npt.NDArray[np.float64]


@value
class LabelledAnswers:
    """The labelled answers of one source of confidence, question by question.

    Attributes:
        source: Name of the source.
        kinds: Kind of each question; empty where it has none.
        confidences: Confidence before recalibration, shape (questions, systems) [0..1]; NaN without an answer.
        scores: How right each answer was, same shape [0..1]; NaN without an answer.
    """

    source: str
    kinds: Sequence[str]
    confidences: Floats
    scores: Floats


@value
class KindCalibration:
    """How well the confidences of one kind of question are calibrated: the mean over systems.

    Attributes:
        source: Source of the confidence.
        kind: The kind.
        labels: Labelled answers [count].
        before: ECE before recalibration, with its interval [0..1].
        after: ECE of the answers as the maps of the other folds serve them, with its interval [0..1].
        chance: ECE that perfect calibration would show by chance with these confidences [0..1].
        brier_before: Brier score before recalibration [0..1].
        brier_after: Brier score after it [0..1].
    """

    source: str
    kind: str
    labels: int
    before: Estimate
    after: Estimate
    chance: float
    brier_before: float
    brier_after: float


def calibration_by_kind(answers: LabelledAnswers, chance: Chance) -> Sequence[KindCalibration]:
    """Return the calibration over all kinds, then of each kind by name."""
    served = np.full_like(answers.confidences, np.nan)
    for system in range(answers.confidences.shape[1]):
        known = ~np.isnan(answers.confidences[:, system])
        served[known, system] = cross_fitted(answers.confidences[known, system], answers.scores[known, system])
    kinds = np.array(answers.kinds, dtype=object)
    rows: Mapping[str, npt.NDArray[np.bool_]] = {
        ALL: np.ones(len(kinds), dtype=np.bool_),
        **{kind: kinds == kind for kind in sorted(set(answers.kinds)) if kind},
    }
    found = (_calibration(answers, served, kind, row, chance) for kind, row in rows.items())
    return [one for one in found if one.labels]


def _calibration(
    answers: LabelledAnswers, served: Floats, kind: str, row: npt.NDArray[np.bool_], chance: Chance
) -> KindCalibration:
    raw, after, scores = answers.confidences[row], served[row], answers.scores[row]
    labels = int((~np.isnan(raw)).sum())
    return KindCalibration(
        source=answers.source,
        kind=kind,
        labels=labels,
        before=error_interval(raw, scores, chance),
        after=error_interval(after, scores, chance),
        chance=_mean(lambda beliefs, _: chance_calibration_error(beliefs), after, scores) or 0.0,
        brier_before=_mean(brier_score, raw, scores) or 0.0,
        brier_after=_mean(brier_score, after, scores) or 0.0,
    )


def error_interval(confidences: Floats, scores: Floats, chance: Chance) -> Estimate:
    """Return the mean ECE of the systems with its interval, questions drawn as a whole.

    Drawing again adds an error of its own, which an ECE can only grow by: so the lower end is that of the reflected
    interval, and the upper end that of percentiles, which is the cautious one.

    Source:
        Efron 1979, percentile and basic bootstrap (papers.md 4.4); taking the wider end of each is ours.
    """
    found = bootstrap_interval(
        partial(_mean, calibration_error), confidences, scores, rng=chance.rng, resamples=chance.draws
    )
    few = int((~np.isnan(confidences)).sum()) < LEAST_LABELS
    if found.value is None or found.low is None or found.high is None or few:
        return Estimate(value=found.value, low=None, high=None, items=found.items, resamples=found.resamples)
    low = max(0.0, round(2 * found.value - found.high, 12))
    return Estimate(value=found.value, low=low, high=found.high, items=found.items, resamples=found.resamples)


def _mean(statistic: Any, confidences: Floats, scores: Floats) -> float | None:  # noqa: ANN401
    """Return the mean of a statistic over the systems that gave an answer; None without any."""
    values = []
    for beliefs, labels in zip(confidences.T, scores.T, strict=True):
        known = ~np.isnan(beliefs)
        if known.any():
            values.append(statistic(beliefs[known], labels[known]))
    return float(np.mean(values)) if values else None
