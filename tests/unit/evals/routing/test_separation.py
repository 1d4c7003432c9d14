import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evals.stats.chance import Chance, seeded
from evals.stats.separation import (
    area,
    flags,
    mean_area_within,
    random_band,
    shuffled_band,
    shuffled_within_band,
    within_interval,
)
from evals.stats.shares import share

EASY, HARD = 0, 1


def chance(draws: int = 1000) -> Chance:
    return seeded(7, draws)


def test_the_area_counts_pairs_and_ties_by_half() -> None:
    # Wrong at 0.4 and 0.8; right at 0.1 and 0.4: 3 of 4 pairs are won and one is tied.
    assert area(np.array([0.1, 0.4, 0.4, 0.8]), flags([False, False, True, True])) == 0.875


def test_the_area_is_that_of_scikit_learn() -> None:
    levels, wrong = np.round(chance().rng.random(200), 1), flags(list(seeded(8).rng.random(200) < 0.3))

    assert area(levels, wrong) == pytest.approx(roc_auc_score(wrong, levels), abs=1e-12)


def test_one_kind_alone_has_no_area() -> None:
    assert area(np.array([0.1, 0.4]), flags([True, True])) is None
    assert mean_area_within(np.array([0.1, 0.4]), flags([True, False]), np.array([EASY, HARD])) is None


def test_separating_hard_sets_from_easy_ones_is_no_separation_inside_them() -> None:
    # The level is the set's alone: 3 of 4 hard ones are wrong, 1 of 4 easy ones.
    levels = np.array([0.2] * 4 + [0.8] * 4)
    wrong = flags([True, False, False, False, True, True, True, False])
    groups = np.array([EASY] * 4 + [HARD] * 4)

    # Pooled, of 16 pairs of a wrong and a right one 3 x 3 are won and 1 x 3 + 3 x 1 are tied: 12/16.
    assert area(levels, wrong) == 0.75
    assert mean_area_within(levels, wrong, groups) == 0.5
    assert within_interval(levels, wrong, groups, chance()).value == 0.5
    assert shuffled_within_band(levels, wrong, groups, chance(20)).mean == 0.75


def test_shuffled_levels_come_to_one_half() -> None:
    levels, wrong = np.linspace(0, 1, 100), flags([False] * 60 + [True] * 40)

    for band in (random_band(wrong, chance()), shuffled_band(levels, wrong, chance())):
        assert band.mean == pytest.approx(0.5, abs=0.01)
        assert band.low is not None
        assert band.high is not None
        # Mann and Whitney's standard deviation under chance: sqrt((m + n + 1) / 12 m n) = 0.0592.
        assert (band.low, band.high) == pytest.approx((0.5 - 1.96 * 0.0592, 0.5 + 1.96 * 0.0592), abs=0.02)


def test_the_same_seed_gives_the_same_band() -> None:
    wrong = flags([True, False] * 10)

    assert random_band(wrong, chance(50)) == random_band(wrong, chance(50))


def test_without_both_kinds_chance_has_no_area_either() -> None:
    assert random_band(flags([True, True]), chance()).mean is None


def test_a_share_of_nothing_has_no_value() -> None:
    assert share([]).value is None
    assert share([True, True, False, False]).count == 2
