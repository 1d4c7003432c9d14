import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configuration.suite import SuiteSettings
from kernel.envelope import (
    BudgetExhausted,
    Ceilings,
    Envelope,
    InvalidEnvelope,
    Limits,
    StageUsage,
    Usage,
    limits,
    total_usage,
)
from kernel.errors import Code
from kernel.ledger import Ledger, Reservation

DEFAULT = Limits(max_generations=24, max_generated_tokens=4096, timeout_ms=120_000)
THESIS = StageUsage(generations=1, http_calls=1, prompt_tokens=40, completion_tokens=30)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(max_generations=10, max_generated_tokens=1000)


def left(ledger: Ledger) -> tuple[int, int]:
    return ledger.generations_left, ledger.tokens_left


@pytest.mark.parametrize("field", ["max_generations", "max_generated_tokens", "timeout_ms"])
@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_rejected_by_name(field: str, limit: int) -> None:
    with pytest.raises(InvalidEnvelope) as rejected:
        Envelope(**{field: limit})

    assert rejected.value.metadata == {"field": field, "value": str(limit)}
    assert rejected.value.code is Code.INVALID_ARGUMENT


def test_the_smallest_limits_are_one() -> None:
    tight = Envelope(max_generations=1, max_generated_tokens=1, timeout_ms=1)

    assert limits(tight, DEFAULT) == Limits(max_generations=1, max_generated_tokens=1, timeout_ms=1)


@pytest.mark.parametrize("requested", [None, Envelope()])
def test_without_a_wish_the_defaults_hold(requested: Envelope | None) -> None:
    assert limits(requested, DEFAULT) == DEFAULT


def test_a_limit_that_is_left_out_takes_its_default_and_the_others_hold() -> None:
    held = limits(Envelope(max_generated_tokens=100), DEFAULT)

    assert held == Limits(max_generations=24, max_generated_tokens=100, timeout_ms=120_000)


def test_a_reservation_takes_its_worst_case_at_once(ledger: Ledger) -> None:
    ledger.reserve("thesis", 2, 600)

    assert left(ledger) == (8, 400)


def test_settling_books_what_was_spent_and_gives_the_rest_back(ledger: Ledger) -> None:
    held = ledger.reserve("thesis", 2, 600)

    held.settle(THESIS)

    assert left(ledger) == (9, 970)
    assert ledger.usage().stages == {"thesis": THESIS}


def test_settling_may_book_on_several_stages(ledger: Ledger) -> None:
    held = ledger.reserve("dialectic", 5, 900)

    held.settle({"thesis": THESIS, "note": StageUsage(generations=2, completion_tokens=70)})

    assert left(ledger) == (7, 900)
    assert set(ledger.usage().stages) == {"thesis", "note"}


def test_a_released_reservation_costs_nothing(ledger: Ledger) -> None:
    ledger.reserve("thesis", 2, 600).release()

    assert left(ledger) == (10, 1000)
    assert ledger.usage() == Usage()


def test_a_part_whose_outcome_is_unknown_counts_as_spent(ledger: Ledger) -> None:
    ledger.reserve("thesis", 2, 600).forfeit()

    assert left(ledger) == (8, 400)
    assert ledger.usage() == Usage(unknown_generations=2, unknown_tokens=600)


def test_forfeiting_after_settling_changes_nothing(ledger: Ledger) -> None:
    held = ledger.reserve("thesis", 2, 600)
    held.settle(THESIS)

    held.forfeit()

    assert left(ledger) == (9, 970)
    assert ledger.usage().unknown_tokens == 0


@pytest.mark.parametrize("first", ["settle", "release", "forfeit"])
@pytest.mark.parametrize("second", ["settle", "release"])
def test_a_reservation_cannot_be_ended_twice(ledger: Ledger, first: str, second: str) -> None:
    held = ledger.reserve("thesis", 2, 600)
    end(held, first)
    before = (left(ledger), ledger.usage())

    with pytest.raises(RuntimeError, match="the reservation for thesis was ended twice"):
        end(held, second)

    assert (left(ledger), ledger.usage()) == before


def end(held: Reservation, how: str) -> None:
    if how == "settle":
        held.settle(THESIS)
    else:
        getattr(held, how)()


@pytest.mark.parametrize(("generations", "tokens"), [(9, 1), (1, 401), (9, 401)])
def test_a_call_that_would_leave_the_envelope_is_rejected_and_changes_no_account(
    ledger: Ledger, generations: int, tokens: int
) -> None:
    ledger.reserve("thesis", 2, 600)

    with pytest.raises(BudgetExhausted) as rejected:
        ledger.reserve("antithesis", generations, tokens)

    assert left(ledger) == (8, 400)
    assert ledger.exhausted
    assert rejected.value.metadata == {"stage": "antithesis", "generations_left": "8", "tokens_left": "400"}
    assert rejected.value.code is Code.RESOURCE_EXHAUSTED


def test_a_call_may_take_all_that_is_left(ledger: Ledger) -> None:
    ledger.reserve("thesis", 10, 1000)

    assert left(ledger) == (0, 0)
    assert not ledger.exhausted


def test_one_envelope_covers_the_whole_fan_out(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.reserve("solve", 3, 300)

    with pytest.raises(BudgetExhausted):
        ledger.reserve("solve", 3, 300)


def test_a_backend_that_overspends_leaves_nothing_rather_than_a_debt(ledger: Ledger) -> None:
    held = ledger.reserve("thesis", 1, 900)

    held.settle(StageUsage(generations=1, completion_tokens=1200))

    assert left(ledger) == (9, 0)
    assert ledger.usage().completion_tokens == 1200


@pytest.mark.parametrize(
    ("wanted", "samples", "among", "each"),
    [(256, 1, 1, 256), (2000, 1, 1, 1000), (256, 1, 5, 200), (256, 5, 1, 200), (300, 2, 2, 250), (9, 1000, 2, 0)],
)
def test_what_is_left_is_shared_evenly(ledger: Ledger, wanted: int, samples: int, among: int, each: int) -> None:
    assert ledger.affordable_tokens(wanted, samples=samples, among=among) == each


def test_totals_are_sums_over_the_stages() -> None:
    solve = StageUsage(generations=10, http_calls=2, prompt_tokens=80, completion_tokens=500, estimated=True)

    total = total_usage({"thesis": THESIS, "solve": solve}, 3, 700)

    assert total == Usage(
        generations=11,
        http_calls=3,
        prompt_tokens=120,
        completion_tokens=530,
        estimated=True,
        unknown_generations=3,
        unknown_tokens=700,
        stages={"thesis": THESIS, "solve": solve},
    )


def test_a_total_is_estimated_only_where_a_part_is() -> None:
    assert not total_usage({"thesis": THESIS, "note": THESIS}).estimated


def test_a_stage_booked_twice_has_one_account(ledger: Ledger) -> None:
    ledger.book("thesis", THESIS)
    ledger.book("thesis", THESIS)

    assert ledger.usage().stages["thesis"] == StageUsage(
        generations=2, http_calls=2, prompt_tokens=80, completion_tokens=60
    )


def test_usage_can_be_read_for_some_stages(ledger: Ledger) -> None:
    ledger.book("assess", THESIS)
    ledger.book("thesis", THESIS)
    ledger.reserve("note", 1, 100).forfeit()

    usage = ledger.usage(["assess", "synthesis"])

    assert usage.stages == {"assess": THESIS}
    assert (usage.generations, usage.unknown_tokens) == (1, 0)


def test_an_earlier_account_is_not_changed_by_later_spending(ledger: Ledger) -> None:
    ledger.book("assess", THESIS)
    before = ledger.usage()

    ledger.book("thesis", THESIS)

    assert set(before.stages) == {"assess"}


STEPS = st.lists(
    st.tuples(st.sampled_from(["settle", "release", "forfeit", "keep"]), st.integers(0, 6), st.integers(0, 500)),
    max_size=12,
)


@given(STEPS)
@settings(deadline=None, max_examples=50)
def test_what_is_spent_reserved_lost_and_left_is_always_the_whole_envelope(steps: list[tuple[str, int, int]]) -> None:
    ledger = Ledger(max_generations=10, max_generated_tokens=1000)
    kept = [0, 0]

    for how, generations, tokens in steps:
        try:
            held = ledger.reserve("s", generations, tokens)
        except BudgetExhausted:
            continue
        if how == "settle":
            held.settle(StageUsage(generations=generations // 2, completion_tokens=tokens // 2))
        elif how == "keep":
            kept = [kept[0] + generations, kept[1] + tokens]
        else:
            getattr(held, how)()

    usage = ledger.usage()
    assert usage.generations + usage.unknown_generations + kept[0] + ledger.generations_left == 10
    assert usage.completion_tokens + usage.unknown_tokens + kept[1] + ledger.tokens_left == 1000


CEILINGS = Ceilings(max_generations=20, max_generated_tokens=5_000, timeout_ms=60_000, max_cost=0.5)


@pytest.mark.parametrize(
    ("field", "at", "over"),
    [("max_generations", 20, 21), ("max_generated_tokens", 5_000, 5_001), ("timeout_ms", 60_000, 60_001),
     ("max_cost", 0.5, 0.5001)],
)  # fmt: skip
def test_a_limit_may_reach_its_ceiling_and_not_pass_it(field: str, at: float, over: float) -> None:
    held = limits(Envelope(**{field: at}), DEFAULT, CEILINGS)  # type: ignore[arg-type]

    with pytest.raises(InvalidEnvelope, match=f"{field} is {over}; a request may have at most {at} here") as raised:
        limits(Envelope(**{field: over}), DEFAULT, CEILINGS)  # type: ignore[arg-type]

    assert getattr(held, field) == at
    assert raised.value.metadata["setting"].startswith("METACOG_CEILING_")


def test_ceilings_lower_what_a_request_leaves_out_and_limit_its_cost() -> None:
    held = limits(None, DEFAULT, CEILINGS)

    assert held == Limits(max_generations=20, max_generated_tokens=4096, timeout_ms=60_000, max_cost=0.5)


def test_the_settings_of_an_error_are_those_of_the_suite() -> None:
    for name in ("max_generations", "max_generated_tokens", "timeout_ms", "max_cost"):
        with pytest.raises(InvalidEnvelope) as raised:
            Ceilings(max_generations=1, max_generated_tokens=1, timeout_ms=1, max_cost=1.0).check(Envelope(**{name: 2}))

        assert raised.value.metadata["setting"].removeprefix("METACOG_").lower() in SuiteSettings.model_fields
