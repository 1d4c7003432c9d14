"""The gain of System 2 by kind, against numbers computed by hand."""

import pytest

from kernel.learning.gains import Gain, LabelledPair, gains_by_kind


def pairs(kind: str, *scores: tuple[float, float]) -> list[LabelledPair]:
    return [LabelledPair(kind=kind, system_one=one, system_two=two) for one, two in scores]


def test_the_gain_of_a_kind_is_drawn_towards_the_overall_gain() -> None:
    found = gains_by_kind([*pairs("a", (0, 1), (0, 1), (1, 1), (0, 0)), *pairs("b", *[(1, 1)] * 5, (0, 0))])

    # overall (2 + 0) / 10 = 0.2; a: (2 + 10 · 0.2) / 14 = 2 / 7; b: (0 + 10 · 0.2) / 16 = 1 / 8
    assert found.overall == Gain(labels=10, system_one=0.6, system_two=0.8, gain=0.2, shrunk=0.2)
    assert found.kinds["a"] == Gain(labels=4, system_one=0.25, system_two=0.75, gain=0.5, shrunk=0.285714286)
    assert found.kinds["b"] == Gain(labels=6, system_one=0.833333333, system_two=0.833333333, gain=0.0, shrunk=0.125)


def test_a_loss_is_drawn_towards_the_overall_gain_too() -> None:
    found = gains_by_kind([*pairs("a", *[(1, 0)] * 10), *pairs("b", *[(0, 1)] * 30)])

    # overall (30 - 10) / 40 = 0.5; a: (-10 + 5) / 20 = -0.25; b: (30 + 5) / 40 = 0.875
    assert (found.kinds["a"].shrunk, found.kinds["b"].shrunk) == (-0.25, 0.875)


def test_a_gain_decides_from_twenty_labels_on() -> None:
    assert [gains_by_kind(pairs("a", *[(0, 1)] * n)).kinds["a"].decides for n in (19, 20)] == [False, True]


def test_without_labels_the_gain_is_unknown() -> None:
    found = gains_by_kind([])

    assert (found.overall, found.kinds) == (Gain(), {})
    assert found.overall.gain is None


@pytest.mark.parametrize(("shrunk", "pays"), [(0.15, True), (0.15 - 1e-10, True), (0.149, False), (-0.1, False)])
def test_system_two_pays_from_the_least_gain_on_and_noise_decides_nothing(shrunk: float, *, pays: bool) -> None:
    assert Gain(labels=20, shrunk=shrunk).pays(0.15) is pays


def test_with_too_few_labels_nobody_knows_whether_it_pays() -> None:
    assert Gain(labels=19, shrunk=0.9).pays() is None
    assert Gain().pays() is None


def test_an_unknown_kind_has_no_gain_and_its_questions_count_for_all() -> None:
    found = gains_by_kind([*pairs("", *[(0, 1)] * 4), *pairs("a", *[(1, 1)] * 4)])

    assert (found.of(""), found.of("b"), found.overall.gain) == (None, None, 0.5)
    assert found.of("a") == found.kinds["a"]
