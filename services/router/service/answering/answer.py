"""Answering assesses, routes and answers a request inside its envelope, and records the run."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from chassis.clock import REQUEST_ENDS_AT
from chassis.log import logger
from kernel.conversation import conversation
from kernel.errors import MalformedRequest, MetacogError
from kernel.policy import Strategy
from services.router.core.fallback import forbids_fallback
from services.router.core.strategies import named_strategy
from services.router.service.answering.idempotency import replayed_events
from services.router.service.answering.promised_answers import (
    BY_PROMISE,
    promise_of_run,
)
from services.router.service.answering.recording import recorded_events
from services.router.service.answering.run_in_progress import (
    UNKNOWN_ORIGIN,
    AnswerContext,
    RequestOrigin,
    RunInProgress,
)
from services.router.service.answering.strategy_task import VOTED, StrategyResult
from services.router.service.answering.values import (
    AnswerRequest,
    Event,
    PassedThrough,
)
from services.router.service.runs.values import (
    Run,
)

_log = logger(__name__)


async def answer(
    request: AnswerRequest, *, context: AnswerContext, origin: RequestOrigin = UNKNOWN_ORIGIN
) -> AsyncGenerator[Event | PassedThrough, None]:
    """Yield the events of one run; the last is `RunFinished`. Closing the generator stops the work.

    Args:
        request: The request.
        context: What answering needs beside it.
        origin: Where the request came from.

    Raises:
        Overloaded: When as much is in flight as may be; nothing was done, and no run recorded.
        MalformedRequest: When there is nothing to answer, or for a promise that the strategy cannot keep.
        UnknownStrategy: For a strategy that the router does not have.
        ModelNotFound: For a model that is not in the catalogue.
        MetacogError: The error that left no answer; the run is recorded with its reason.
    """
    with context.admission.request():
        context.models.begin_run()
        messages = conversation(request.question, request.messages)
        named = _named(request)
        promise = promise_of_run(request, named, None if origin.served else context.promises.usual)
        if promise is not None and named is None:
            named, origin = Strategy.VOTE, replace(origin, reason=BY_PROMISE)
        run = RunInProgress(context, request, messages, named, origin, promise)
        REQUEST_ENDS_AT.set(run.spend.deadline)
        async with context.idempotency.once(origin.key_name, request.request_id, run.digest, run.spend) as repetition:
            if repetition.earlier is not None:
                for replayed in replayed_events(repetition.earlier):
                    yield replayed
                return
            run.idempotency = repetition.idempotency
            recorded = recorded_events(
                run,
                _strategy_events(run, context, named),
                context.recorder,
                partial(_offer_shadow, run, context, named),
            )
            async with aclosing(recorded) as events:
                async for event in events:
                    yield event


def _named(request: AnswerRequest) -> Strategy | None:
    """Return the strategy that the request names; a model answers by System 1.

    Raises:
        UnknownStrategy: For a strategy that the router does not have.
        MalformedRequest: For a model with a strategy that takes none.
    """
    named = named_strategy(request.strategy)
    if not request.model:
        return named
    if named not in (None, Strategy.SYSTEM_ONE):
        raise MalformedRequest(
            f"model: only {Strategy.SYSTEM_ONE} answers by one model, not {named}; leave out one of them", field="model"
        )
    return Strategy.SYSTEM_ONE


def _offer_shadow(run: "RunInProgress", context: AnswerContext, named: Strategy | None, finished: Run) -> None:
    """Offer a run whose strategy the router chose to those who answer it again."""
    if named is None and context.shadows is not None:
        context.shadows.offer(run.request, run.origin, finished)


async def _strategy_events(
    run: "RunInProgress", context: AnswerContext, named: Strategy | None
) -> AsyncGenerator[Event | PassedThrough, None]:
    route = await run.decided(named)
    yield route
    chosen = await run.kept_to_guard(Strategy(route.strategy), route.policy_row)
    for strategy, following in run.attempts(chosen):
        run.strategy = strategy
        try:
            with context.admission.attempt(strategy):
                if strategy in VOTED:
                    await run.plan_vote(strategy, route.policy_row)
                async with aclosing(context.strategies[strategy](run.task(run.route or route), run.spend)) as events:
                    async for event in events:
                        if isinstance(event, StrategyResult):
                            run.result = event
                        else:
                            run.note(event)
                            yield event
        except MetacogError as error:
            is_named, left_s = bool(run.request.strategy), run.spend.seconds_left()
            if following is None or forbids_fallback(error, named=is_named, seconds_left=left_s):
                raise
            _log.warning("fell back", run_id=run.run_id, strategy=strategy, to=following, reason=error.reason)
            yield run.fall_back(strategy, following, error)
        else:
            await run.measure_state()
            await run.kind()
            return
