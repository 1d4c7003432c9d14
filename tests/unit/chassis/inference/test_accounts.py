import pytest

from chassis.inference.accounts import Account
from kernel.envelope import BudgetExhausted, Ledger, StageUsage


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(max_generations=10, max_generated_tokens=100)


def account(ledger: Ledger, generations: int = 2, tokens: int = 30, floor: int = 1) -> Account:
    return Account(ledger, "thesis", generations=generations, wanted_tokens=tokens, floor_tokens=floor)


def test_the_worst_case_is_held_until_the_call_ends(ledger: Ledger) -> None:
    with account(ledger) as held:
        assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
        with held.exchange(2) as exchange:
            exchange.leaving()
            exchange.cost(StageUsage(generations=2, completion_tokens=11))

    assert (ledger.generations_left, ledger.tokens_left) == (8, 89)
    assert ledger.usage().http_calls == 1


def test_a_call_that_never_left_costs_nothing(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.leaving()
        exchange.never_left()

    assert (ledger.generations_left, ledger.tokens_left) == (10, 100)
    assert ledger.usage().stages == {}


def test_a_refused_call_costs_its_http_call_only(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.leaving()
        exchange.generated_nothing()

    assert ledger.tokens_left == 100
    assert ledger.usage().http_calls == 1


def test_a_call_whose_outcome_is_unknown_counts_as_spent(ledger: Ledger) -> None:
    def interrupted() -> None:
        with account(ledger) as held, held.exchange(2) as exchange:
            exchange.leaving()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
    assert ledger.usage().unknown_tokens == 60


def test_a_repetition_of_what_may_have_been_acted_on_is_reserved_anew(ledger: Ledger) -> None:
    with account(ledger, generations=2, tokens=20) as held, held.exchange(2) as exchange:
        exchange.leaving()
        exchange.again()
        assert (ledger.generations_left, ledger.tokens_left) == (6, 20)
        exchange.leaving()
        exchange.cost(StageUsage(generations=2, completion_tokens=11))

    assert (ledger.generations_left, ledger.tokens_left) == (6, 100 - 40 - 11)
    assert (ledger.usage().unknown_generations, ledger.usage().unknown_tokens) == (2, 40)
    assert ledger.usage().http_calls == 2


def test_what_is_not_left_cannot_be_spent_on_a_repetition(ledger: Ledger) -> None:
    with account(ledger, generations=2, tokens=30) as held, held.exchange(2) as exchange:
        exchange.leaving()
        with pytest.raises(BudgetExhausted):
            exchange.again()

    assert (ledger.generations_left, ledger.tokens_left) == (8, 40)
    assert ledger.usage().unknown_tokens == 60


def test_what_generated_nothing_is_repeated_free_of_charge(ledger: Ledger) -> None:
    with account(ledger) as held, held.exchange(2) as exchange:
        exchange.leaving()
        exchange.generated_nothing()
        exchange.again()
        assert (ledger.generations_left, ledger.tokens_left) == (8, 40)

    assert ledger.usage().unknown_generations == 0


def test_of_several_exchanges_each_is_booked_as_it_ended(ledger: Ledger) -> None:
    with account(ledger, generations=3, tokens=10) as held:
        with held.exchange(2) as known:
            known.leaving()
            known.cost(StageUsage(generations=2, completion_tokens=7))
        with held.exchange(1) as lost:
            lost.leaving()

    assert ledger.tokens_left == 100 - 7 - 10
    assert ledger.generations_left == 10 - 2 - 1


def test_short_tokens_shorten_the_samples_down_to_the_floor(ledger: Ledger) -> None:
    with account(ledger, generations=4, tokens=30, floor=25) as held:
        assert (held.tokens_each, held.cut) == (25, True)

    with pytest.raises(BudgetExhausted):
        account(ledger, generations=4, tokens=30, floor=26)
    assert ledger.tokens_left == 100
