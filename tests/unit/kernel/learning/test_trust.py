import numpy as np
import pytest

from kernel.learning.trust import Trust, has_weight, self_assessment_trust


def said(
    rng: np.random.Generator, bias: float, count: int = 300, *, blind: bool = False
) -> tuple[list[float], list[float]]:
    chances = rng.uniform(0.2, 0.8, count)
    right = (rng.random(count) < chances).astype(float)
    spoken = np.full(count, 0.5) + rng.uniform(-0.05, 0.05, count) if blind else chances
    return list(np.clip(spoken + bias, 0, 1)), list(right)


@pytest.mark.parametrize(
    ("bias", "trust"), [(0.0, Trust.DESERVED), (0.2, Trust.OVERCONFIDENT), (-0.2, Trust.UNDERCONFIDENT)]
)
def test_a_bias_has_a_name(bias: float, trust: Trust) -> None:
    result = self_assessment_trust(*said(np.random.default_rng(1), bias))

    assert result.trust is trust
    assert result.bias == pytest.approx(bias, abs=0.06)


def test_the_same_confidence_for_everything_is_uninformative() -> None:
    result = self_assessment_trust(*said(np.random.default_rng(2), 0.0, 2000, blind=True))

    assert result.trust is Trust.UNINFORMATIVE


@pytest.mark.parametrize("stated", [0.0, 0.5, 0.95])
def test_ratings_that_are_all_the_same_are_uninformative_however_biased_they_are(stated: float) -> None:
    result = self_assessment_trust([stated] * 30, [1.0, 0.0, 0.0] * 10)

    assert result.trust is Trust.UNINFORMATIVE
    assert result.bias == pytest.approx(stated - 1 / 3)


def test_a_bias_does_not_hide_that_ratings_do_not_separate_right_from_wrong() -> None:
    result = self_assessment_trust(*said(np.random.default_rng(2), 0.4, 2000, blind=True))

    assert result.bias == pytest.approx(0.4, abs=0.05)
    assert result.trust is Trust.UNINFORMATIVE


def test_little_data_allow_no_conclusion_and_none_no_measures() -> None:
    few = self_assessment_trust([0.9] * 10, [0.0] * 10, "v1")
    none = self_assessment_trust([], [])

    assert (few.trust, few.observations, few.calibration_error, few.recalibration_version) == (None, 10, 0.9, "v1")
    assert (none.observations, none.calibration_error, none.bias) == (0, None, None)


def test_only_a_rating_that_says_nothing_has_no_weight() -> None:
    assert [trust for trust in Trust if not has_weight(trust)] == [Trust.UNINFORMATIVE]
    assert has_weight(None)
