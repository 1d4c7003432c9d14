"""When a run is degraded, and with which reasons."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from chassis.errors import PeerUnavailable
from chassis.json_text import dumps
from chassis.serving.wire import from_plain
from inference import Spend
from kernel.errors import MetacogError
from kernel.ledger import Ledger
from kernel.outcomes import NO_VALID_ANSWER, Outcome
from kernel.policy import Strategy
from services.router.compose import compose
from services.router.service.answering.answer import answer
from services.router.service.answering.strategy_task import StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerRequest, RunFinished, VoteOptions
from services.router.service.assessment.composite_assessor import Assessment
from services.router.service.assessment.subject import Subject
from services.router.service.runs.values import Run
from tests.contract.fakes import FakeRuns, router_parts
from tests.support.stack import router_settings

RunOf = Callable[..., Awaitable[Run]]
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


class NoAssessment:
    """An assessor that no request needs which names its strategy."""

    calls_model = True
    generations = 1
    tokens = 0

    def fits(self, ledger: Ledger) -> bool:
        """Return that it can be afforded."""
        return True

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        raise AssertionError("a named strategy needs no assessment")


class RecordedRuns(FakeRuns):
    """Runs as the documents that are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[bytes] = []

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store runs."""
        self.documents += documents
        return ()


@pytest.fixture
async def run_of(tmp_path: Path) -> RunOf:
    """Return a function that gives the recorded run of a request."""

    async def recorded(
        strategy: Strategy, ends: Mapping[Strategy, StrategyResult | MetacogError], **options: object
    ) -> Run:
        runs, fakes = RecordedRuns(), router_parts(tmp_path)
        parts = replace(
            fakes,
            database=replace(fakes.database, runs=runs, journal=runs),
            assessors=dict.fromkeys(("draft", "hybrid"), NoAssessment()),
            strategies={name: Ends(end) for name, end in ends.items()},
        )
        service = compose(router_settings(), parts)
        service.start()
        request = AnswerRequest(question="What is 2 + 2?", strategy=strategy, **options)  # type: ignore[arg-type]
        finished: object = None
        try:
            async for event in answer(request, context=service.context):
                finished = event
        except MetacogError:
            finished = None
        else:
            assert isinstance(finished, RunFinished)
        await service.close()
        [document] = runs.documents
        assert finished is None or dumps(finished.run) == document
        return from_plain(orjson.loads(document), Run)

    return recorded


async def test_a_whole_answer_is_not_degraded(run_of: RunOf) -> None:
    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: ANSWERED})

    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ANSWERED, False, [])


@pytest.mark.parametrize("outcome", Outcome)
async def test_a_run_is_degraded_with_the_reasons_of_its_deliberation(run_of: RunOf, outcome: Outcome) -> None:
    reasons = [INVALID_SAMPLES]
    details = {"degraded": True, "degraded_reasons": reasons}
    result = StrategyResult(text="4", outcome=outcome, deliberation=details, degraded_reasons=reasons)

    run = await run_of(Strategy.ARBITER, {Strategy.ARBITER: result})

    assert run.deliberation is not None
    assert (run.degraded, run.degraded_reasons) == (True, run.deliberation["degraded_reasons"])


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.CASCADE])  # it needs two models
async def test_an_abstention_has_a_reason_whatever_the_strategy(run_of: RunOf, strategy: Strategy) -> None:
    abstained = {strategy: StrategyResult(text="", outcome=Outcome.ABSTAINED)}
    run = await run_of(strategy, abstained, vote=VoteOptions(ahead=2))  # no draft is written: no model is there

    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ABSTAINED, True, [NO_VALID_ANSWER])


async def test_a_fallback_comes_before_the_reasons_of_the_strategy_that_answered(run_of: RunOf) -> None:
    result = StrategyResult(text="4", degraded_reasons=[INVALID_SAMPLES])

    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: AWAY, Strategy.SYSTEM_ONE: result})

    fallback = "dialectic: PEER_UNAVAILABLE: assigner cannot be reached"
    assert (run.outcome, run.degraded, run.degraded_reasons) == (Outcome.ANSWERED, True, [fallback, INVALID_SAMPLES])


async def test_a_run_that_ended_in_an_error_states_the_error_and_is_not_degraded(run_of: RunOf) -> None:
    run = await run_of(Strategy.DIALECTIC, {Strategy.DIALECTIC: AWAY}, fallback=False)

    assert (run.outcome, run.error_reason) == (Outcome.ABSTAINED, "PEER_UNAVAILABLE")
    assert (run.degraded, run.degraded_reasons) == (False, [])
