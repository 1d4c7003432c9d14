from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.statistics.bootstrap import Column, bootstrap_difference, bootstrap_interval
from kernel.statistics.discrimination import auroc


def mean(column: Column) -> float:
    return float(column.mean())


def chance() -> np.random.Generator:
    return np.random.default_rng(2)


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    column = chance().normal(3, 2, 400)

    built = bootstrap_interval(mean, column, rng=chance())

    half = 1.96 * column.std() / sqrt(400)
    assert built.value == pytest.approx(column.mean())
    assert built.low == pytest.approx(column.mean() - half, abs=0.03)
    assert built.high == pytest.approx(column.mean() + half, abs=0.03)
    assert (built.items, built.resamples) == (400, 2000)


def test_chance_is_what_is_passed_in() -> None:
    column = list(range(50))

    assert bootstrap_interval(mean, column, rng=chance()) == bootstrap_interval(mean, column, rng=chance())


def test_columns_are_drawn_together() -> None:
    column = chance().normal(0, 1, 50)

    def gap(a: Column, b: Column) -> float:
        return float((a - b).max())

    built = bootstrap_interval(gap, column, column, rng=chance(), resamples=50)

    assert (built.value, built.low, built.high) == (0.0, 0.0, 0.0)


def test_a_difference_on_the_same_items_is_shown_where_two_intervals_would_overlap() -> None:
    before = np.array([1.0] * 120 + [0.0] * 80)
    after = np.array([1.0] * 130 + [0.0] * 70)

    apart = [bootstrap_interval(mean, one, rng=chance()) for one in (before, after)]
    paired = bootstrap_difference(mean, [before], [after], rng=chance())

    assert (apart[0].high or 0) > (apart[1].low or 1)
    assert paired.value == pytest.approx(after.mean() - before.mean())
    assert paired.excludes_zero


def test_no_difference_is_not_shown() -> None:
    column = chance().random(100)

    built = bootstrap_difference(mean, [column], [column], rng=chance())

    assert (built.value, built.excludes_zero) == (0.0, False)


def test_an_item_with_several_rows_is_drawn_as_a_whole() -> None:
    items = chance().integers(0, 2, 40)
    seeds = np.repeat(items[:, None], 5, axis=1)

    whole = bootstrap_interval(mean, seeds, rng=chance())
    torn = bootstrap_interval(mean, seeds.ravel(), rng=chance())

    assert whole.value == torn.value
    assert (whole.high or 0) - (whole.low or 0) > 1.8 * ((torn.high or 0) - (torn.low or 0))


def area(levels: Column, wrong: Column) -> float | None:
    return auroc(levels, wrong.astype(bool)).auroc


def test_a_statistic_may_have_no_value_in_some_draws() -> None:
    built = bootstrap_interval(area, [0.1, 0.2, 0.3, 0.4, 0.9], [0, 0, 0, 0, 1], rng=chance())

    assert built.value == 1.0
    assert built.resamples < 2000
    assert built.low is not None


def test_without_a_value_there_is_no_interval() -> None:
    built = bootstrap_interval(area, [0.1, 0.2], [0, 0], rng=chance(), resamples=20)

    assert (built.value, built.low, built.high, built.resamples, built.excludes_zero) == (None, None, None, 0, False)


def test_of_nothing_nothing_is_known() -> None:
    built = bootstrap_interval(mean, [], rng=chance())

    assert (built.value, built.items) == (None, 0)


def test_columns_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match="equally long"):
        bootstrap_interval(mean, [1.0], [1.0, 2.0], rng=chance())
    with pytest.raises(ValueError, match="equally long"):
        bootstrap_interval(mean, rng=chance())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(0, 100))
@settings(deadline=None, max_examples=40)
def test_the_interval_of_a_mean_lies_between_the_least_and_the_greatest(column: list[float], seed: int) -> None:
    built = bootstrap_interval(mean, column, rng=np.random.default_rng(seed), resamples=50)

    assert built.low is not None
    assert built.high is not None
    assert min(column) - 1e-9 <= built.low <= built.high <= max(column) + 1e-9
