from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from kernel.activation import ActivationWeights, activation
from kernel.msv import MSV
from kernel.statistics.discrimination import auroc
from kernel.statistics.weighing import fitted_weights, held_out_means, threshold_for_share, weighted_means

PAPER = (0.30, 0.25, 0.25, 0.20)
LEVEL = st.none() | st.floats(0, 1)


@given(st.tuples(LEVEL, LEVEL, LEVEL, LEVEL), st.tuples(*[st.integers(0, 10)] * 4).filter(any))
@settings(deadline=None)
def test_the_weighted_mean_is_the_activation_of_the_router(
    state: tuple[float | None, ...], shares: tuple[int, ...]
) -> None:
    correctness, conflict, importance, experience = state
    weights = [share / sum(shares) for share in shares]
    known = dict(correctness=correctness, conflict=conflict, importance=importance, experience=experience)
    named = dict(zip(known, weights, strict=True))

    msv = MSV(correctness=correctness, conflict=conflict, importance=importance, experience=experience)
    routed = activation(msv, ActivationWeights(**named)).value

    levels = [
        nan if level is None else 1 - level if name in ("correctness", "experience") else level
        for name, level in known.items()
    ]
    [mean] = weighted_means(np.array([levels]), weights)
    assert (routed is None and isnan(mean)) or mean == pytest.approx(routed, abs=1e-11)


def events_of(levels: np.ndarray, weights: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Events whose log-odds rise by 8 over the weighted mean, even at its middle."""
    chances: np.ndarray = rng.random(len(levels)) < expit(8 * (weighted_means(levels, weights) - 0.5))
    return chances


def test_weights_behind_the_events_are_found_again() -> None:
    rng = np.random.default_rng(1)
    levels = rng.random((8000, 4))

    weights = fitted_weights(levels, events_of(levels, (0.6, 0.3, 0.1, 0.0), rng), PAPER)

    assert weights == pytest.approx((0.6, 0.3, 0.1, 0.0), abs=0.04)


def test_they_are_found_again_where_some_levels_are_unknown() -> None:
    rng = np.random.default_rng(2)
    levels = rng.random((8000, 4))
    levels[rng.random(levels.shape) < 0.2] = nan
    happened = events_of(np.nan_to_num(levels, nan=0.5), (0.6, 0.3, 0.1, 0.0), rng)

    weights = fitted_weights(levels, happened, PAPER)

    assert weights == pytest.approx((0.6, 0.3, 0.1, 0.0), abs=0.1)


def test_a_level_that_misleads_gets_no_weight() -> None:
    rng = np.random.default_rng(3)
    levels = rng.random((2000, 2))

    assert fitted_weights(levels, rng.random(2000) < expit(6 * (levels[:, 0] - levels[:, 1])), (0.5, 0.5)) == (1.0, 0.0)


def test_levels_that_carry_no_information_leave_the_weights_where_they_were() -> None:
    levels = np.full((50, 4), 0.5)

    assert fitted_weights(levels, np.arange(50) % 2 == 0, PAPER) == pytest.approx(PAPER, abs=0.02)
    misleading = np.linspace(0, 1, 200)[:, None] * np.ones(4)
    assert fitted_weights(misleading, misleading[:, 0] < 0.5, PAPER) == PAPER


def test_few_events_leave_the_weights_near_where_they_were() -> None:
    rng = np.random.default_rng(4)
    levels = rng.random((12, 4))
    happened = rng.random(12) < 0.5

    near = np.abs(np.array(fitted_weights(levels, happened, PAPER)) - PAPER).max()

    assert near < 0.25


@given(st.integers(0, 50), st.integers(10, 40))
@settings(deadline=None, max_examples=15)
def test_fitted_weights_are_weights(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.random((n, 4))
    levels[rng.random(levels.shape) < 0.3] = nan

    weights = fitted_weights(levels, rng.random(n) < 0.4, PAPER)

    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1, abs=1e-12)


def test_what_is_held_out_shows_no_gain_where_there_is_none() -> None:
    rng = np.random.default_rng(6)
    levels = rng.random((400, 4))
    happened = rng.random(400) < 0.4

    held_out = auroc(held_out_means(levels, happened, PAPER, rng), happened)

    assert held_out.low is not None
    assert held_out.high is not None
    assert held_out.low < 0.5 < held_out.high


def test_the_threshold_for_a_quarter_of_four() -> None:
    built = threshold_for_share([0.1, 0.2, 0.4, 0.8], 0.25)

    assert (built.threshold, built.passing, built.total, built.share) == (0.6, 1, 4, 0.25)


@pytest.mark.parametrize(
    ("share", "threshold", "passing"),
    [(0.0, 1.0, 0), (1.0, 0.0, 4), (0.5, 0.3, 2), (0.4, 0.3, 2), (0.375, 0.6, 1)],
    ids=["none", "all", "half", "nearest", "of two as near the less"],
)
def test_thresholds_for_other_shares_of_the_same(share: float, threshold: float, passing: int) -> None:
    built = threshold_for_share([0.1, 0.2, 0.4, 0.8], share)

    assert (built.threshold, built.passing) == (threshold, passing)


def test_what_has_no_value_passes_or_not_whatever_the_threshold() -> None:
    built = threshold_for_share([0.1, 0.9], 0.5, passing=1, failing=1)

    assert (built.passing, built.total, built.share) == (2, 4, 0.5)
    assert threshold_for_share([], 0.3, passing=2).share == 1.0


def test_of_nothing_there_is_no_share() -> None:
    with pytest.raises(ValueError, match="cannot be had"):
        threshold_for_share([], 0.5)
    with pytest.raises(ValueError, match="cannot be had"):
        threshold_for_share([0.5], 1.5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 1))
@settings(deadline=None)
def test_the_threshold_lets_the_share_pass_that_it_reports(values: list[float], share: float) -> None:
    built = threshold_for_share(values, share)

    assert built.passing == sum(round(value, 9) >= round(built.threshold, 9) for value in values)
    assert abs(built.share - share) <= 1
    assert 0 <= built.threshold <= 1
