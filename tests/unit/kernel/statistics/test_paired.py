from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.statistics.intervals import wilson
from kernel.statistics.paired import (
    LEAST_DECIDING,
    Comparison,
    PairedCounts,
    PairedDifference,
    labels_needed,
    mcnemar,
    paired_difference,
    paired_interval,
)

NUMBER = st.integers(0, 200)
COUNTS = st.builds(PairedCounts, both=NUMBER, first=NUMBER, second=NUMBER, neither=NUMBER)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        (0, 0, 1.0),
        (0, 5, 2 / 2**5),
        (0, 6, 2 / 2**6),
        (1, 6, 2 * (1 + 7) / 2**7),
        (8, 2, 2 * (1 + 10 + 45) / 2**10),
        (4, 4, 1.0),
    ],
)
def test_the_exact_test_by_hand(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == pytest.approx(p, abs=1e-12)


def test_the_interval_by_hand_where_both_are_right_or_wrong_together() -> None:
    # Wilson of 5 of 10: .5 ± .263405; φ = (5 * 5 - 0 - 10 / 2) / 25 = .8; √(2 * .263405² (1 - .8)) = .166593
    interval = paired_interval(PairedCounts(both=5, neither=5))

    assert [interval.low, interval.high] == pytest.approx([-0.166593, 0.166593], abs=1e-6)


def test_the_interval_by_hand_where_one_is_always_right_alone() -> None:
    # Shares 0 and 1 of 10, no correlation known: Wilson's ends are 3.841459 / 13.841459 from them, so √2 times that.
    interval = paired_interval(PairedCounts(second=10))

    assert interval.low == pytest.approx(1 - sqrt(2) * 3.841459 / 13.841459, abs=1e-6)
    assert interval.high == 1.0


def test_a_negative_correlation_widens_the_interval() -> None:
    # Both have 5 of 10 right, never together: φ = -25 / 25 = -1, so that the half-widths add up: 2 * .263405.
    interval = paired_interval(PairedCounts(first=5, second=5))

    assert [interval.low, interval.high] == pytest.approx([-0.52681, 0.52681], abs=1e-5)


def test_the_difference_by_hand() -> None:
    # 40 of 200 pairs differ, of which 20 are labelled: 12 for the second, 4 for the first, so .2 * 8 / 20.
    labelled = PairedCounts(both=2, first=4, second=12, neither=2)
    found, inner, share = paired_difference(200, 160, labelled), paired_interval(labelled), wilson(40, 200)

    assert found.value == pytest.approx(0.08)
    assert inner.low > 0
    assert [found.low, found.high] == pytest.approx([inner.low * share.low, inner.high * share.high])
    assert found.p == pytest.approx(2 * (1 + 16 + 120 + 560 + 1820) / 2**16)
    assert found.comparison is Comparison.UNDECIDED  # the interval alone lies above 0


def test_two_that_nearly_always_agree_are_the_same_without_any_label() -> None:
    # Wilson's upper end for 0 of n is 3.841459 / (n + 3.841459): below .02 from n = 189 on.
    assert paired_difference(188, 188, PairedCounts()).comparison is Comparison.UNDECIDED
    assert paired_difference(189, 189, PairedCounts()).comparison is Comparison.SAME
    assert paired_difference(189, 189, PairedCounts()).value == 0.0


def test_without_a_label_of_what_differs_the_difference_is_unknown() -> None:
    found = paired_difference(100, 60, PairedCounts())

    assert (found.value, found.comparison) == (None, Comparison.UNDECIDED)
    assert (found.low, found.high) == (-wilson(40, 100).high, wilson(40, 100).high)


def test_without_pairs_nothing_is_known() -> None:
    found = paired_difference(0, 0, PairedCounts())

    assert (found.value, found.low, found.high, found.comparison) == (None, -1.0, 1.0, Comparison.UNDECIDED)


def test_more_that_agree_than_there_are_is_rejected() -> None:
    with pytest.raises(ValueError, match="3 of 2 pairs agree"):
        paired_difference(2, 3, PairedCounts())


@pytest.mark.parametrize(
    ("low", "high", "p", "comparison"),
    [
        (0.01, 0.3, 0.01, Comparison.BETTER),
        (-0.3, -0.01, 0.01, Comparison.WORSE),
        (0.01, 0.3, 0.06, Comparison.UNDECIDED),
        (-0.01, 0.3, 0.01, Comparison.UNDECIDED),
        (-0.02, 0.02, 1.0, Comparison.SAME),
        (-0.021, 0.02, 1.0, Comparison.UNDECIDED),
    ],
)
def test_interval_and_exact_test_decide_together(low: float, high: float, p: float, comparison: Comparison) -> None:
    assert PairedDifference(value=0.0, low=low, high=high, p=p).comparison is comparison


def test_six_labels_that_all_speak_for_one_decide_and_five_do_not() -> None:
    assert labels_needed(100, 50, PairedCounts(second=6)) == 0
    assert labels_needed(100, 50, PairedCounts(second=5)) == 1
    assert labels_needed(100, 50, PairedCounts()) == LEAST_DECIDING


def test_labels_that_are_divided_evenly_decide_when_what_differs_is_rare_enough() -> None:
    needed = labels_needed(1000, 950, PairedCounts(first=5, second=5))

    assert needed is not None
    assert needed > 0
    scaled = PairedCounts(first=5, second=5).times((10 + needed) / 10)
    assert paired_difference(1000, 950, scaled).comparison is Comparison.SAME


@given(COUNTS, st.integers(0, 500), st.integers(0, 500))
def test_the_two_systems_may_change_places(labelled: PairedCounts, agreeing: int, others: int) -> None:
    turned = PairedCounts(both=labelled.both, first=labelled.second, second=labelled.first, neither=labelled.neither)
    found, back = (paired_difference(agreeing + others, agreeing, each) for each in (labelled, turned))

    assert [found.low, found.high] == pytest.approx([-back.high, -back.low], abs=1e-9)
    assert found.p == pytest.approx(back.p)
    assert found.low <= (found.value or 0.0) + 1e-9
    assert (found.value or 0.0) <= found.high + 1e-9
