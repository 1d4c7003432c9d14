"""Overconfident errors and failure regimes (papers.md 2.2)."""

import pytest

from kernel.arbitration.failures import FailureEvidence, failure_regimes, is_overconfident_error
from kernel.arbitration.modes import Regime


@pytest.mark.parametrize(
    ("correct", "probability", "error"),
    [(False, 0.71, True), (False, 0.7, False), (False, 0.1 + 0.6, False), (True, 1.0, False)],
)
def test_an_error_is_overconfident_above_the_threshold_only(correct: bool, probability: float, error: bool) -> None:
    assert is_overconfident_error(correct, probability, 0.7) is error


@pytest.mark.parametrize(("correct", "probability"), [(None, 0.9), (False, None)])
def test_what_is_unknown_is_no_error_and_no_success(correct: bool | None, probability: float | None) -> None:
    assert is_overconfident_error(correct, probability, 0.7) is None


@pytest.mark.parametrize(
    ("seen", "regimes"),
    [
        (FailureEvidence(entropy_solver=0.0), [Regime.HIGH_AGREEMENT]),
        (FailureEvidence(entropy_solver=0.0, solver_correct=True), [Regime.HIGH_AGREEMENT]),
        (FailureEvidence(entropy_solver=0.0, solver_correct=False), [Regime.HIGH_AGREEMENT, Regime.SHARED_BIAS]),
        (FailureEvidence(entropy_solver=0.3, entropy_arbiter=0.4), [Regime.UNSTABLE_ARBITER]),
        (FailureEvidence(entropy_solver=0.3, entropy_arbiter=0.3), []),
        (FailureEvidence(entropy_solver=0.3, solver_correct=True, correct=False, critique_novelty=0.5),
         [Regime.REFLECTION_NOISE]),
        (FailureEvidence(entropy_solver=0.3, solver_correct=True, correct=False, critique_novelty=0.0), []),
        (FailureEvidence(entropy_solver=0.3, solver_correct=False, correct=False, critique_novelty=0.5), []),
        (FailureEvidence(entropy_solver=0.3, solver_correct=True, correct=False), []),
        (FailureEvidence(entropy_solver=None), []),
    ],
)  # fmt: skip
def test_regimes_apply_where_their_evidence_is(seen: FailureEvidence, regimes: list[Regime]) -> None:
    assert list(failure_regimes(seen)) == regimes
