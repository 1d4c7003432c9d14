from itertools import accumulate, product

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.thresholds import exceeds, reaches

LEVELS = st.floats(0, 1)


def test_a_difference_of_exactly_the_threshold_does_not_exceed_it() -> None:
    noisy = abs(0.8 - 0.5)

    assert noisy > 0.3
    assert not exceeds(noisy, 0.3)


def test_a_value_of_exactly_the_threshold_reaches_it_whatever_the_floats_are() -> None:
    noisy = 0.7 - 0.25

    assert noisy < 0.45
    assert reaches(noisy, 0.45)


def test_every_hundredth_reaches_itself_and_does_not_exceed_itself() -> None:
    sums = list(accumulate([0.01] * 100))

    assert [reaches(level, step / 100) for step, level in enumerate(sums, 1)] == [True] * 100
    assert [exceeds(level, step / 100) for step, level in enumerate(sums, 1)] == [False] * 100


def test_every_difference_of_tenths_is_compared_as_the_tenths_are() -> None:
    pairs = list(product(range(11), repeat=2))

    result = [exceeds(abs(a / 10 - b / 10), 0.3) for a, b in pairs]

    assert result == [abs(a - b) > 3 for a, b in pairs]


def test_a_difference_that_can_be_seen_decides() -> None:
    assert exceeds(0.300000002, 0.3)
    assert not reaches(0.299999998, 0.3)


@given(LEVELS, LEVELS)
@settings(deadline=None)
def test_exceeding_is_reaching_from_the_other_side(value: float, threshold: float) -> None:
    assert exceeds(value, threshold) is not reaches(threshold, value)
