"""The weighted mean of what is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.weighted_mean import sums_to_one, weighted_mean, weighted_terms

LEVELS = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=4, max_size=4)
WEIGHTS = [0.30, 0.25, 0.25, 0.20]


@given(LEVELS)
def test_the_terms_sum_to_the_mean_wherever_both_exist(levels: list[float | None]) -> None:
    terms, mean = weighted_terms(levels, WEIGHTS), weighted_mean(levels, WEIGHTS)

    assert (terms is None) == (sum(level is not None for level in levels) < 2)
    if terms is not None:
        assert sum(term for term in terms if term is not None) == pytest.approx(mean, abs=1e-9)


def test_the_weights_of_known_levels_are_rescaled_to_one() -> None:
    assert weighted_terms([1.0, None, None, 1.0], WEIGHTS) == [0.6, None, None, 0.4]
    assert weighted_mean([1.0, None, None, 0.0], WEIGHTS) == 0.6


def test_a_level_without_weight_makes_nothing_known() -> None:
    assert weighted_mean([0.9, None], [0.0, 1.0]) is None
    assert weighted_terms([0.9, 0.8], [0.0, 0.0]) is None


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5], [0.0, 0.0], [float("nan"), 0.5], []])
def test_weights_must_be_positive_and_sum_to_one(weights: list[float]) -> None:
    assert not sums_to_one(weights)


def test_float_noise_in_a_sum_of_weights_is_tolerated() -> None:
    assert sums_to_one([0.1] * 10)
