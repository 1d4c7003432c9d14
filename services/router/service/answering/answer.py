"""What a request comes to: its default envelope, and the digests by which it is known again."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from math import ceil
from typing import Any, Protocol

from chassis.errors import ClientGone
from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.log import logger
from inference.spend import Priced, Spend
from kernel.conversation import Turn, conversation
from kernel.envelope import LARGEST_LIMIT, Limits, limits, widest
from kernel.errors import Bug, MetacogError
from kernel.outcomes import Outcome
from kernel.policy import Policy
from kernel.values import value
from services.router import metrics
from services.router.core.strategies import Strategy, named_strategy
from services.router.service.answering.admission import Admission
from services.router.service.answering.fallback import attempts, is_final, place_for
from services.router.service.answering.idempotency import IdempotentAnswers, told_again
from services.router.service.answering.values import (
    AnswerRequest,
    AnswerToken,
    ArbitrationOptions,
    Event,
    PassedThrough,
    RelayedEvent,
    RunFinished,
    RunStarted,
)
from services.router.service.assessment.assess import milliseconds_since
from services.router.service.assessment.route import RoutingContext, RoutingQuestion, decide
from services.router.service.assessment.subject import DraftAnswer, DrafterFactory, Message, Subject
from services.router.service.assessment.values import Routed
from services.router.service.calibration.recalibration import Recalibration, as_it_is, served
from services.router.service.runs.values import FellBack, Run

# What the arbiter draws where a request leaves it open (SPEC 2.1): each of its samples may be the answer.
SOLVERS, SOLVER_SAMPLES, ARBITRATION_SAMPLES = 2, 5, 50
ARBITRATED = SOLVERS * (SOLVER_SAMPLES + 1) + ARBITRATION_SAMPLES


def default_limits(
    usual: Limits, own: Mapping[Strategy, Limits], policy: Policy | None
) -> Mapping[Strategy | None, Limits]:
    """Default envelope by strategy; `None` is for requests that leave it to the router.

    What a request may spend is settled before its strategy is: so an open choice has room for whatever may be chosen.

    Args:
        usual: The envelope of a strategy without one of its own.
        own: Those that have one.
        policy: The table that may choose them; None where it is off.
    """
    rows = policy.rows if policy else ()
    chosen = [limits for strategy, limits in own.items() if any(row.strategy == strategy for row in rows)]
    by_strategy: dict[Strategy | None, Limits] = {strategy: own.get(strategy, usual) for strategy in Strategy}
    return by_strategy | {None: reduce(widest, chosen, usual)}


def wide_enough(
    default: Limits, ask: AnswerRequest, samples: int, named: Strategy | None = None, *, answer_tokens: int = 0
) -> Limits:
    """The default envelope, never narrower than the answers, or the arbitration, that the caller asked for.

    Args:
        default: The envelope of a request that asks for nothing out of the ordinary.
        ask: The request.
        samples: Answers that it wants of a plain call [count, >= 1].
        named: The strategy that it names.
        answer_tokens: Tokens of each of several answers where the request states none [count, >= 0].
    """
    drawn = arbitrated(ask.arbitration) if named is Strategy.ARBITER else 0
    more = max(1.0, drawn / ARBITRATED)
    each = ask.max_tokens or (answer_tokens if samples > 1 else 0)
    wide = (drawn or 2 * samples) * each
    return Limits(
        max_generations=_held(max(ceil(default.max_generations * more), samples + 1)),
        max_generated_tokens=_held(max(ceil(default.max_generated_tokens * more), wide)),
        timeout_ms=default.timeout_ms,
    )


def _held(limit: int) -> int:
    return min(LARGEST_LIMIT, limit)


def arbitrated(options: ArbitrationOptions | None) -> int:
    """Generations of an arbitration that draws every sample [count].

    Example:
        >>> arbitrated(None), arbitrated(ArbitrationOptions(solvers=3, arbitration_samples=20))
        (62, 38)
    """
    options = options or ArbitrationOptions()
    solvers, each = options.solvers or SOLVERS, options.solver_samples or SOLVER_SAMPLES
    full = solvers * (each + 1) + (options.arbitration_samples or ARBITRATION_SAMPLES)
    return max(full, options.self_consistency_samples or 0)


def chosen(options: ArbitrationOptions | None) -> Mapping[str, Any]:
    """The options that the caller chose, by name."""
    if options is None:
        return {}
    given = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: value for name, value in given.items() if value not in (None, "", ())}


def request_digest(ask: AnswerRequest, request: bytes) -> str:
    """Digest of all that was asked [sha256, hexadecimal]: a repetition has the same.

    Args:
        ask: The request.
        request: The client's own, which tells more; empty: there is none.
    """
    return sha256(request or dumps(replace(ask, request_id="") if ask.request_id else ask)).hexdigest()


def messages_digest(messages: Sequence[Turn]) -> str:
    """Digest of a conversation [sha256, hexadecimal]."""
    return sha256(dumps(list(messages))).hexdigest()


_log = logger(__name__)


@value
class StrategyResult:
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
class StrategyTask:
    """What a strategy is given; `drafted` is the System 1 answer, where assessing made it already."""

    ask: AnswerRequest
    messages: Sequence[Turn]
    route: Routed
    run_id: str
    drafted: DraftAnswer | None = None


Made = AnswerToken | PassedThrough | RelayedEvent | StrategyResult


class AnswerStrategy(Protocol):
    """A strategy at work."""

    def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[Made, None]:
        """Events while it works, then what it arrived at."""


class Recorder(Protocol):
    """Where runs are remembered."""

    def record(self, run: Run) -> None:
        """Queue `run` to be remembered; never lost, never waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
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

    deciding: RoutingContext
    answerers: Mapping[Strategy, AnswerStrategy]
    drafter: DrafterFactory
    limits: Mapping[Strategy | None, Limits]
    recorder: Recorder
    repeats: IdempotentAnswers
    answer_tokens: int = 1024
    models: Sequence[Priced] = ()
    admission: Admission = field(default_factory=Admission)
    recalibrated: Recalibration = as_it_is
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def with_system_one(self, answerer: AnswerStrategy, drafter: DrafterFactory) -> "AnswerContext":
        """The same with another System 1; field by field, for `replace` is slow and every chat request does this."""
        return AnswerContext(
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
class RequestOrigin:
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
    reason: str = "requested"
    samples: int = 1
    request: bytes = b""
    chat: Sequence[Message] = ()
    streamed: bool = False


NOWHERE = RequestOrigin()


async def answer(
    ask: AnswerRequest, *, desk: AnswerContext, origin: RequestOrigin = NOWHERE
) -> AsyncGenerator[Event | PassedThrough, None]:
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
        messages = conversation(ask.question, ask.messages)
        named = named_strategy(ask.strategy)
        record = RunInProgress(desk, ask, messages, named, origin)
        async with desk.repeats.once(origin.key_name, ask.request_id, record.digest, record.spend) as earlier:
            if earlier is not None:
                for told in told_again(earlier):
                    yield told
                return
            async with aclosing(_recorded(record, desk, named)) as events:
                async for made in events:
                    yield made


async def _recorded(
    record: "RunInProgress", desk: AnswerContext, named: Strategy | None
) -> AsyncGenerator[Event | PassedThrough, None]:
    try:
        yield RunStarted(run_id=record.run_id)
        decision = await decide(record.question(named), record.spend, desk.deciding)
        record.route, record.drafted = decision.routed, decision.drafted
        metrics.of_route(record.route)
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


async def _answered(record: "RunInProgress", desk: AnswerContext) -> AsyncGenerator[Event | PassedThrough, None]:
    assert record.route is not None
    chosen = Strategy(record.route.strategy)
    for strategy, following in attempts(chosen, fallback=record.ask.fallback):
        record.strategy = strategy
        task = record.task(record.route)
        try:
            with place_for(strategy, desk.admission):
                async with aclosing(desk.answerers[strategy](task, record.spend)) as events:
                    async for event in events:
                        if isinstance(event, StrategyResult):
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


class RunInProgress:
    """A run while it is under way; `finished` or `refused` puts it into the journal."""

    def __init__(
        self,
        desk: AnswerContext,
        ask: AnswerRequest,
        messages: Sequence[Turn],
        named: Strategy | None,
        origin: RequestOrigin,
    ) -> None:
        self.run_id = new_id()
        self.ask = ask
        self.messages = messages
        self.route: Routed | None = None
        self.drafted: DraftAnswer | None = None
        self.strategy: Strategy | None = named
        self.answered = StrategyResult(text="", outcome=Outcome.ABSTAINED, finish_reason="")
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

    def question(self, named: Strategy | None) -> RoutingQuestion:
        """What is to be decided on."""
        subject = Subject(
            messages=self.messages,
            chat=self.origin.chat,
            key_name=self.origin.key_name,
            seed=self.ask.seed,
            draft=self._desk.drafter(self.ask, self.messages),
        )
        return RoutingQuestion(
            subject=subject,
            msv=self.ask.msv,
            named=named,
            reason=self.origin.reason,
            assessor=self.ask.assessor,
            streamed=self.origin.streamed,
            run_id=self.run_id,
        )

    def task(self, route: Routed) -> StrategyTask:
        """What a strategy is given."""
        return StrategyTask(ask=self.ask, messages=self.messages, route=route, run_id=self.run_id, drafted=self.drafted)

    def note_first_token(self, event: Event | PassedThrough) -> None:
        """Remember when text of the answer came first."""
        if self._first_token_ms is None and isinstance(event, AnswerToken | PassedThrough):
            self._first_token_ms = milliseconds_since(self._began)

    def fell_back(self, failed: Strategy, following: Strategy, refusal: MetacogError) -> FellBack:
        """Remember, and tell, that another strategy stands in."""
        told = FellBack(from_strategy=failed, to_strategy=following, reason=refusal.reason, message=refusal.message)
        self._fallbacks.append(told)
        self._first_token_ms = None
        metrics.of_fallback(told)
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
        metrics.of_run(run)
        self._desk.recorder.record(run)
        return run
