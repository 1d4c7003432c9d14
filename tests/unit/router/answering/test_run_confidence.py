"""Where the confidence of a run comes from, and why it is null."""

from dataclasses import replace

import pytest

from kernel.learning.kind_shares import KindShares
from kernel.outcomes import Outcome
from kernel.policy import Strategy
from kernel.votes.states import ProbabilityState
from services.router.service.answering.run_confidence import ConfidenceInAnswer, run_confidence
from services.router.service.calibration.recalibration import without_map

# 15 of 30 right over all: (15 + 10 * .6) / 40 = .525; of sums 9 of 10: (9 + 10 * .525) / 20 = .7125
SHARES = KindShares(kinds={"sums": (10, 9)}, overall=(30, 15), prior=0.6)
UNLABELLED = KindShares(kinds={}, overall=(0, 0), prior=0.6)


def found(strategy: Strategy = Strategy.SYSTEM_ONE, **more: object) -> ConfidenceInAnswer:
    return ConfidenceInAnswer(strategy=strategy, outcome=Outcome.ANSWERED, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "shares", "level", "state", "labels"),
    [
        ("sums", SHARES, 0.7125, ProbabilityState.FITTED, 10),
        ("", SHARES, 0.525, ProbabilityState.FITTED, 30),
        ("", UNLABELLED, 0.6, ProbabilityState.PRIOR, 0),
    ],
)
def test_an_answer_that_nothing_assessed_has_the_share_right_on_its_kind(
    kind: str, shares: KindShares, level: float, state: ProbabilityState, labels: int
) -> None:
    fields = run_confidence(found(kind=kind), without_map, shares)

    assert fields == {
        "confidence": level,
        "confidence_raw": level,
        "confidence_source": "answers",
        "confidence_state": state,
        "confidence_labels": labels,
    }


def test_a_confidence_of_its_own_goes_before_the_record() -> None:
    fields = run_confidence(found(level=0.9, source="draft"), without_map, SHARES)

    assert (fields["confidence"], fields["confidence_source"]) == (0.9, "draft")
    assert fields["confidence_state"] is ProbabilityState.UNCALIBRATED


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (found(error_reason="UNAVAILABLE"), "there is no answer: UNAVAILABLE"),
        (ConfidenceInAnswer(strategy="system1", outcome=Outcome.ABSTAINED), "there is no answer"),
        (found(is_default_model=False), "a named model answered: labels are kept of the default model alone"),
        (found(Strategy.DIALECTIC), "the text that the dialectic ended with could not be assessed"),
        (
            replace(found(Strategy.CASCADE), is_escalated=True),
            "the stronger model answered alone, and no vote says how sure its answer is",
        ),
        (found(Strategy.VOTE), "no labels say how probably a reply with tools, JSON or images is right"),
        (found(Strategy.DELEGATION), "the strategy reported none"),
    ],
)
def test_a_confidence_that_is_null_has_a_reason_in_words(given: ConfidenceInAnswer, reason: str) -> None:
    fields = run_confidence(given, without_map, SHARES)

    assert (fields["confidence"], fields["confidence_unknown_reason"]) == (None, reason)
