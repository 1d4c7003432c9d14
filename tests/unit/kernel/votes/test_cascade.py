"""Cascades: when cheap models suffice, in which order they are asked, and when they cannot pay (papers.md 5.6)."""

import pytest

from kernel.votes.cascade import CascadeEnd, cascade_end, most_worth, sources_by_price
from kernel.votes.votes import VoteMode, VoteRule, VoteSource

TWO_OF_THREE, THREE_OF_THREE = VoteRule(agree=2, most=3), VoteRule(agree=3, most=3)


def source(model: str, competence: float | None = None, mode: VoteMode = VoteMode.REASONED) -> VoteSource:
    return VoteSource(model=model, mode=mode, competence=competence)


@pytest.mark.parametrize(
    ("keys", "rule", "winner", "asked", "is_decided"),
    [
        ("aab", TWO_OF_THREE, 0, 2, True),
        ("aba", TWO_OF_THREE, 0, 3, True),
        ("abb", TWO_OF_THREE, 1, 3, True),
        ("abc", TWO_OF_THREE, 0, 3, False),  # no two agree: the strong model is asked
        ([None, "a", "a"], TWO_OF_THREE, 1, 3, True),
        ([None, None, "a"], TWO_OF_THREE, None, 2, False),  # one answer left makes no two
        ("aaa", THREE_OF_THREE, 0, 3, True),
        ("aba", THREE_OF_THREE, 0, 2, False),  # three can no longer agree
        ("ab", VoteRule(agree=1, most=1), 0, 1, True),
    ],
)
def test_cheap_answers_suffice_where_enough_of_them_agree(
    keys: str | list[str | None], rule: VoteRule, winner: int | None, asked: int, is_decided: bool
) -> None:
    expected = CascadeEnd(winner=winner, asked=asked, is_decided=is_decided, is_open=False)

    assert cascade_end(keys, rule) == expected


@pytest.mark.parametrize(("keys", "winner"), [("", None), ("a", 0), ("ab", 0)])
def test_it_stays_open_where_one_more_answer_would_be_asked_for(keys: str, winner: int | None) -> None:
    end = cascade_end(keys, TWO_OF_THREE)

    assert (end.is_open, end.is_decided, end.winner, end.asked) == (True, False, winner, len(keys))


def test_the_cheapest_source_is_asked_first_and_one_of_unknown_cost_last() -> None:
    sources = [source("dear", 0.9), source("unknown", 0.99), source("cheap", 0.5), source("free")]

    ordered = sources_by_price(sources, {"dear": 3.0, "cheap": 1.0, "free": 0.0, "unknown": None})

    assert [one.model for one in ordered] == ["free", "cheap", "dear", "unknown"]


def test_of_equal_costs_the_more_competent_is_asked_first_then_the_order_given() -> None:
    sources = [source("b"), source("a"), source("low", 0.3), source("high", 0.7)]

    ordered = sources_by_price(sources, dict.fromkeys(("a", "b", "low", "high"), 1.0))

    assert [one.model for one in ordered] == ["high", "low", "b", "a"]


def test_the_draft_is_first_whatever_it_costs_since_it_exists() -> None:
    sources = [source("cheap"), source("dear", mode=VoteMode.DRAFT)]

    assert [one.model for one in sources_by_price(sources, {"cheap": 1, "dear": 9})] == ["dear", "cheap"]


@pytest.mark.parametrize(
    ("costs", "strong", "worth"),
    [
        ([1, 1, 1], 10, 3),
        ([1, 1, 1], 3, 2),  # three together cost as much as the strong model
        ([1, 1, 1], 3.5, 3),
        ([0.1, 0.2, 0.3], 0.6, 2),
        ([4], 4, 0),
        ([], 4, 0),
        ([0, 0], 0, 0),  # the strong model is free: nothing is cheaper
        ([1, None], 10, None),
        ([1, 2], None, None),
        ([5, None], 4, 0),  # the first alone decides it
    ],
)
def test_cheap_answers_that_cost_as_much_as_the_strong_one_are_not_worth_asking_for(
    costs: list[float | None], strong: float | None, worth: int | None
) -> None:
    assert most_worth(costs, strong) == worth
