import pytest

from evals.stats.chance import seeded
from evals.stats.detectable import items_needed, least_area, least_gain
from evals.stats.gains import paired_gain

ITEMS, DIFFERING = 600, 100


def test_the_least_gain_is_half_the_width_of_the_interval() -> None:
    # 1.96 sqrt((1 / 6) / 600) = 0.03267: 19.6 of the 100 items that differ
    assert least_gain(ITEMS) == pytest.approx(0.03267, abs=1e-5)
    assert least_gain(24) > least_gain(111) > least_gain(1600)
    assert least_gain(1) == pytest.approx(0.8002, abs=1e-4)


@pytest.mark.parametrize(("better", "shown"), [(63, True), (57, False)])
def test_a_larger_gain_is_shown_and_a_smaller_one_is_not(better: int, shown: bool) -> None:
    before = [0] * better + [1] * (DIFFERING - better) + [1] * (ITEMS - DIFFERING)
    after = [1] * better + [0] * (DIFFERING - better) + [1] * (ITEMS - DIFFERING)

    found = paired_gain(before, after, seeded(7))

    assert ((found.value or 0.0) > least_gain(ITEMS)) is shown
    assert found.excludes_zero is shown


def test_the_items_that_a_gain_needs_can_show_it() -> None:
    for gain in (0.02, 0.05, 0.15):
        assert least_gain(items_needed(gain)) <= gain < least_gain(items_needed(gain) - 2)


def test_the_least_area_is_half_the_width_of_the_interval_around_one_half() -> None:
    # 1.96 sqrt(201 / (12 * 50 * 150)) = 0.0926
    assert least_area(50, 150) == pytest.approx(0.0926, abs=1e-4)
    assert least_area(0, 150) is None
    assert least_area(1, 1) == 0.5
