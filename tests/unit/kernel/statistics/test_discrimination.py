from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.statistics.discrimination import auroc
from kernel.statistics.intervals import Z95, wilson

LEVELS = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def told(positive: list[float], negative: list[float]) -> tuple[list[float], list[bool]]:
    return [*positive, *negative], [True] * len(positive) + [False] * len(negative)


def test_the_area_and_its_interval_by_hand() -> None:
    measured = auroc(*told([0.4, 0.8], [0.1, 0.4]))

    # Pairs: .4 > .1, .4 = .4, .8 > .1, .8 > .4: 3.5 of 4. Shares beaten: .75 and 1; shares beaten by: 1 and .75; each
    # has variance .03125, over 2 is .015625, together .03125. On the log-odds the width is that over .875 · .125.
    assert measured.auroc == 0.875
    half = Z95 * sqrt(0.03125) / (0.875 * 0.125)
    assert measured.low == pytest.approx(1 / (1 + exp(half - log(7))))
    assert measured.high == pytest.approx(1 / (1 + exp(-half - log(7))))
    assert (measured.positives, measured.negatives, measured.exact) == (2, 2, True)


def test_levels_that_are_all_alike_carry_no_information() -> None:
    measured = auroc(*told([0.5] * 5, [0.5] * 5))

    assert (measured.auroc, measured.exact) == (0.5, False)
    assert (measured.low, measured.high) == (wilson(2.5, 5).low, wilson(2.5, 5).high)


def test_levels_that_are_all_apart_are_not_taken_for_certainty() -> None:
    measured = auroc(*told([0.8, 0.9, 0.7], [0.1, 0.2, 0.3]))

    assert (measured.auroc, measured.high, measured.exact) == (1.0, 1.0, False)
    assert measured.low == wilson(3, 3).low


def test_one_of_a_kind_has_a_wide_interval() -> None:
    measured = auroc(*told([0.5], [0.1, 0.2, 0.6, 0.7]))

    assert (measured.auroc, measured.exact) == (0.5, False)
    assert measured.low is not None
    assert measured.high is not None
    assert measured.high - measured.low > 0.7


@pytest.mark.parametrize(("positive", "negative"), [([], []), ([0.1], []), ([], [0.1])])
def test_without_both_kinds_there_is_no_area(positive: list[float], negative: list[float]) -> None:
    measured = auroc(*told(positive, negative))

    assert (measured.auroc, measured.low, measured.high) == (None, None, None)
    assert (measured.positives, measured.negatives) == (len(positive), len(negative))


@pytest.mark.parametrize(("levels", "kinds"), [([0.1], []), ([float("nan")], [True]), ([float("inf")], [True])])
def test_what_is_no_level_is_rejected(levels: list[float], kinds: list[bool]) -> None:
    with pytest.raises(ValueError, match="levels"):
        auroc(levels, kinds)


@given(LEVELS, LEVELS)
@settings(deadline=None)
def test_the_area_is_the_share_of_pairs_in_order(positive: list[int], negative: list[int]) -> None:
    pairs = [(a > b) + (a == b) / 2 for a, b in product(positive, negative)]

    measured = auroc(*told(list(map(float, positive)), list(map(float, negative))))

    assert measured.auroc is not None
    assert measured.auroc == pytest.approx(sum(pairs) / len(pairs))
    assert measured.low is not None
    assert measured.high is not None
    assert 0 <= measured.low <= measured.auroc + 1e-9
    assert measured.auroc - 1e-9 <= measured.high <= 1


@given(LEVELS, LEVELS)
@settings(deadline=None)
def test_turned_around_it_is_the_rest(positive: list[int], negative: list[int]) -> None:
    levels, kinds = told(list(map(float, positive)), list(map(float, negative)))

    one, other = auroc(levels, kinds), auroc([-level for level in levels], kinds)

    assert one.auroc is not None
    assert other.auroc == pytest.approx(1 - one.auroc)
    assert other.low == pytest.approx(1 - (one.high or 0.0))


def test_the_interval_holds_the_truth_as_often_as_its_level() -> None:
    # Normal levels one standard deviation apart: the area is Φ(1/√2) = .7602.
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(400):
        measured = auroc(*told(list(rng.normal(1, 1, 40)), list(rng.normal(0, 1, 60))))
        assert measured.low is not None
        assert measured.high is not None
        held += measured.low <= 0.7602 <= measured.high

    assert 0.92 <= held / 400 <= 0.98
