"""When a run is degraded, and with which reasons."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from chassis.errors import PeerUnavailable
from inference import Spend
from kernel.conversation import Turn
from kernel.envelope import Limits
from kernel.errors import MetacogError
from kernel.outcomes import NO_VALID_ANSWER, Outcome
from services.router.core.strategies import Strategy
from services.router.service.answering.answer import AnswerContext, StrategyResult, StrategyTask, answer
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.answering.values import AnswerRequest, RunFinished
from services.router.service.assessment.assess import Assessors
from services.router.service.assessment.route import RoutingConfig, RoutingContext
from services.router.service.assessment.subject import DraftAnswer, Drafter
from services.router.service.runs.values import Run

LIMITS = Limits(max_generations=8, max_generated_tokens=4096, timeout_ms=10_000)
ANSWERED = StrategyResult(text="it is 4")
AWAY = PeerUnavailable("assigner cannot be reached")
INVALID_SAMPLES = "INVALID_SAMPLES: no sample has the form that was asked for"


class Ends:
    """A strategy that ends as given."""

    def __init__(self, end: StrategyResult | MetacogError) -> None:
        self._end = end

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyResult, None]:
        if isinstance(self._end, MetacogError):
            raise self._end
        yield self._end


class Recorder:
    """Runs in a list."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def record(self, run: Run) -> None:
        """Store `run`."""
        self.runs.append(run)


def no_drafter(request: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
    async def draft(spend: Spend) -> DraftAnswer:
        raise AssertionError("a named strategy needs no draft")

    return draft


async def no_run(_key_name: str, _request_id: str) -> Run | None:
    return None


async def run_of(strategy: Strategy, ends: Mapping[Strategy, StrategyResult | MetacogError], **options: Any) -> Run:  # noqa: ANN401
    """Return the recorded run of a request that names `strategy`, where strategies end as given."""
    recorder = Recorder()
    context = AnswerContext(
        routing=RoutingContext(config=RoutingConfig(), assessors=Assessors(by_name={"hybrid": None})),  # type: ignore[dict-item]
        strategies={name: Ends(end) for name, end in ends.items()},
        drafter=no_drafter,
        limits=dict.fromkeys([None, *Strategy], LIMITS),
        recorder=recorder,
        idempotency=IdempotentAnswers(no_run, lambda _key, _request: None),
    )
    request = AnswerRequest(question="What is 2 + 2?", strategy=strategy, **options)
    try:
        events = [event async for event in answer(request, context=context)]
    except MetacogError:
        pass
    else:
        assert isinstance(events[-1], RunFinished)
        assert events[-1].run is recorder.runs[0]
    [run] = recorder.runs
    return run


async def test_a_whole_answer_is_not_degraded() -> None:
    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: ANSWERED})

    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ANSWERED, False, [])


@pytest.mark.parametrize("outcome", Outcome)
async def test_a_run_is_degraded_with_the_reasons_of_its_deliberation(outcome: Outcome) -> None:
    reasons = [INVALID_SAMPLES]
    details = {"degraded": True, "degraded_reasons": reasons}
    result = StrategyResult(text="4", outcome=outcome, deliberation=details, degraded_reasons=reasons)

    run = await run_of(Strategy.ARBITER, {Strategy.ARBITER: result})

    assert run.deliberation is not None
    assert (run.degraded, run.degraded_reasons) == (True, run.deliberation["degraded_reasons"])


@pytest.mark.parametrize("strategy", Strategy)
async def test_an_abstention_has_a_reason_whatever_the_strategy(strategy: Strategy) -> None:
    run = await run_of(strategy, {strategy: StrategyResult(text="", outcome=Outcome.ABSTAINED)})

    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ABSTAINED, True, [NO_VALID_ANSWER])


async def test_a_fallback_comes_before_the_reasons_of_the_strategy_that_answered() -> None:
    result = StrategyResult(text="4", degraded_reasons=[INVALID_SAMPLES])

    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: AWAY, Strategy.SYSTEM_ONE: result})

    fallback = "dialectic: PEER_UNAVAILABLE: assigner cannot be reached"
    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ANSWERED, True, [fallback, INVALID_SAMPLES])


async def test_a_run_that_ended_in_an_error_states_the_error_and_is_not_degraded() -> None:
    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: AWAY}, fallback=False)

    assert (run.outcome, run.error_reason) == (Outcome.ABSTAINED, "PEER_UNAVAILABLE")
    assert (run.degraded, run.degraded_reasons) == (False, [])
