"""Assess, route and answer a query, fall back where a strategy fails, and record the run."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from chassis.errors import ClientGone
from chassis.ids import new_id
from chassis.log import logger
from chassis.rest import dumps
from chassis.spend import Spend
from kernel.answers import Outcome
from kernel.envelope import LARGEST_LIMIT, Envelope, Limits, limits
from kernel.errors import Bug, MetacogError
from kernel.values import value
from services.router.core.strategies import Strategy, named_strategy, stand_ins
from services.router.service import telling
from services.router.service.assess import conversation, milliseconds_since
from services.router.service.repeats import Repeats
from services.router.service.route import Deciding, Query, decide
from services.router.service.values import (
    AnswerRequest,
    AnswerToken,
    Event,
    FellBack,
    Passed,
    Relayed,
    Routed,
    Run,
    RunFinished,
    RunStarted,
    Turn,
)

# Refusals that another strategy would not mend: what was asked is wrong.
CALLERS_MATTER = frozenset(
    {"MALFORMED_REQUEST", "MSV_OUT_OF_RANGE", "INVALID_ENVELOPE", "INVALID_SAMPLING", "UNKNOWN_AGENT"}
)

_log = logger(__name__)


@value
class Answered:
    """What a strategy arrived at.

    Attributes:
        text: The answer.
        outcome: Whether there is one.
        model: Model that wrote it.
        finish_reason: Why it ended: `stop`, `length`, `tool_calls`, `content_filter`.
        confidence: Belief that it is right [0..1]; None without a source.
        confidence_source: Where that comes from.
        deliberation: The strategy's own account, as REST spells it.
        degraded_reasons: Why it is less than what was asked for.
        budget_exhausted: Whether a limit was reached.
    """

    text: str
    outcome: Outcome = Outcome.ANSWERED
    model: str = ""
    finish_reason: str = "stop"
    confidence: float | None = None
    confidence_source: str = ""
    deliberation: Mapping[str, Any] | None = None
    degraded_reasons: Sequence[str] = ()
    budget_exhausted: bool = False


@value
class Task:
    """What a strategy is given."""

    ask: AnswerRequest
    messages: Sequence[Turn]
    route: Routed
    run_id: str


class Answerer(Protocol):
    """A strategy at work."""

    def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[AnswerToken | Passed | Relayed | Answered, None]:
        """Events while it works, then what it arrived at."""


class Recorder(Protocol):
    """Where runs are remembered."""

    def record(self, run: Run) -> None:
        """Queue `run` to be remembered; never lost, never waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Everything that answering needs from the world.

    Attributes:
        deciding: How the system is chosen.
        answerers: The strategies.
        limits: Default envelope by strategy; `None` is for requests that leave the strategy to the router.
        recorder: Where runs are remembered.
        repeats: Answers to requests that were made before.
        now: Wall clock.
    """

    deciding: Deciding
    answerers: Mapping[Strategy, Answerer]
    limits: Mapping[Strategy | None, Limits]
    recorder: Recorder
    repeats: Repeats
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@value
class Origin:
    """What a face knows of a request beyond the request itself.

    Attributes:
        key_name: Name of the API key it came in with.
        because: Why its strategy is named, if it is.
        samples: Answers that the client wants of a plain call [count, >= 1].
        request: The client's own request, by which a repetition is told from another one; empty: ours.
    """

    key_name: str = ""
    because: str = "requested"
    samples: int = 1
    request: bytes = b""


NOWHERE = Origin()


async def answer(ask: AnswerRequest, *, desk: Desk, origin: Origin = NOWHERE) -> AsyncGenerator[Event | Passed, None]:
    """Events of one run; the last is `RunFinished`. Closing the generator stops the work.

    Args:
        ask: The request.
        desk: What answering needs from the world.
        origin: Where it came from.

    Raises:
        MalformedRequest: When there is nothing to answer.
        UnknownStrategy: For a strategy that the router does not have.
        MetacogError: The refusal that left no answer; the run is recorded with its reason.
    """
    messages = conversation(ask.query, ask.messages)
    named = named_strategy(ask.strategy)
    record = Record(desk, ask, messages, named, origin)
    async with desk.repeats.once(origin.key_name, ask.request_id, record.digest, record.spend) as earlier:
        if earlier is not None:
            for told in told_again(earlier):
                yield told
            return
        async with aclosing(_recorded(record, desk, named)) as events:
            async for made in events:
                yield made


async def _recorded(record: "Record", desk: Desk, named: Strategy | None) -> AsyncGenerator[Event | Passed, None]:
    try:
        yield RunStarted(run_id=record.run_id)
        query = Query(
            messages=record.messages,
            msv=record.ask.msv,
            named=named,
            because=record.origin.because,
            seed=record.ask.seed,
        )
        record.route = await decide(query, record.spend, desk.deciding)
        telling.of_route(record.route)
        yield record.route
        async with aclosing(_answered(record, desk)) as events:
            async for event in events:
                yield event
    except MetacogError as refusal:
        record.refused(refusal)
        raise
    except (asyncio.CancelledError, GeneratorExit):
        record.refused(ClientGone("the client went away"))
        raise
    except Exception:
        record.refused(Bug())
        raise
    yield RunFinished(run=record.finished())


async def _answered(record: "Record", desk: Desk) -> AsyncGenerator[Event | Passed, None]:
    assert record.route is not None
    chosen = Strategy(record.route.strategy)
    for strategy, following in _attempts(chosen, record.ask.fallback):
        record.strategy = strategy
        task = Task(ask=record.ask, messages=record.messages, route=record.route, run_id=record.run_id)
        try:
            async with aclosing(desk.answerers[strategy](task, record.spend)) as events:
                async for event in events:
                    if isinstance(event, Answered):
                        record.answered = event
                    else:
                        record.note_first_token(event)
                        yield event
        except MetacogError as refusal:
            if following is None or refusal.reason in CALLERS_MATTER or record.spend.seconds_left() <= 0:
                raise
            _log.warning("fell back", run_id=record.run_id, strategy=strategy, to=following, reason=refusal.reason)
            yield record.fell_back(strategy, following, refusal)
        else:
            return


def _attempts(chosen: Strategy, fallback: bool) -> list[tuple[Strategy, Strategy | None]]:
    order = [chosen, *(stand_ins(chosen) if fallback else ())]
    return list(zip(order, [*order[1:], None], strict=True))


class Record:
    """A run while it is under way; `finished` or `refused` puts it into the journal."""

    def __init__(
        self, desk: Desk, ask: AnswerRequest, messages: Sequence[Turn], named: Strategy | None, origin: Origin
    ) -> None:
        self.run_id = new_id()
        self.ask = ask
        self.messages = messages
        self.route: Routed | None = None
        self.strategy: Strategy | None = named
        self.answered = Answered(text="", outcome=Outcome.ABSTAINED, finish_reason="")
        self._desk = desk
        self.origin = origin
        self.digest = _request_digest(ask, origin)
        self._created_at = desk.now()
        self._began = time.monotonic()
        self._first_token_ms: float | None = None
        self._fallbacks: list[FellBack] = []
        self._limits = limits(ask.envelope, _wide_enough(desk.limits[named], ask, origin.samples))
        self.spend = Spend(self._limits)

    def note_first_token(self, event: Event | Passed) -> None:
        """Remember when text of the answer came first."""
        if self._first_token_ms is None and isinstance(event, AnswerToken | Passed):
            self._first_token_ms = milliseconds_since(self._began)

    def fell_back(self, failed: Strategy, following: Strategy, refusal: MetacogError) -> FellBack:
        """Remember, and tell, that another strategy stands in."""
        told = FellBack(from_strategy=failed, to_strategy=following, reason=refusal.reason, message=refusal.message)
        self._fallbacks.append(told)
        self._first_token_ms = None
        telling.of_fallback(told)
        return told

    def finished(self) -> Run:
        """Record the run as it ended, and return it."""
        return self._record(error_reason="")

    def refused(self, refusal: MetacogError) -> Run:
        """Record the run that ended without an answer, and return it."""
        return self._record(error_reason=refusal.reason)

    def _record(self, *, error_reason: str) -> Run:
        done = self.answered
        reasons = [f"{f.from_strategy}: {f.reason}: {f.message}" for f in self._fallbacks] + list(done.degraded_reasons)
        run = Run(
            run_id=self.run_id,
            created_at=self._created_at,
            request_id=self.ask.request_id,
            key_name=self.origin.key_name,
            messages=self.messages,
            messages_digest=messages_digest(self.messages),
            request_digest=self.digest,
            route=self.route,
            strategy=self.strategy or "",
            answer=done.text,
            outcome=done.outcome,
            confidence=done.confidence,
            confidence_source=done.confidence_source,
            deliberation=done.deliberation,
            usage=self.spend.ledger.usage(),
            envelope=Envelope(**{f.name: getattr(self._limits, f.name) for f in fields(Limits)}),
            degraded=bool(reasons),
            degraded_reasons=reasons,
            fallbacks=self._fallbacks,
            budget_exhausted=done.budget_exhausted or self.spend.ledger.exhausted,
            finish_reason=done.finish_reason,
            error_reason=error_reason,
            duration_ms=milliseconds_since(self._began),
            first_token_ms=self._first_token_ms,
            config_version=self.route.config_version if self.route else "",
            model=done.model,
        )
        telling.of_run(run)
        self._desk.recorder.record(run)
        return run


def _wide_enough(default: Limits, ask: AnswerRequest, samples: int) -> Limits:
    """The default envelope, never narrower than the answers the caller asked for."""
    wide = min(LARGEST_LIMIT, 2 * samples * (ask.max_tokens or 0))
    return replace(
        default,
        max_generations=max(default.max_generations, min(LARGEST_LIMIT, samples + 1)),
        max_generated_tokens=max(default.max_generated_tokens, wide),
    )


def _request_digest(ask: AnswerRequest, origin: Origin) -> str:
    """Digest of all that was asked [sha256, hexadecimal]: a repetition has the same."""
    return sha256(origin.request or dumps(replace(ask, request_id=""))).hexdigest()


def messages_digest(messages: Sequence[Turn]) -> str:
    """Digest of a conversation [sha256, hexadecimal]."""
    return sha256(dumps(list(messages))).hexdigest()


def told_again(run: Run) -> list[Event]:
    """The events of a run that was answered before."""
    events: list[Event] = [RunStarted(run_id=run.run_id)]
    if run.route is not None:
        events.append(Routed(**{f.name: getattr(run.route, f.name) for f in fields(run.route)}))
    return [*events, AnswerToken(text=run.answer), RunFinished(run=run)]
