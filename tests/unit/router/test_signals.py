"""Reading a model's behaviour."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.msv.signals import InvalidPartWeights, PartWeights, disagreement, likelihood, mean_of, yes_probability

LEVELS = st.floats(0, 1)
WEIGHTS = st.just(0.0) | st.floats(1e-6, 1e6)


def test_a_yes_counts_whatever_its_case_and_spacing() -> None:
    # 0.5 + 0.1 + 0.1 of yes against 0.1 of no
    alternatives = [("Yes", log(0.5)), (" yes", log(0.1)), ("YES.", log(0.1)), ("no", log(0.1)), ("Well", log(0.2))]

    assert yes_probability(alternatives) == pytest.approx(0.7 / 0.8)


def test_a_reply_that_is_neither_yes_nor_no_has_no_probability() -> None:
    assert yes_probability([("Perhaps", log(0.9))]) is None
    assert yes_probability([]) is None


def test_the_likelihood_of_a_text_does_not_fall_with_its_length() -> None:
    assert likelihood([log(0.5)] * 3) == pytest.approx(likelihood([log(0.5)] * 300))


def test_a_text_without_tokens_has_no_likelihood() -> None:
    assert likelihood([]) is None


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([5], 0.0),
        ([1, 1, 1, 1, 1], 1.0),
        ([4, 1], 0.4),  # 4 of 10 pairs
        ([3, 2], 0.6),  # 6 of 10 pairs
        ([1], None),
        ([], None),
    ],
)
def test_disagreement_is_the_share_of_pairs_that_differ(groups: list[int], expected: float | None) -> None:
    assert disagreement(groups) == expected


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_disagreement_stays_in_its_range(groups: list[int]) -> None:
    level = disagreement(groups)

    assert level is None or 0 <= level <= 1


def test_an_unknown_part_is_left_out_and_never_counted_as_zero() -> None:
    assert mean_of({"check": 0.8, "draft_likelihood": None}) == 0.8
    assert mean_of({"check": None}) is None


def test_parts_count_by_their_weights() -> None:
    # two thirds of 0.9 and one third of 0.3
    assert mean_of({"check": 0.9, "draft_support": 0.3}, PartWeights(by_part={"check": 2})) == pytest.approx(0.7)


def test_a_part_without_weight_does_not_make_a_component() -> None:
    assert mean_of({"check": 0.9}, PartWeights(by_part={"check": 0})) is None


@given(st.dictionaries(st.sampled_from("abcd"), st.none() | LEVELS), st.dictionaries(st.sampled_from("abcd"), WEIGHTS))
def test_a_mean_lies_between_its_parts(parts: dict[str, float | None], weights: dict[str, float]) -> None:
    known = [level for level in parts.values() if level is not None]
    level = mean_of(parts, PartWeights(by_part=weights))

    assert level is None or min(known) - 1e-9 <= level <= max(known) + 1e-9


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_rejected(weight: float) -> None:
    with pytest.raises(InvalidPartWeights, match="the weight of check"):
        PartWeights(by_part={"check": weight})
