"""This module concludes which agents' self-assessments deserve trust.

Source: MetaCogAgent VII, future work (papers.md 3.6): a meta-agent that watches how well the others assess themselves.
Its limits are ours.
"""

from collections.abc import Sequence
from enum import StrEnum
from math import sqrt

from kernel.statistics.discrimination import auroc
from kernel.statistics.intervals import Z95
from kernel.statistics.reliability import brier_score, calibration_error, chance_calibration_error
from kernel.statistics.samples import right
from kernel.thresholds import exceeds
from kernel.values import value

# Judged self-assessments below which nothing is concluded [count].
ENOUGH = 30
# A bias smaller than this is not worth a name [0..1].
SMALL_BIAS = 0.05
# A discrimination that stays below this with 95 % carries no information [0..1].
BLIND = 0.6


class Trust(StrEnum):
    """This conclusion is how far an agent's self-assessment deserves trust."""

    DESERVED = "DESERVED"
    OVERCONFIDENT = "OVERCONFIDENT"
    UNDERCONFIDENT = "UNDERCONFIDENT"
    UNINFORMATIVE = "UNINFORMATIVE"


def has_weight(trust: Trust | None) -> bool:
    """Return whether an agent's self-assessment has its weight, lambda, in the confidence; else the profile decides.

    Source:
        Ours (papers.md 3.6), outside the paper's rule: a rating that surely does not separate right answers from wrong
        ones only adds noise, whereas a biased one can be recalibrated.

    Example:
        >>> [has_weight(trust) for trust in (None, Trust.OVERCONFIDENT, Trust.UNINFORMATIVE)]
        [True, True, False]
    """
    return trust is not Trust.UNINFORMATIVE


@value
class SelfAssessmentTrust:
    """This value compares an agent's self-assessments with the labels of its tasks.

    Attributes:
        trust: The conclusion; None with too little data.
        observations: Judged tasks with a verbalized confidence behind it [count].
        calibration_error: ECE of the stated confidences [0..1]; None without observations.
        chance_calibration_error: ECE that a perfectly calibrated agent would show by chance [0..1].
        brier_score: Brier score of the stated confidences [0..1].
        bias: Mean confidence less share of right answers [-1..1]; positive: overconfident.
        discrimination: Probability that a right answer had the higher confidence than a wrong one [0..1].
        recalibration_version: Version of the recalibration in force; empty: none.
    """

    trust: Trust | None = None
    observations: int = 0
    calibration_error: float | None = None
    chance_calibration_error: float | None = None
    brier_score: float | None = None
    bias: float | None = None
    discrimination: float | None = None
    recalibration_version: str = ""


def self_assessment_trust(
    confidences: Sequence[float], scores: Sequence[float], recalibration_version: str = ""
) -> SelfAssessmentTrust:
    """Return how far an agent's self-assessment deserves trust.

    Args:
        confidences: Confidences that it stated before its tasks [0..1].
        scores: Whether it was right [right 1, wrong 0].
        recalibration_version: Version of the recalibration in force.

    Returns:
        Uninformative where all confidences are the same, or the discrimination surely (95 %) stays below 0.6: then the
        bias does not matter. Over- or underconfident where the bias surely has its sign and is worth a name; else
        deserved.
    """
    n = len(confidences)
    if not n:
        return SelfAssessmentTrust(recalibration_version=recalibration_version)
    gaps = [stated - score for stated, score in zip(confidences, scores, strict=True)]
    bias = sum(gaps) / n
    area = auroc(confidences, right(scores))
    return SelfAssessmentTrust(
        trust=_conclusion(confidences, gaps, bias, area.high) if n >= ENOUGH else None,
        observations=n,
        calibration_error=calibration_error(confidences, scores),
        chance_calibration_error=chance_calibration_error(confidences),
        brier_score=brier_score(confidences, scores),
        bias=round(bias, 12),
        discrimination=area.auroc,
        recalibration_version=recalibration_version,
    )


def _conclusion(confidences: Sequence[float], gaps: Sequence[float], bias: float, area_high: float | None) -> Trust:
    is_constant = not exceeds(max(confidences), min(confidences))
    if is_constant or (area_high is not None and exceeds(BLIND, area_high)):
        return Trust.UNINFORMATIVE
    spread = sqrt(sum((gap - bias) ** 2 for gap in gaps) / (len(gaps) - 1))
    sure = exceeds(abs(bias), max(SMALL_BIAS, Z95 * spread / sqrt(len(gaps))))
    if sure:
        return Trust.OVERCONFIDENT if bias > 0 else Trust.UNDERCONFIDENT
    return Trust.DESERVED
