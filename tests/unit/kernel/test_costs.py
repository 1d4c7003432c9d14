"""What a request may cost: a limit that is kept to, and sums that are exact."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.envelope import (
    BudgetExhausted,
    Envelope,
    InvalidEnvelope,
    Limits,
    StageUsage,
    Usage,
    largest_limits,
    limits,
    total_usage,
)
from kernel.ledger import Ledger
from kernel.prices import UNITS, Price, amount_of, units_of

PRICE = Price(prompt=1.0, completion=2.0)
# 40 * 1e-6 + 10 * 2e-6
SPENT = StageUsage(generations=1, http_calls=1, prompt_tokens=40, completion_tokens=10, cost=0.00006)
UNPRICED = StageUsage(generations=1, http_calls=1, prompt_tokens=40, completion_tokens=10)
REFUSED = StageUsage(http_calls=1)
DEFAULT = Limits(max_generations=24, max_generated_tokens=4096, timeout_ms=120_000)


@pytest.fixture
def ledger() -> Ledger:
    """One that has a ten-thousandth to pay with: 50 generated tokens."""
    return Ledger(max_generations=10, max_generated_tokens=1000, max_cost=0.0001, price=PRICE)


@pytest.mark.parametrize("wrong", [0.0, -0.5, math.nan, math.inf, 1.1e9])
def test_a_limit_that_is_no_amount_is_rejected_by_name(wrong: float) -> None:
    with pytest.raises(InvalidEnvelope) as rejected:
        Envelope(max_cost=wrong)

    assert rejected.value.metadata == {"field": "max_cost", "value": str(wrong)}


def test_the_cost_is_limited_only_where_that_is_requested() -> None:
    assert limits(None, DEFAULT).max_cost is None
    assert limits(Envelope(max_cost=0.5), DEFAULT).max_cost == 0.5
    assert limits(Envelope(max_cost=0.5), DEFAULT).envelope == Envelope(
        max_generations=24, max_generated_tokens=4096, timeout_ms=120_000, max_cost=0.5
    )
    assert largest_limits(DEFAULT, DEFAULT).max_cost is None


def test_costs_are_added_exactly() -> None:
    parts = [StageUsage(completion_tokens=1, cost=0.1), StageUsage(completion_tokens=1, cost=0.2)]
    assert 0.1 + 0.2 != 0.3

    assert parts[0].plus(parts[1]).cost == 0.3


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        (SPENT, SPENT, 0.00012),
        (SPENT, REFUSED, 0.00006),
        (REFUSED, SPENT, 0.00006),
        (SPENT, UNPRICED, None),
        (UNPRICED, SPENT, None),
        (UNPRICED, REFUSED, None),
        (REFUSED, REFUSED, None),
    ],
)
def test_a_sum_is_unknown_where_a_part_of_it_is(one: StageUsage, other: StageUsage, cost: float | None) -> None:
    assert one.plus(other).cost == cost


def test_the_total_is_the_sum_of_the_stages_or_unknown() -> None:
    assert total_usage({"thesis": SPENT, "note": SPENT}).cost == 0.00012
    assert total_usage({"thesis": SPENT, "note": UNPRICED}).cost is None


def test_a_reservation_takes_its_worst_case_at_once_and_gives_back_what_was_not_used(ledger: Ledger) -> None:
    held = ledger.reserve("thesis", 1, 20, units_of(0.00008))
    assert ledger.cost_left == units_of(0.00002)

    held.settle(SPENT)

    assert ledger.cost_left == units_of(0.00004)
    assert (ledger.usage().cost, ledger.usage().unknown_cost) == (0.00006, 0.0)


def test_a_call_that_may_cost_more_than_is_left_is_rejected_and_changes_no_account(ledger: Ledger) -> None:
    ledger.reserve("thesis", 1, 20, units_of(0.00008))

    with pytest.raises(BudgetExhausted, match="which may cost 3e-05; the envelope has 9 and 980 left, and 2e-05") as no:
        ledger.reserve("note", 1, 1, units_of(0.00003))

    assert no.value.metadata == {
        "stage": "note",
        "generations_left": "9",
        "tokens_left": "980",
        "cost_left": "2e-05",
    }
    assert ledger.exhausted
    assert (ledger.generations_left, ledger.cost_left) == (9, units_of(0.00002))


def test_a_call_may_cost_all_that_is_left(ledger: Ledger) -> None:
    ledger.reserve("thesis", 1, 20, units_of(0.0001))

    assert ledger.cost_left == 0
    assert not ledger.exhausted


def test_a_part_whose_outcome_is_unknown_counts_as_spent(ledger: Ledger) -> None:
    ledger.reserve("thesis", 1, 20, units_of(0.00008)).forfeit()

    assert ledger.cost_left == units_of(0.00002)
    assert ledger.usage() == Usage(unknown_generations=1, unknown_tokens=20, unknown_cost=0.00008)


def test_a_released_reservation_costs_nothing(ledger: Ledger) -> None:
    ledger.reserve("thesis", 1, 20, units_of(0.00008)).release()

    assert ledger.cost_left == units_of(0.0001)


def test_a_truth_above_the_reservation_is_booked_and_leaves_nothing_rather_than_a_debt(ledger: Ledger) -> None:
    ledger.reserve("thesis", 1, 20, units_of(0.00008)).settle(StageUsage(prompt_tokens=500, cost=0.0005))

    assert ledger.cost_left == 0
    assert ledger.usage().cost == 0.0005


@pytest.mark.parametrize("way", ["booked", "lost"])
def test_an_unknown_cost_leaves_nothing(ledger: Ledger, way: str) -> None:
    if way == "booked":
        ledger.book("system2", UNPRICED)
    else:
        ledger.count_as_spent(1, 10)

    assert ledger.cost_left == ledger.tokens_left == 0
    assert ledger.usage().unknown_cost is None


def test_tokens_can_be_had_as_far_as_the_money_goes(ledger: Ledger) -> None:
    assert ledger.tokens_left == 50
    assert ledger.unspent_tokens == 1000
    assert ledger.affordable_tokens(100, among=4) == 12

    ledger.book("thesis", SPENT)

    assert ledger.tokens_left == 20


def test_reserved_tokens_reserve_their_money(ledger: Ledger) -> None:
    kept = ledger.reserve("execute", 1, 30)

    assert (ledger.tokens_left, ledger.cost_left) == (20, units_of(0.00004))
    kept.release()
    assert ledger.tokens_left == 50


def test_without_a_limit_costs_are_only_reported() -> None:
    ledger = Ledger(max_generations=10, max_generated_tokens=1000)

    ledger.reserve("thesis", 1, 20, units_of(5.0)).settle(SPENT)
    ledger.reserve("note", 1, 20, units_of(0.25)).forfeit()

    assert (ledger.cost_left, ledger.tokens_left) == (None, 970)
    assert (ledger.usage().cost, ledger.usage().unknown_cost) == (0.00006, 0.25)


def test_without_prices_no_cost_is_known() -> None:
    ledger = Ledger(max_generations=10, max_generated_tokens=1000)

    ledger.reserve("thesis", 1, 20).settle(UNPRICED)

    assert (ledger.usage().cost, ledger.usage().unknown_cost) == (None, None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["settle", "release", "forfeit", "keep"]), st.integers(0, UNITS // 3)), max_size=12
)


@given(STEPS)
@settings(deadline=None, max_examples=50)
def test_what_is_spent_reserved_lost_and_left_is_always_the_whole_envelope(steps: list[tuple[str, int]]) -> None:
    ledger, kept = Ledger(max_generations=100, max_generated_tokens=1000, max_cost=1.0, price=PRICE), 0

    for how, cost in steps:
        try:
            held = ledger.reserve("s", 1, 1, cost)
        except BudgetExhausted:
            continue
        if how == "settle":
            held.settle(StageUsage(completion_tokens=1, cost=amount_of(cost // 2)))
        elif how == "keep":
            kept += cost
        else:
            getattr(held, how)()

    usage = ledger.usage()
    spent = units_of(usage.cost or 0.0) + units_of(usage.unknown_cost or 0.0)
    assert spent + kept + (ledger.cost_left or 0) == UNITS
