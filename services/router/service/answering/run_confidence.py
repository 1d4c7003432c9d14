"""The confidence of a run follows from its answer's own, from labels, or is unknown for a reason."""

from collections.abc import Mapping
from typing import Any

from kernel.learning.kind_shares import KindShares
from kernel.msv.assessors import AssessorName
from kernel.outcomes import Outcome
from kernel.policy import VOTING, Strategy
from kernel.values import value
from kernel.votes.states import ProbabilityState
from services.router.service.calibration.recalibration import Recalibration, served_confidence

NO_ANSWER = "there is no answer"
OTHER_MODEL = "a named model answered: labels are kept of the default model alone"
NOT_ASSESSED = "the text that the dialectic ended with could not be assessed"
WHOLE_REPLIES = "no labels say how probably a reply with tools, JSON or images is right"
ESCALATED = "the stronger model answered alone, and no vote says how sure its answer is"
NONE_REPORTED = "the strategy reported none"


@value
class ConfidenceInAnswer:
    """The confidence that came with an answer.

    Attributes:
        strategy: Strategy that answered; empty where none did.
        outcome: Whether there is an answer.
        error_reason: The error that ended the run without one; empty on success.
        level: The confidence [0..1]; None where there is none.
        source: Its source.
        state: What it is, where it is a probability already.
        labels: Labels that this was fitted on [count].
        unmapped: What it is while no map is in force.
        kind: Kind of the question, where the decision found it; empty: unknown.
        is_escalated: Whether the stronger model answered after votes.
        is_default_model: Whether the default model of System 1 answered, whose answers the labels are of.
    """

    strategy: str
    outcome: Outcome
    error_reason: str = ""
    level: float | None = None
    source: str = ""
    state: ProbabilityState | None = None
    labels: int = 0
    is_escalated: bool = False
    unmapped: ProbabilityState = ProbabilityState.UNCALIBRATED
    kind: str = ""
    is_default_model: bool = True


def run_confidence(found: ConfidenceInAnswer, recalibrated: Recalibration, shares: KindShares) -> Mapping[str, Any]:
    """Return the fields of a run about its confidence; where it is null, with the reason.

    A System 1 answer that nothing assessed (named, with tools or a format, by a cached decision) has the share of right
    answers to such questions, which needs no call: by kind where the decision found one, else over all questions.

    Args:
        found: What came with the answer.
        recalibrated: Maps a confidence to the one that is served.
        shares: Shares of right System 1 answers, by labels.
    """
    reason = _unknown_reason(found)
    if reason:
        return {"confidence": None, "confidence_source": found.source, "confidence_unknown_reason": reason}
    if found.level is None:
        level = shares.share(found.kind)
        probability = {"confidence_state": shares.state, "confidence_labels": shares.labels(found.kind)}
        return {"confidence": level, "confidence_raw": level, "confidence_source": AssessorName.ANSWERS, **probability}
    state, labels = found.state, found.labels
    if state is None and found.source == AssessorName.ANSWERS:
        state, labels = shares.state, shares.labels("")
    if state is not None:
        return {
            "confidence": found.level,
            "confidence_raw": found.level,
            "confidence_source": found.source,
            "confidence_state": state,
            "confidence_labels": labels,
        }
    served = served_confidence(recalibrated, found.strategy, found.source, found.level, unmapped=found.unmapped)
    return {**served, "confidence_source": found.source}


def _unknown_reason(found: ConfidenceInAnswer) -> str:
    """Return why there is no confidence; empty where there is one."""
    if found.level is not None:
        return ""
    if found.error_reason:
        return f"{NO_ANSWER}: {found.error_reason}"
    if found.outcome is not Outcome.ANSWERED:
        return NO_ANSWER
    if found.strategy == Strategy.SYSTEM_ONE:
        return "" if found.is_default_model else OTHER_MODEL
    if found.strategy in VOTING:
        return ESCALATED if found.is_escalated else WHOLE_REPLIES
    return NOT_ASSESSED if found.strategy == Strategy.DIALECTIC else NONE_REPORTED
