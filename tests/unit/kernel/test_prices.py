import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.prices import UNITS, Price, amount_of, highest_price, price_of, read_prices, units_of

# 1 unit of currency per million prompt tokens, 2 per million generated ones.
PLAIN = Price(prompt=1.0, completion=2.0)


@pytest.mark.parametrize(
    ("price", "prompt_tokens", "completion_tokens", "cost"),
    [
        (PLAIN, 1_000_000, 0, 1.0),
        (PLAIN, 0, 500_000, 1.0),
        (PLAIN, 40, 10, 0.00006),  # 40 * 1e-6 + 10 * 2e-6
        (Price(prompt=0.0375, completion=0.15), 3, 7, 0.0000011625),  # 3 * 3.75e-8 + 7 * 1.5e-7
        (Price(prompt=0.0, completion=0.0), 10**9, 10**9, 0.0),
    ],
)
def test_tokens_cost_their_price(price: Price, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
    assert amount_of(price.units(prompt_tokens, completion_tokens)) == cost


@pytest.mark.parametrize(("amount", "tokens"), [(0.00001, 5), (0.000011, 5), (0.000012, 6), (0.0, 0)])
def test_money_buys_whole_tokens_only(amount: float, tokens: int) -> None:
    assert PLAIN.completion_tokens(units_of(amount)) == tokens


def test_a_debt_buys_nothing_and_what_is_free_can_be_had_without_end() -> None:
    assert PLAIN.completion_tokens(-1) == 0
    assert Price(prompt=1.0, completion=0.0).completion_tokens(0) is None


@given(st.lists(st.integers(0, 10**13), max_size=200))
@settings(deadline=None)
def test_sums_of_amounts_do_not_drift(parts: list[int]) -> None:
    assert sum(units_of(amount_of(part)) for part in parts) == sum(parts)


def test_a_tenth_ten_thousand_times_is_a_thousand() -> None:
    assert sum(0.1 for _ in range(10_000)) != 1000.0

    assert sum(units_of(0.1) for _ in range(10_000)) == 1000 * UNITS


@pytest.mark.parametrize("wrong", [-0.01, math.nan, math.inf, 1.1e9, True, "1", None])
@pytest.mark.parametrize("name", ["prompt", "completion"])
def test_a_price_that_is_none_is_rejected_by_name(name: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*; it must be a number in"):
        Price(**{"prompt": 1.0, "completion": 1.0, name: wrong})  # type: ignore[arg-type]


def test_a_model_has_its_own_price_else_that_of_any_model_else_none() -> None:
    own, usual = Price(prompt=1.0, completion=1.0), Price(prompt=9.0, completion=9.0)

    assert price_of("m", {"m": own, "*": usual}) == own
    assert price_of("n", {"m": own, "*": usual}) == usual
    assert price_of("n", {"m": own}) is None


def test_the_highest_of_several_prices_is_the_largest_of_each_kind() -> None:
    assert highest_price([Price(prompt=1.0, completion=5.0), Price(prompt=3.0, completion=4.0)]) == Price(
        prompt=3.0, completion=5.0
    )
    assert highest_price([]) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "give an object"),
        ({"m": 3}, "the price of 'm' must have `prompt` and `completion`"),
        ({"m": {"prompt": 1}}, "the price of 'm' must have `prompt` and `completion`"),
        ({"m": {"prompt": 1, "completion": 1, "cached": 1}}, "and nothing else"),
        ({"m": {"prompt": 1, "completion": -2}}, "the price of 'm': completion is -2; it must be a number in"),
    ],
)
def test_prices_that_cannot_be_read_are_rejected_with_the_model_and_the_reason(given: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_prices(given)
