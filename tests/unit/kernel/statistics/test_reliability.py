import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.statistics.intervals import wilson
from kernel.statistics.reliability import (
    brier_score,
    calibration_error,
    chance_calibration_error,
    reliability,
    reliability_bins,
)

JUDGED = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60)


def test_the_calibration_error_of_six_answers_by_hand() -> None:
    confidences, scores = [0.1, 0.3, 0.6, 0.65, 0.9, 1.0], [0, 1, 1, 0, 1, 1]

    # five bins: {.1}: |0 - .1|; {.3}: |1 - .3|; {.6, .65}: |1 - 1.25|; {.9, 1}: |2 - 1.9|; summed over 6
    assert calibration_error(confidences, scores, 5) == pytest.approx((0.1 + 0.7 + 0.25 + 0.1) / 6)


def test_one_bin_looks_at_the_means_only() -> None:
    assert calibration_error([0.2, 0.8], [1, 0], 1) == 0.0


def test_a_graded_score_counts_by_its_grade() -> None:
    assert calibration_error([0.75], [0.75]) == 0.0
    assert brier_score([0.75], [0.25]) == 0.25


def test_the_brier_score_by_hand() -> None:
    # (.8 - 1)² + (.4 - 0)² = .04 + .16
    assert brier_score([0.8, 0.4], [1, 0]) == pytest.approx(0.1)


@pytest.mark.parametrize("bins", [3, 7, 10, 20, 49, 100])
def test_a_confidence_on_an_edge_stands_in_the_bin_that_it_begins(bins: int) -> None:
    edges = [step / bins for step in range(bins)]

    assert [one.observations for one in reliability_bins(edges, [0.0] * bins, bins)] == [1] * bins


def test_float_noise_below_an_edge_does_not_decide() -> None:
    noisy = 0.7 - 0.25

    assert noisy < 0.45
    assert reliability_bins([noisy], [1], 20)[9].observations == 1


def test_the_last_bin_holds_certainty() -> None:
    assert [one.observations for one in reliability_bins([1.0, 0.9], [1, 1], 10)] == [0] * 9 + [2]


def test_a_bin_has_counts_means_and_wilsons_interval() -> None:
    [low, high] = reliability_bins([0.5, 0.75, 1.0], [1, 0, 1], 2)

    assert (low.observations, low.mean_confidence, low.accuracy, low.accuracy_low) == (0, None, None, None)
    assert (high.lower, high.upper, high.observations, high.mean_confidence) == (0.5, 1.0, 3, 0.75)
    assert high.accuracy == pytest.approx(2 / 3)
    assert (high.accuracy_low, high.accuracy_high) == (wilson(2, 3).low, wilson(2, 3).high)


def test_of_nothing_there_are_no_figures() -> None:
    figures = reliability([], [], 4)

    assert (figures.calibration_error, figures.brier_score, chance_calibration_error([])) == (None, None, None)
    assert [one.observations for one in figures.bins] == [0] * 4


def test_what_chance_gives_of_two_coins_by_hand() -> None:
    # heads of .5 and .5 in one bin: 0, 1, 2 with .25, .5, .25; distances from 1: 1, 0, 1; mean .5, over 2 answers
    assert chance_calibration_error([0.5, 0.5], 1) == 0.25


def test_what_chance_gives_of_unequal_coins_by_hand() -> None:
    # .2 and .6: no head .32, one .56, two .12; distances from .8: .8, .2, 1.2; .256 + .112 + .144 = .512, over 2
    assert chance_calibration_error([0.2, 0.6], 1) == pytest.approx(0.256)


def test_what_chance_gives_is_added_up_over_bins() -> None:
    # one coin in each of two bins: the mean distance of one is 2 c (1 - c) = .32, over 2 answers twice
    assert chance_calibration_error([0.2, 0.8], 2) == pytest.approx(0.32)


def test_certainty_leaves_nothing_to_chance() -> None:
    assert chance_calibration_error([0.0, 1.0, 1.0]) == 0.0


@pytest.mark.parametrize(("n", "expected"), [(100, 0.10), (1000, 0.03)])
def test_perfect_calibration_shows_what_the_specification_states(n: int, expected: float) -> None:
    result = chance_calibration_error(np.linspace(0, 1, n))

    assert result == pytest.approx(expected, abs=0.005)


def test_what_chance_gives_is_what_chance_gave() -> None:
    rng = np.random.default_rng(3)
    confidences = rng.uniform(0, 1, 700)

    drawn = [calibration_error(confidences, (rng.random(700) < confidences).astype(float)) for _ in range(400)]

    assert chance_calibration_error(confidences) == pytest.approx(np.mean([one or 0.0 for one in drawn]), rel=0.03)


@pytest.mark.parametrize(
    ("confidences", "scores"), [([1.1], [1]), ([-0.1], [1]), ([float("nan")], [1]), ([0.5], [2]), ([0.5], [])]
)
def test_numbers_that_do_not_fit_are_rejected(confidences: list[float], scores: list[float]) -> None:
    with pytest.raises(ValueError, match=r"must lie in|there are"):
        reliability(confidences, scores)


def test_there_is_at_least_one_bin() -> None:
    with pytest.raises(ValueError, match="at least 1 bin"):
        calibration_error([0.5], [1], 0)


@given(JUDGED, st.integers(1, 30))
@settings(deadline=None)
def test_the_figures_agree_with_the_bins(judged: list[tuple[float, float]], bins: int) -> None:
    confidences, scores = [c for c, _ in judged], [s for _, s in judged]

    figures = reliability(confidences, scores, bins)

    filled = [one for one in figures.bins if one.observations]
    weighed = sum(one.observations * abs(one.accuracy - one.mean_confidence) for one in filled)  # type: ignore[operator]
    assert figures.calibration_error == pytest.approx(weighed / len(judged), abs=1e-9)
    assert sum(one.observations for one in figures.bins) == len(judged)
    assert figures.brier_score is not None
    assert 0 <= figures.brier_score <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.integers(1, 12))
@settings(deadline=None)
def test_what_chance_gives_is_never_more_than_one_half_and_never_less_than_nothing(
    confidences: list[float], bins: int
) -> None:
    result = chance_calibration_error(confidences, bins)

    assert result is not None
    assert -1e-12 <= result <= 0.5 + 1e-9
