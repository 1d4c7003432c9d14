"""What a request may spend where it says nothing of it."""

from kernel.envelope import Limits
from kernel.policy import Policy, PolicyRow, Strategy
from services.router.service.answering.default_limits import default_limits, widened_limits
from services.router.service.answering.run_in_progress import given_options
from services.router.service.answering.values import AdaptiveOptions, AnswerRequest, ArbitrationOptions

USUAL = Limits(max_generations=32, max_generated_tokens=8000, timeout_ms=180_000)
ARBITRATION = Limits(max_generations=104, max_generated_tokens=26_000, timeout_ms=300_000)
ASK = AnswerRequest(question="Why?")


def choosing(strategy: str) -> Policy:
    """A table with one row."""
    return Policy(version="1", rows=[PolicyRow(name="row", strategy=strategy, when={}, always=False)])


def test_a_strategy_has_its_own_envelope_or_the_usual_one() -> None:
    limits = default_limits(USUAL, {Strategy.ARBITER: ARBITRATION}, None)

    assert limits[Strategy.ARBITER] == ARBITRATION
    assert limits[Strategy.DIALECTIC] == limits[Strategy.DELEGATION] == limits[None] == USUAL


def test_an_open_choice_has_room_for_what_the_table_may_choose() -> None:
    assert default_limits(USUAL, {Strategy.ARBITER: ARBITRATION}, choosing("arbiter"))[None] == ARBITRATION
    assert default_limits(USUAL, {Strategy.ARBITER: ARBITRATION}, choosing("delegation"))[None] == USUAL


def test_the_envelope_carries_the_answers_that_were_asked_for() -> None:
    long = AnswerRequest(question="Why?", max_tokens=2000)

    assert widened_limits(USUAL, ASK, 1) == USUAL
    assert widened_limits(USUAL, long, 40).max_generations == 41
    assert widened_limits(USUAL, long, 5).max_generated_tokens == 20_000
    assert widened_limits(ARBITRATION, long, 1, Strategy.ARBITER).max_generated_tokens == 62 * 2000


def test_several_answers_without_a_limit_have_as_much_room_as_one() -> None:
    assert widened_limits(USUAL, ASK, 10, answer_tokens=1024).max_generated_tokens == 2 * 10 * 1024
    assert widened_limits(USUAL, ASK, 1, answer_tokens=100_000) == USUAL


def test_the_envelope_carries_the_arbitration_that_was_asked_for() -> None:
    twice = AnswerRequest(question="Why?", arbitration=ArbitrationOptions(arbitration_samples=112))  # 124 of 62
    fewer = AnswerRequest(question="Why?", arbitration=ArbitrationOptions(arbitration_samples=10))

    assert widened_limits(ARBITRATION, twice, 1, Strategy.ARBITER).max_generations == 208
    assert widened_limits(ARBITRATION, twice, 1, Strategy.ARBITER).max_generated_tokens == 52_000
    assert widened_limits(ARBITRATION, fewer, 1, Strategy.ARBITER) == ARBITRATION
    assert widened_limits(USUAL, twice, 1) == USUAL


def test_only_what_the_caller_chose_is_passed_on() -> None:
    options = ArbitrationOptions(mode="PAPER", embedding_measures=False, solver_temperature=0.0, critic_agent="ada")

    assert given_options(None) == given_options(ArbitrationOptions()) == {}
    assert given_options(options) == {
        "mode": "PAPER",
        "embedding_measures": False,
        "solver_temperature": 0.0,
        "critic_agent": "ada",
    }
    assert given_options(ArbitrationOptions(adaptive=AdaptiveOptions(stop="NONE")))
