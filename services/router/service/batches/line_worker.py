"""Lines of batches are answered in the background, in few places, and after interactive requests.

A line is claimed by a lease that is renewed while it is answered. A process that is killed, or cannot renew its leases,
loses its lines to the next one, which repeats them under the same `request_id`; of two results the first is stored.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from contextvars import ContextVar, copy_context
from typing import Protocol

from chassis.admission import CALLER_KEY, OVERLOAD_REASONS
from chassis.ids import new_id
from chassis.json_text import InvalidJson, loads_request
from chassis.log import logger
from chassis.worker import CANCELLED_WITHIN_S, BackgroundWorker, wait_within
from inference import BackendFailed
from kernel.errors import Code, MalformedRequest, MetacogError
from kernel.values import value
from services.router.core.batch_lines import result_line, unanswered_line
from services.router.core.retries import pause_s
from services.router.metrics import BATCH_LINES
from services.router.service.answering.admission import Admission
from services.router.service.batches.line_answers import LineAnswers, LineReply, reply_of_error, written_line
from services.router.service.batches.values import ClaimedLine, KeptResult

# A line is another process's after this time without a sign of life of its own [s].
LEASE_S = 30.0
POLL_S = 2.0
# Pauses before a line is tried again, and attempts at most: about two hours [s], [count].
FIRST_PAUSE_S, MOST_PAUSE_S, MOST_ATTEMPTS = 1.0, 60.0, 120
# Attempts at most in which a server was there and failed, so that it may fail at this line every time [count].
MOST_FAILURES = 5
# Attempts at most whose process ended, or lost its lease: the line may be what ends it [count].
MOST_LOSSES = 3
# Reasons of such failures, beside a server's own error.
FAILURE_REASONS = frozenset({"BACKEND_REPLY_INVALID", "BACKEND_UNAUTHORIZED"})
# Time after an overload in which no line begins [s].
OVERLOAD_PAUSE_S = 10.0
# Time between two attempts to store a result [s].
STORE_AGAIN_S = 1.0
CLOSE_WITHIN_S = 3.0

# Whether a line is being answered, and not a caller's request.
IS_LINE: ContextVar[bool] = ContextVar("is_line", default=False)

_log = logger(__name__)


class LineStore(Protocol):
    """This store holds the lines of batches. Every method may raise `DatabaseUnavailable`."""

    async def claim(self, claim: str, lease_s: float) -> ClaimedLine | None:
        """Return a line that is due; no other process gets it while the lease lasts."""

    async def renew(self, claim: str, names: Collection[tuple[str, int]], lease_s: float) -> None:
        """Renew the leases of lines with a claim."""

    async def keep(self, line: ClaimedLine, content: bytes, *, ok: bool) -> KeptResult:
        """Store the result of a line, unless it has one; return what became of it."""

    async def release(self, line: ClaimedLine, claim: str, *, pause_s: float, attempts: int, failures: int) -> None:
        """Let a line be answered later."""


@value
class LinePaces:
    """These options say how many lines are answered, and when.

    Attributes:
        at_once: Lines at a time [count, >= 1].
        most_served: Requests in flight up to which a line begins [count].
        lease_s: Time after which a line without a sign of life is another process's [s].
        poll_s: Time between two looks at what is due [s].
        first_pause_s: Time before a line is tried again [s]; it doubles. Its place stays empty for as long, so that
            many lines whose model is away make no busy loop.
        overload_pause_s: Time after a request was rejected in which no line begins [s].
    """

    at_once: int
    most_served: int
    lease_s: float = LEASE_S
    poll_s: float = POLL_S
    first_pause_s: float = FIRST_PAUSE_S
    overload_pause_s: float = OVERLOAD_PAUSE_S


class LineWorker:
    """Answers lines.

    Args:
        store: The lines.
        answers: Answers one.
        admission: Admission of requests, of which a line takes a place like any other.
        paces: How many, and when.
        on_end: Reports that a batch waits for no further line: a line that leaves others costs no look at its batch.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        store: LineStore,
        answers: LineAnswers,
        admission: Admission,
        paces: LinePaces,
        *,
        on_end: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._answers = answers
        self._admission = admission
        self._paces = paces
        self._on_end = on_end
        self._clock = clock
        self._claim = new_id()
        self._chance = random.Random()
        self._wake = asyncio.Event()
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._paused_until = self._renewed_at = 0.0
        self._resting = 0  # places that stay empty for a moment, since what their lines need failed
        self._is_away = False
        self._worker = BackgroundWorker("batch_lines", self._run_round)
        admission.when_overloaded(self._pause)

    def start(self) -> None:
        """Begin to answer lines."""
        self._worker.start()

    def wake(self) -> None:
        """Report that lines may be due; never waits."""
        self._wake.set()

    async def check(self) -> None:
        """Return while lines are answered; raises `WorkerFailing` otherwise."""
        await self._worker.check()

    async def close(self) -> None:
        """Stop, and give the lines back; each is repeated by another process, or the next."""
        self._wake.set()
        await self._worker.close(within_s=CLOSE_WITHIN_S)
        running = set(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=CANCELLED_WITHIN_S)

    def _pause(self) -> None:
        """Begin no line for a while: a caller's request was rejected. A line that is, waits by itself."""
        if not IS_LINE.get():
            self._paused_until = self._clock() + self._paces.overload_pause_s

    def _has_room(self) -> bool:
        is_quiet = self._admission.requests.in_flight <= self._paces.most_served
        return (
            is_quiet
            and len(self._running) + self._resting < self._paces.at_once
            and self._clock() >= self._paused_until
        )

    async def _run_round(self, stop: asyncio.Event) -> None:
        await wait_within(self._wake, self._paces.poll_s)
        self._wake.clear()
        if stop.is_set():
            return
        try:
            await self._renew()
            while not stop.is_set() and self._has_room():
                line = await self._store.claim(self._claim, self._paces.lease_s)
                if line is None:
                    break
                self._begin(line)
                await self._renew()
        except MetacogError as error:
            if not self._is_away:
                _log.warning("lines of batches wait", problem=error.message)
            self._is_away = True
            self._wake.clear()
        else:
            self._is_away = False

    async def _renew(self) -> None:
        if self._running and self._clock() - self._renewed_at >= self._paces.lease_s / 3:
            await self._store.renew(self._claim, list(self._running), self._paces.lease_s)
            self._renewed_at = self._clock()

    def _begin(self, line: ClaimedLine) -> None:
        if line.name in self._running:  # its lease had run out; it is still answered here
            return
        task = asyncio.create_task(self._work(line))
        self._running[line.name] = task
        task.add_done_callback(lambda ended: self._end(line, ended))

    def _end(self, line: ClaimedLine, ended: "asyncio.Task[None]") -> None:
        del self._running[line.name]
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _log.error("a line of a batch failed", batch_id=line.batch_id, line=line.number, exc_info=error)
        self._wake.set()

    async def _work(self, line: ClaimedLine) -> None:
        if line.losses >= MOST_LOSSES:
            await self._keep(line, _lost(line), ok=False)
            return
        try:
            reply = await self._answered(line)
        except asyncio.CancelledError:
            await self._release(line, 0.0, attempts=line.attempts - 1, failures=line.failures)
            raise
        if isinstance(reply, LineReply):
            await self._keep(line, _result(line, reply), ok=reply.status < 400)
            return
        BATCH_LINES.labels("repeated").inc()
        failures = line.failures + is_failure(reply)
        await self._release(line, self._pause_s(line, reply), attempts=line.attempts, failures=failures)
        self._resting += 1
        asyncio.get_running_loop().call_later(self._paces.first_pause_s, self._end_rest)

    def _end_rest(self) -> None:
        self._resting -= 1
        self._wake.set()

    def _pause_s(self, line: ClaimedLine, error: MetacogError) -> float:
        """Return when a line is tried again [s]: what it needs may say when, within bounds."""
        first_s = self._paces.first_pause_s
        pause = pause_s(line.attempts, self._chance.random(), first_s=first_s, most_s=MOST_PAUSE_S)
        asked_s = float(error.metadata.get("retry_after_s") or 0.0)
        return max(pause, min(asked_s, MOST_PAUSE_S))

    async def _answered(self, line: ClaimedLine) -> LineReply | MetacogError:
        """Return the reply to a line, or the error after which it is tried again.

        It is answered in a task with a context of its own, as a request is, so that the limits of its run do not hold
        for what follows.
        """
        context = copy_context()
        context.run(CALLER_KEY.set, line.key_name)
        context.run(IS_LINE.set, True)
        task = asyncio.create_task(self._answer(line), context=context)
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=CANCELLED_WITHIN_S)
            raise

    async def _answer(self, line: ClaimedLine) -> LineReply | MetacogError:
        try:
            body = _body_of(line)
            name = f"{line.batch_id}-{line.number}"
            return await self._answers.answer(line.endpoint, body, line.key_name, name)
        except MetacogError as error:
            return error if _is_tried_again(line, error) else reply_of_error(error)
        except Exception as error:  # noqa: BLE001 - the edge of a line: a bug is logged and named, and ends no batch
            return reply_of_error(error)

    async def _keep(self, line: ClaimedLine, content: bytes, *, ok: bool) -> None:
        """Store a result, however long the database is away."""
        while True:
            try:
                kept = await self._store.keep(line, content, ok=ok)
                if kept.is_stored:
                    BATCH_LINES.labels("completed" if ok else "failed").inc()
                if kept.ends_lines:
                    self._on_end()
                return
            except MetacogError as error:
                if error.code is not Code.UNAVAILABLE:
                    raise
                await asyncio.sleep(STORE_AGAIN_S)

    async def _release(self, line: ClaimedLine, pause: float, *, attempts: int, failures: int) -> None:
        """Give a line back; where the database is away, its lease runs out."""
        try:
            await self._store.release(line, self._claim, pause_s=pause, attempts=attempts, failures=failures)
        except MetacogError as error:
            _log.warning("a line of a batch waits for the end of its lease", problem=error.message)


def is_temporary(error: MetacogError) -> bool:
    """Return whether a line that ended in an error is tried again: what it needs is away or full.

    Example:
        >>> from kernel.errors import Overloaded
        >>> [is_temporary(error("so")) for error in (Overloaded, MalformedRequest)]
        [True, False]
    """
    return error.reason in OVERLOAD_REASONS or error.code in (Code.UNAVAILABLE, Code.ABORTED)


def is_failure(error: MetacogError) -> bool:
    """Return whether a server was there and failed, so that it may fail every time.

    Example:
        >>> from inference import BackendFailed, BackendUnauthorized, BackendUnavailable
        >>> kinds = (BackendFailed, BackendUnauthorized, BackendUnavailable)
        >>> [is_failure(kind("so", backend="a")) for kind in kinds]
        [True, True, False]
    """
    return error.reason in FAILURE_REASONS or isinstance(error, BackendFailed)


def _is_tried_again(line: ClaimedLine, error: MetacogError) -> bool:
    has_more = line.failures + 1 < MOST_FAILURES if is_failure(error) else line.attempts < MOST_ATTEMPTS
    return has_more and is_temporary(error)


def _result(line: ClaimedLine, reply: LineReply) -> bytes:
    return written_line(
        result_line(
            line.batch_id,
            line.number,
            line.custom_id,
            status=reply.status,
            request_id=reply.run_id,
            body=reply.body,
        )
    )


def _lost(line: ClaimedLine) -> bytes:
    message = f"a router ended {MOST_LOSSES} times while it answered this line; send it by itself to see why"
    return written_line(unanswered_line(line.batch_id, line.number, line.custom_id, code="line_lost", message=message))


def _body_of(line: ClaimedLine) -> dict[str, object]:
    try:
        given = loads_request(line.content)
    except InvalidJson as error:
        raise MalformedRequest(f"the line: {error}", field="body") from error
    body: dict[str, object] = given["body"]
    return body
