"""Passing on sends a call to the model server that its model names, inside its envelope, and records the run."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from chassis.clock import REQUEST_ENDS_AT, milliseconds_since
from chassis.errors import ClientGone
from chassis.ids import new_id
from chassis.json_text import dumps
from inference import (
    NO_FIELDS,
    BackendModelClients,
    Embeddings,
    PassedCall,
    Spend,
    objects_of,
    parse_event,
    parse_object,
    passed_usage,
    text_of,
)
from kernel.envelope import StageUsage, limits
from kernel.errors import MetacogError
from kernel.outcomes import Outcome
from kernel.policy import Strategy
from services.router import metrics
from services.router.service.answering.default_limits import widened_limits
from services.router.service.answering.recording import recorded_events
from services.router.service.answering.run_in_progress import AnswerContext, messages_digest
from services.router.service.answering.values import AnswerRequest, Event, PassedThrough
from services.router.service.passing.calls import PassedRequest
from services.router.service.passing.endpoints import WITHOUT_MODEL
from services.router.service.runs.values import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingContext:
    """The context holds what passing a call on needs beside the call.

    Attributes:
        answering: What answering needs: admission, envelope, recorder.
        models: The models of the process.
        encoder: The sentence encoder.
    """

    answering: AnswerContext
    models: BackendModelClients
    encoder: Embeddings


async def pass_on(request: PassedRequest, *, context: PassingContext) -> AsyncGenerator[Event | PassedThrough, None]:
    """Yield the events of one run: what the model server sends; the last is `RunFinished`.

    Closing the generator stops the work.

    Raises:
        Overloaded: When as much is in flight as may be; nothing was done, and no run recorded.
        EndpointNotServed: When the model's server has no such endpoint.
        MetacogError: Any other error that left no reply; the run is recorded with its reason.
    """
    answering = context.answering
    with answering.admission.request():
        context.models.begin_run()
        run = PassedRun(request, context)
        REQUEST_ENDS_AT.set(run.spend.deadline)
        async with aclosing(recorded_events(run, _passed_events(run, context), answering.recorder)) as events:
            async for event in events:
                yield event


async def _passed_events(run: "PassedRun", context: PassingContext) -> AsyncGenerator[PassedThrough, None]:
    request, spend, stage = run.request, run.spend, run.stage
    if request.to_encoder:
        document = await context.encoder.forward(request.body, timeout_s=spend.seconds_left())
        spend.ledger.book(stage, passed_usage(run.call, document).plus(StageUsage(http_calls=1)))
        run.note(document)
        yield PassedThrough(document=document)
        return
    backend = context.models.current().named(request.target)
    if not request.stream:
        reply = await backend.pass_on(run.call, spend, stage)
        run.cut = reply.cut
        run.note(reply.document)
        yield PassedThrough(document=reply.document)
        return
    async with await backend.pass_on_stream(run.call, spend, stage) as stream:
        async for event in stream:
            if not event.done:
                run.note(event.document or parse_object(parse_event(event.raw).data or b""))
                yield PassedThrough(raw=event.raw, document=event.document)
    run.cut = stream.cut


class PassedRun:
    """A passed run is in progress until `record` or `record_failure` puts it into the journal."""

    def __init__(self, request: PassedRequest, context: PassingContext) -> None:
        self.request = request
        self.run_id = new_id()
        self.stage = request.endpoint.call.lower()
        self.cut = False
        self._context = context
        self._answering = context.answering
        self._created_at = context.answering.now()
        self._began = time.monotonic()
        self._first_ms: float | None = None
        self._texts: list[str] = []
        self._finish_reason = ""
        self._model = ""
        default = widened_limits(
            self._answering.limits[Strategy.SYSTEM_ONE], AnswerRequest(max_tokens=request.tokens), request.samples or 1
        )
        self._limits = limits(request.envelope, default, self._answering.ceilings)
        names = [request.target] if request.target else []
        priced: Sequence[Any] = () if request.to_encoder else context.models.of_run(*names)
        self.spend = Spend(self._limits, models=priced)
        reads = request.endpoint.call not in WITHOUT_MODEL
        self.call = PassedCall(
            place=request.endpoint.place,
            body=request.body,
            samples=request.samples,
            tokens=request.tokens,
            characters=sum(len(turn.content) for turn in request.turns) if reads else None,
            usage=request.include_usage,
        )

    def note(self, document: Any) -> None:  # noqa: ANN401 - a reply, or a chunk of one
        """Note what the record needs of a reply, or of a chunk of one: the first text, and the model's name."""
        if self._first_ms is None:
            self._first_ms = milliseconds_since(self._began)
        self._model = self._model or text_of(document.get("model"))
        first = next((one for one in objects_of(document.get("choices")) if not one.get("index")), NO_FIELDS)
        self._texts.append(text_of(first.get("text")))
        self._finish_reason = text_of(first.get("finish_reason")) or self._finish_reason

    def record(self) -> Run:
        """Record the run as it ended, and return it."""
        return self._record("")

    def record_failure(self, error: MetacogError) -> Run:
        """Record the run that ended without a reply, and return it."""
        return self._record(error.reason)

    def record_cancellation(self) -> Run:
        """Record the run whose client went away, and return it."""
        return self._record(ClientGone.reason, Outcome.CANCELLED)

    def _record(self, error_reason: str, outcome: Outcome | None = None) -> Run:
        request, context = self.request, self._answering
        text = "".join(self._texts)
        answered = not error_reason and (not request.samples or bool(text.strip()))
        run = Run(
            run_id=self.run_id,
            created_at=self._created_at,
            key_name=request.key_name,
            messages=request.turns if request.endpoint.generates else (),  # whole documents that nothing answers
            messages_digest=messages_digest(request.turns),
            request_digest=sha256(dumps(request.body)).hexdigest(),
            answer=text,
            outcome=outcome or (Outcome.ANSWERED if answered else Outcome.ABSTAINED),
            usage=self.spend.ledger.usage(),
            envelope=self._limits.envelope,
            budget_exhausted=self.cut or self.spend.ledger.exhausted,
            finish_reason=self._finish_reason,
            error_reason=error_reason,
            duration_ms=milliseconds_since(self._began),
            first_token_ms=self._first_ms,
            model=self._model,
            catalogue_name="" if request.to_encoder else context.vote_plans.catalogue_name(request.target),
            call=request.endpoint.call,
        )
        metrics.count_run(self.stage, run.outcome, error_reason, run.duration_ms, run.usage)
        context.recorder.record(run)
        return run
