import pytest

from inference.accounting.accounts import CallAccount, Tariff
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.ledger import Ledger
from kernel.prices import Price, units_of


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(max_generations=10, max_generated_tokens=100)


def account(ledger: Ledger, generations: int = 2, tokens: int = 30, floor: int = 1) -> CallAccount:
    return CallAccount(ledger, "thesis", generations=generations, wanted_tokens=tokens, floor_tokens=floor)


def test_the_worst_case_is_held_until_the_call_ends(ledger: Ledger) -> None:
    with account(ledger) as held:
        assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
        with held.exchange(2) as exchange:
            exchange.mark_sent()
            exchange.record_usage(StageUsage(generations=2, completion_tokens=11))

    assert (ledger.generations_left, ledger.tokens_left) == (8, 89)
    assert ledger.usage().http_calls == 1


def test_a_call_that_never_left_costs_nothing(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.mark_not_sent()

    assert (ledger.generations_left, ledger.tokens_left) == (10, 100)
    assert ledger.usage().stages == {}


def test_a_rejected_call_costs_its_http_call_only(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.mark_rejected()

    assert ledger.tokens_left == 100
    assert ledger.usage().http_calls == 1


def test_a_call_whose_outcome_is_unknown_counts_as_spent(ledger: Ledger) -> None:
    def interrupted() -> None:
        with account(ledger) as held, held.exchange(2) as exchange:
            exchange.mark_sent()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
    assert ledger.usage().unknown_tokens == 60


def test_a_repetition_of_what_may_have_been_acted_on_is_reserved_anew(ledger: Ledger) -> None:
    with account(ledger, generations=2, tokens=20) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.reserve_retry()
        assert (ledger.generations_left, ledger.tokens_left) == (6, 20)
        exchange.mark_sent()
        exchange.record_usage(StageUsage(generations=2, completion_tokens=11))

    assert (ledger.generations_left, ledger.tokens_left) == (6, 100 - 40 - 11)
    assert (ledger.usage().unknown_generations, ledger.usage().unknown_tokens) == (2, 40)
    assert ledger.usage().http_calls == 2


def test_what_is_not_left_cannot_be_spent_on_a_repetition(ledger: Ledger) -> None:
    with account(ledger, generations=2, tokens=30) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        with pytest.raises(BudgetExhausted):
            exchange.reserve_retry()

    assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
    assert ledger.usage().unknown_tokens == 60


def test_what_generated_nothing_is_repeated_free_of_charge(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.mark_rejected()
        exchange.reserve_retry()
        assert (ledger.generations_left, ledger.tokens_left) == (8, 40)

    assert ledger.usage().unknown_generations == 0


def test_of_several_exchanges_each_is_booked_as_it_ended(ledger: Ledger) -> None:
    with account(ledger, generations=3, tokens=10) as held:
        with held.exchange(2) as known:
            known.mark_sent()
            known.record_usage(StageUsage(generations=2, completion_tokens=7))
        with held.exchange(1) as lost:
            lost.mark_sent()

    assert ledger.tokens_left == 100 - 7 - 10
    assert ledger.generations_left == 10 - 2 - 1


def test_short_tokens_shorten_the_samples_down_to_the_floor(ledger: Ledger) -> None:
    with account(ledger, generations=4, tokens=30, floor=25) as held:
        assert (held.tokens_each, held.cut) == (25, True)

    with pytest.raises(BudgetExhausted):
        account(ledger, generations=4, tokens=30, floor=26)
    assert ledger.tokens_left == 100


# A call whose prompt has 10 tokens at most: 10 * 1e-6, and 2e-6 for each token that it generates.
TARIFF = Tariff(price=Price(prompt=1.0, completion=2.0), prompt_tokens=10)
DREW_TWO = StageUsage(generations=2, prompt_tokens=8, completion_tokens=11)


@pytest.fixture
def purse() -> Ledger:
    """A ledger with a ten-thousandth to pay with."""
    return Ledger(max_generations=10, max_generated_tokens=100, max_cost=0.0001)


def priced(ledger: Ledger, generations: int = 2, tokens: int = 20, floor: int = 1, requests: int = 1) -> CallAccount:
    tariff = Tariff(price=TARIFF.price, prompt_tokens=TARIFF.prompt_tokens, requests=requests)
    return CallAccount(
        ledger, "thesis", generations=generations, wanted_tokens=tokens, floor_tokens=floor, tariff=tariff
    )


def test_the_money_for_the_prompt_and_all_tokens_is_held_and_the_rest_given_back(purse: Ledger) -> None:
    with priced(purse) as held, held.exchange(2) as exchange:
        assert purse.cost_left == units_of(0.0001 - 0.00001 - 0.00008)
        exchange.mark_sent()
        exchange.record_usage(DREW_TWO)

    assert purse.usage().cost == 0.00003  # 8 * 1e-6 + 11 * 2e-6
    assert purse.cost_left == units_of(0.00007)


def test_short_money_shortens_the_samples_down_to_the_floor(purse: Ledger) -> None:
    # 0.00009 are left after the prompt: 45 tokens, 22 for each of two samples.
    with priced(purse, tokens=50) as held:
        assert (held.tokens_each, held.cut) == (22, True)

    with pytest.raises(BudgetExhausted) as raised:
        priced(purse, tokens=50, floor=23)
    assert raised.value.metadata["cost_left"] == "0.0001"
    assert purse.cost_left == units_of(0.0001)


def test_a_call_whose_outcome_is_unknown_may_have_cost_its_worst_case(purse: Ledger) -> None:
    with priced(purse) as held, held.exchange(2) as exchange:
        exchange.mark_sent()

    assert purse.usage().unknown_cost == 0.00009
    assert purse.cost_left == units_of(0.00001)


def test_a_repetition_is_paid_for_once_more(purse: Ledger) -> None:
    with priced(purse, tokens=10) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.reserve_retry()
        assert purse.cost_left == 0  # twice 0.00005
        exchange.mark_sent()
        exchange.record_usage(DREW_TWO)

    assert (purse.usage().unknown_cost, purse.usage().cost) == (0.00005, 0.00003)


def test_each_request_reads_the_prompt_and_one_more_than_planned_is_paid_for(purse: Ledger) -> None:
    with priced(purse, generations=3, tokens=5, requests=2) as held:
        assert purse.cost_left == units_of(0.0001 - 2 * 0.00001 - 0.00003)
        for _ in range(3):
            with held.exchange(1) as exchange:
                exchange.mark_sent()
                exchange.record_usage(StageUsage(generations=1, prompt_tokens=10, completion_tokens=5))
        assert purse.cost_left == units_of(0.0001 - 3 * 0.00001 - 0.00003)

    assert purse.usage().cost == 0.00006


def test_a_request_that_was_turned_away_leaves_its_prompt_to_the_next(purse: Ledger) -> None:
    with priced(purse) as held:
        with held.exchange(2) as refused:
            refused.mark_sent()
            refused.mark_rejected()
        with held.exchange(2):
            assert purse.cost_left == units_of(0.00001)

    assert purse.cost_left == units_of(0.0001)


def test_one_more_request_than_the_money_carries_is_rejected(purse: Ledger) -> None:
    with priced(purse, tokens=22) as held:
        held.exchange(2)
        with pytest.raises(BudgetExhausted):
            held.exchange(1)


def test_a_prompt_that_was_longer_than_reserved_is_booked_as_it_was(purse: Ledger) -> None:
    with priced(purse) as held, held.exchange(2) as exchange:
        exchange.mark_sent()
        exchange.record_usage(StageUsage(generations=2, prompt_tokens=90, completion_tokens=20))

    assert purse.usage().cost == 0.00013
    assert purse.cost_left == 0


def test_what_is_seen_of_a_stream_has_its_price_already(purse: Ledger) -> None:
    with priced(purse) as held, held.exchange(1) as exchange:
        exchange.mark_sent()

        assert exchange.usage_with(StageUsage(generations=1, prompt_tokens=8, completion_tokens=1)).cost == 0.00001
