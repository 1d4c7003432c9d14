from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.statistics.intervals import Z95, wilson


def test_eight_of_ten_by_hand() -> None:
    # z² = 3.841459; centre (.8 + 3.841459/20) / 1.3841459 = .716738; half 1.959964 √(.16/10 + 3.841459/400) / 1.3841459
    interval = wilson(8, 10)

    half = Z95 * sqrt(0.016 + 3.841459 / 400) / 1.3841459
    assert interval.low == pytest.approx(0.716738 - half, abs=1e-5)
    assert interval.high == pytest.approx(0.716738 + half, abs=1e-5)


def test_the_interval_of_none_and_of_all_ends_there_and_is_wide_for_few() -> None:
    # none of n: z² / (n + z²), e.g. 3.841459 / 13.841459
    none, every = wilson(0, 10), wilson(10, 10)

    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(3.841459 / 13.841459, abs=1e-6)
    assert every.low == pytest.approx(10 / 13.841459, abs=1e-6)


def test_without_observations_nothing_is_known() -> None:
    interval = wilson(0, 0)

    assert (interval.low, interval.high) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (float("nan"), 5)])
def test_impossible_counts_are_rejected(successes: float, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_interval_holds_the_share_and_stays_inside_the_unit(n: int, share: float) -> None:
    interval = wilson(share * n, n)

    assert 0 <= interval.low <= share + 1e-9
    assert share - 1e-9 <= interval.high <= 1


@given(st.integers(1, 1000), st.floats(0, 1))
def test_more_observations_of_the_same_share_narrow_it(n: int, share: float) -> None:
    few, many = wilson(share * n, n), wilson(share * 4 * n, 4 * n)

    assert many.high - many.low < few.high - few.low
