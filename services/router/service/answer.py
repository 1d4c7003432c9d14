"""Assess, route and answer a query, fall back where a strategy fails, and record the run."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from chassis.errors import ClientGone
from chassis.ids import new_id
from chassis.log import logger
from chassis.spend import Priced, Spend
from kernel.answers import Outcome
from kernel.envelope import Limits, limits
from kernel.errors import Bug, MetacogError
from kernel.values import value
from services.router.core.strategies import Strategy, named_strategy
from services.router.service import telling
from services.router.service.admission import Admission
from services.router.service.asking import messages_digest, request_digest, wide_enough
from services.router.service.assess import milliseconds_since
from services.router.service.attempts import attempts, is_final, place_for
from services.router.service.recalibrating import Recalibration, as_it_is, served
from services.router.service.repeats import Repeats, told_again
from services.router.service.route import Deciding, Query, decide
from services.router.service.subject import Drafted, DrafterOf, Message, Subject, conversation
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
    """What a strategy is given; `drafted` is the System 1 answer, where assessing made it already."""

    ask: AnswerRequest
    messages: Sequence[Turn]
    route: Routed
    run_id: str
    drafted: Drafted | None = None


Made = AnswerToken | Passed | Relayed | Answered


class Answerer(Protocol):
    """A strategy at work."""

    def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[Made, None]:
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
        drafter: Makes the System 1 answer for assessors that judge it.
        limits: Default envelope by strategy; `None` is for requests that leave the strategy to the router.
        answer_tokens: Tokens of a System 1 answer whose request states none [count].
        models: Models that assessors and System 1 ask.
        recorder: Where runs are remembered.
        repeats: Answers to requests that were made before.
        admission: How much may be under way.
        recalibrated: Maps the confidence that comes to the one that is served.
        now: Wall clock.
    """

    deciding: Deciding
    answerers: Mapping[Strategy, Answerer]
    drafter: DrafterOf
    limits: Mapping[Strategy | None, Limits]
    recorder: Recorder
    repeats: Repeats
    answer_tokens: int = 1024
    models: Sequence[Priced] = ()
    admission: Admission = field(default_factory=Admission)
    recalibrated: Recalibration = as_it_is
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def with_system_one(self, answerer: Answerer, drafter: DrafterOf) -> "Desk":
        """The same with another System 1; field by field, for `replace` is slow and every chat request does this."""
        return Desk(
            deciding=self.deciding,
            answerers={**self.answerers, Strategy.SYSTEM_ONE: answerer},
            drafter=drafter,
            limits=self.limits,
            answer_tokens=self.answer_tokens,
            models=self.models,
            recorder=self.recorder,
            repeats=self.repeats,
            admission=self.admission,
            recalibrated=self.recalibrated,
            now=self.now,
        )


@value
class Origin:
    """What a face knows of a request beyond the request itself.

    Attributes:
        key_name: Name of the API key it came in with.
        because: Why its strategy is named, if it is.
        samples: Answers that the client wants of a plain call [count, >= 1].
        request: The client's own request, by which a repetition is told from another one; empty: ours.
        chat: The conversation as the client sent it, with what is not text; empty: as the request has it.
        streamed: Whether the client watches the answer being written.
    """

    key_name: str = ""
    because: str = "requested"
    samples: int = 1
    request: bytes = b""
    chat: Sequence[Message] = ()
    streamed: bool = False


NOWHERE = Origin()


async def answer(ask: AnswerRequest, *, desk: Desk, origin: Origin = NOWHERE) -> AsyncGenerator[Event | Passed, None]:
    """Events of one run; the last is `RunFinished`. Closing the generator stops the work.

    Args:
        ask: The request.
        desk: What answering needs from the world.
        origin: Where it came from.

    Raises:
        Overloaded: When as much is in flight as may be; nothing was done, and no run recorded.
        MalformedRequest: When there is nothing to answer.
        UnknownStrategy: For a strategy that the router does not have.
        MetacogError: The refusal that left no answer; the run is recorded with its reason.
    """
    with desk.admission.request():
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
        decision = await decide(record.query(named), record.spend, desk.deciding)
        record.route, record.drafted = decision.routed, decision.drafted
        telling.of_route(record.route)
        yield record.route
        async with aclosing(_answered(record, desk)) as events:
            async for event in events:
                yield event
    except MetacogError as refusal:
        refusal.metadata.setdefault("run_id", record.run_id)
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
    for strategy, following in attempts(chosen, fallback=record.ask.fallback):
        record.strategy = strategy
        task = record.task(record.route)
        try:
            with place_for(strategy, desk.admission):
                async with aclosing(desk.answerers[strategy](task, record.spend)) as events:
                    async for event in events:
                        if isinstance(event, Answered):
                            record.answered = event
                        else:
                            record.note_first_token(event)
                            yield event
        except MetacogError as refusal:
            named, left_s = bool(record.ask.strategy), record.spend.seconds_left()
            if following is None or is_final(refusal, named=named, seconds_left=left_s):
                raise
            _log.warning("fell back", run_id=record.run_id, strategy=strategy, to=following, reason=refusal.reason)
            yield record.fell_back(strategy, following, refusal)
        else:
            return


class Record:
    """A run while it is under way; `finished` or `refused` puts it into the journal."""

    def __init__(
        self, desk: Desk, ask: AnswerRequest, messages: Sequence[Turn], named: Strategy | None, origin: Origin
    ) -> None:
        self.run_id = new_id()
        self.ask = ask
        self.messages = messages
        self.route: Routed | None = None
        self.drafted: Drafted | None = None
        self.strategy: Strategy | None = named
        self.answered = Answered(text="", outcome=Outcome.ABSTAINED, finish_reason="")
        self._desk = desk
        self.origin = origin
        self.digest = request_digest(ask, origin.request)
        self._created_at = desk.now()
        self._began = time.monotonic()
        self._first_token_ms: float | None = None
        self._fallbacks: list[FellBack] = []
        default = wide_enough(desk.limits[named], ask, origin.samples, named, answer_tokens=desk.answer_tokens)
        self._limits = limits(ask.envelope, default)
        self.spend = Spend(self._limits, models=desk.models)

    def query(self, named: Strategy | None) -> Query:
        """What is to be decided on."""
        subject = Subject(
            messages=self.messages,
            chat=self.origin.chat,
            key_name=self.origin.key_name,
            seed=self.ask.seed,
            draft=self._desk.drafter(self.ask, self.messages),
        )
        return Query(
            subject=subject,
            msv=self.ask.msv,
            named=named,
            because=self.origin.because,
            assessor=self.ask.assessor,
            streamed=self.origin.streamed,
            run_id=self.run_id,
        )

    def task(self, route: Routed) -> Task:
        """What a strategy is given."""
        return Task(ask=self.ask, messages=self.messages, route=route, run_id=self.run_id, drafted=self.drafted)

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
            **served(self._desk.recalibrated, self.strategy or "", done.confidence_source, done.confidence),
            confidence_source=done.confidence_source,
            deliberation=done.deliberation,
            usage=self.spend.ledger.usage(),
            envelope=self._limits.envelope,
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
