import numpy as np
import pytest
from scipy import stats

from evals.stats.chance import seeded
from evals.stats.gains import Conclusion, conclusion, mean_interval, paired_gain, sign_test, spread
from evals.stats.routing_worth import Pair, highest, mixed, shuffled_mixes, worth, worth_interval
from evals.stats.separation import area_gain

DRAWS = 4000


def coins(n: int, share: float, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return (np.random.default_rng(seed).random(n) < share).astype(np.float64)


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    right = coins(120, 0.7, 1)

    ours = mean_interval(right, seeded(7, draws=DRAWS))

    theirs = stats.bootstrap((right,), np.mean, method="percentile", n_resamples=DRAWS, rng=3).confidence_interval
    assert ours.value == pytest.approx(right.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.012)


def test_a_paired_gain_is_the_mean_of_the_differences_with_scipys_interval() -> None:
    before, after = coins(100, 0.5, 1), coins(100, 0.7, 2)

    ours = paired_gain(before, after, seeded(7, draws=DRAWS))

    theirs = stats.bootstrap(
        (before, after), lambda b, a: float(np.mean(a - b)), paired=True, vectorized=False, method="percentile",
        n_resamples=DRAWS, rng=3,
    ).confidence_interval  # fmt: skip
    assert ours.value == pytest.approx(np.mean(after - before))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_pairing_sees_what_two_separate_intervals_would_not() -> None:
    # Right on the same 50 items, and after on 8 more: 8 of 100 items differ, all one way.
    before = np.array([1.0] * 50 + [0.0] * 50)
    after = np.array([1.0] * 58 + [0.0] * 42)

    assert conclusion(paired_gain(before, after, seeded(7))) is Conclusion.GAIN
    assert conclusion(paired_gain(after, before, seeded(7))) is Conclusion.LOSS


def test_a_gain_whose_interval_holds_zero_is_no_gain() -> None:
    # Five items better, three worse.
    before = np.array([0.0] * 5 + [1.0] * 3 + [1.0] * 42)
    after = np.array([1.0] * 5 + [0.0] * 3 + [1.0] * 42)

    found = paired_gain(before, after, seeded(7))

    assert found.value == 0.04
    assert conclusion(found) is Conclusion.NONE


def test_a_gain_must_also_pass_the_exact_sign_test_where_pairs_are_right_or_wrong() -> None:
    # Seven of a hundred better, one worse: the percentile bootstrap excludes zero, chance alone does so 7 times in 100.
    before = np.array([0.0] * 7 + [1.0] + [1.0] * 92)
    after = np.array([1.0] * 7 + [0.0] + [1.0] * 92)

    found = paired_gain(before, after, seeded(7))

    assert found.excludes_zero
    assert found.by_signs == pytest.approx(2 * (1 + 8) / 2**8)
    assert conclusion(found) is Conclusion.NONE


def test_the_sign_test_is_asked_only_of_pairs_that_are_right_or_wrong() -> None:
    assert sign_test([0.5, -0.25, 1.0]) is None
    assert sign_test([0.0, 0.0]) is None
    assert sign_test([1.0] * 9 + [-1.0]) == pytest.approx(stats.binomtest(1, 10).pvalue)


def test_nothing_is_concluded_from_no_items() -> None:
    assert conclusion(paired_gain([], [], seeded(7))) is Conclusion.UNKNOWN


def test_fewer_than_six_items_that_differ_make_no_gain_however_many_are_equal() -> None:
    half = paired_gain([0.0] * 6, [1.0] * 3 + [0.0] * 3, seeded(7))
    few = paired_gain([0.0] * 5 + [1.0] * 45, [1.0] * 50, seeded(7))
    enough = paired_gain([0.0] * 6 + [1.0] * 44, [1.0] * 50, seeded(7))

    # The sign test gives 2 / 2^3 = .25 and 2 / 2^5 = .0625 for what both intervals exclude.
    assert half.excludes_zero
    assert few.excludes_zero
    assert [conclusion(found) for found in (half, few, enough)] == [
        Conclusion.UNKNOWN, Conclusion.UNKNOWN, Conclusion.GAIN,
    ]  # fmt: skip
    assert (few.counted, few.differing) == (50, 5)


def test_equal_arms_are_no_gain_and_not_too_few() -> None:
    assert conclusion(paired_gain([1.0] * 50, [1.0] * 50, seeded(7))) is Conclusion.NONE


def test_the_worth_of_decisions_rests_on_the_items_where_both_systems_differ() -> None:
    first, second = np.zeros(60), np.array([1.0] * 5 + [0.0] * 55)

    found = worth_interval(Pair(first=first, second=second), second > 0, seeded(7))

    assert found.excludes_zero
    assert conclusion(found) is Conclusion.UNKNOWN


def test_a_gain_in_areas_rests_on_the_rarer_outcome() -> None:
    wrong = np.arange(60) < 5
    found = area_gain(np.arange(60.0), np.where(wrong, 1.0, 0.0), wrong, seeded(7, draws=200))

    assert found.excludes_zero
    assert (found.items, found.counted) == (60, 5)
    assert conclusion(found) is Conclusion.UNKNOWN
    more = np.arange(60) < 6
    assert conclusion(area_gain(np.arange(60.0), more.astype(float), more, seeded(7, draws=200))) is Conclusion.GAIN


def test_the_spread_over_seeds_is_the_papers_mean_and_deviation() -> None:
    # Mean 0.7; squared differences .01, 0, .01 over n - 1 = 2.
    assert spread([0.6, 0.7, 0.8]).deviation == pytest.approx(0.1)
    assert spread([0.6]).deviation is None
    assert spread([]).mean is None


def test_the_worth_of_decisions_is_what_the_mix_has_over_every_dealing_of_them() -> None:
    first, second = np.array([1.0, 0.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    sent = np.array([False, True, False, False, True])
    pair = Pair(first=first, second=second)

    # All ten ways to deal two decisions to five items, each as likely.
    every = [float(mixed(pair, np.isin(np.arange(5), [a, b])).mean()) for a in range(5) for b in range(a + 1, 5)]
    assert worth(first, second, sent.astype(float)) == pytest.approx(float(mixed(pair, sent).mean()) - np.mean(every))
    assert shuffled_mixes(pair, sent, seeded(7, draws=DRAWS)).mean == pytest.approx(np.mean(every), abs=0.01)


def test_decisions_by_chance_are_worth_nothing_and_knowing_ones_are() -> None:
    first, second = coins(200, 0.5, 1), coins(200, 0.7, 2)
    pair, wrong = Pair(first=first, second=second), first < 0.5
    chance = seeded(7)

    useless = worth_interval(pair, highest(chance.rng.random(200), int(wrong.sum())), chance)
    knowing = worth_interval(pair, wrong, chance)

    assert conclusion(useless) is Conclusion.NONE
    assert conclusion(knowing) is Conclusion.GAIN


def test_all_to_one_side_is_worth_exactly_nothing() -> None:
    pair = Pair(first=coins(50, 0.5, 1), second=coins(50, 0.9, 2))

    for sent in (np.zeros(50, dtype=np.bool_), np.ones(50, dtype=np.bool_)):
        found = worth_interval(pair, sent, seeded(7))
        assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)
        assert conclusion(found) is Conclusion.NONE
