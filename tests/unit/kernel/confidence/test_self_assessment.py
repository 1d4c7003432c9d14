import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.confidence.self_assessment import combined_confidence, disagreement, effective_threshold

UNIT = st.floats(0, 1)


def test_the_worked_example_of_the_paper() -> None:
    confidence = combined_confidence(0.45, 0.27, weight=0.6)

    assert confidence == pytest.approx(0.378)
    assert disagreement(0.45, 0.27) == pytest.approx(0.18)
    assert effective_threshold(0.18) == 0.5


def test_an_unknown_self_assessment_leaves_the_profile_and_the_threshold_alone() -> None:
    assert combined_confidence(None, 0.7) == 0.7
    assert disagreement(None, 0.7) is None
    assert effective_threshold(None) == 0.5


@pytest.mark.parametrize(
    ("conflict", "threshold"),
    [(0.0, 0.5), (0.3, 0.5), (abs(0.8 - 0.5), 0.5), (0.31, 0.562), (0.5, 0.6), (1.0, 0.7)],
)
def test_only_a_disagreement_above_its_limit_tightens_the_threshold(conflict: float, threshold: float) -> None:
    assert effective_threshold(conflict) == pytest.approx(threshold)


@given(UNIT, UNIT, UNIT)
def test_the_combination_lies_between_its_parts(verbalized: float, profile: float, weight: float) -> None:
    confidence = combined_confidence(verbalized, profile, weight=weight)

    low, high = sorted((verbalized, profile))
    assert low - 1e-12 <= confidence <= high + 1e-12


@given(UNIT, UNIT)
def test_more_disagreement_never_lowers_the_threshold(one: float, other: float) -> None:
    low, high = sorted((one, other))

    assert effective_threshold(low) <= effective_threshold(high)
