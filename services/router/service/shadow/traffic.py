"""Shadow traffic: some answered requests are answered again by another policy, while the router has little else to do.

Nothing here is waited for by a request. What does not fit is dropped and counted, and a shadow run that is under way
ends when a served request is rejected for lack of room.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass, field, replace

from chassis.admission import CALLER_KEY, OVERLOAD_REASONS
from chassis.errors import ConfigurationInvalid
from chassis.json_text import dumps
from chassis.log import logger
from chassis.worker import CANCELLED_WITHIN_S, BackgroundWorker, RoundTooLong, wait_within
from inference import Spend
from kernel.envelope import Envelope, Limits, limits
from kernel.errors import MetacogError
from kernel.outcomes import Outcome
from services.router.core.shadow import has_shadow
from services.router.metrics import SHADOW_DROPPED
from services.router.service.answering.admission import Admission
from services.router.service.answering.answer import answer
from services.router.service.answering.run_in_progress import AnswerContext, RequestOrigin
from services.router.service.answering.values import AnswerRequest, ServedAnswer
from services.router.service.runs.values import Run

# Requests that wait for their shadow at most, and their size as JSON [count, bytes].
QUEUE, QUEUE_BYTES = 32, 8 * 1024 * 1024
# Age from which a request that waits is dropped [s].
LATE_S = 600.0
# Pause between two looks at how busy the router is [s].
LOOK_EVERY_S = 0.1
# Time after an overload in which no shadow run begins [s].
PAUSE_S = 10.0
# Longest round without a request [s].
ROUND_S = 5.0
# Time beyond its envelope after which a shadow run counts as hung [s].
SPARE_S = 60.0
# Time that a shadow run gets to end when the router closes [s].
CLOSE_WITHIN_S = 2.0

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowOptions:
    """These options say how much is answered again, and when.

    Attributes:
        policy: Version of the shadow policy.
        share: Share of the eligible runs [0..1].
        envelope: Limits of a shadow run; what is left out is as for a request that leaves its strategy open.
        at_once: Shadow runs at a time [count, >= 1].
        max_served: Served requests in flight up to which one begins [count, >= 0].
        queue: Requests that wait at most [count].
        queue_bytes: Their size as JSON at most, with the answers that they are compared with [bytes].
        late_s: Age from which one that waits is dropped [s].
        pause_s: Time after an overload in which none begins [s].
        spare_s: Time beyond its envelope after which a shadow run counts as hung [s].
    """

    policy: str
    share: float
    envelope: Envelope = field(default_factory=Envelope)
    at_once: int = 1
    max_served: int = 4
    queue: int = QUEUE
    queue_bytes: int = QUEUE_BYTES
    late_s: float = LATE_S
    pause_s: float = PAUSE_S
    spare_s: float = SPARE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A request of a size [bytes] waits since a time [s, monotonic] for its shadow."""

    request: AnswerRequest
    origin: RequestOrigin
    since: float
    size: int


class ShadowTraffic:
    """Shadow traffic is answered in the background by workers, one shadow run each at a time.

    Args:
        context: What shadow runs are answered with: the shadow policy, and places of its own.
        served: Admission of the served requests.
        options: How much, and when.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        context: AnswerContext,
        served: Admission,
        options: ShadowOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._served = served
        self._options = options
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._closing = False
        self._paused_until = 0.0
        names = ["shadow", *(f"shadow-{number}" for number in range(2, options.at_once + 1))]
        self._workers = [BackgroundWorker(name, self._run_round) for name in names]
        served.when_overloaded(self._make_room)

    def offer(self, request: AnswerRequest, origin: RequestOrigin, run: Run) -> None:
        """Take an answered request if it is among the share, and there is room; never waits."""
        if self._closing or run.error_reason or run.outcome is not Outcome.ANSWERED or not run.answer.strip():
            return
        if not has_shadow(run.run_id, self._options.share):
            return
        if len(self._waiting) >= self._options.queue:
            SHADOW_DROPPED.labels("FULL").inc()
            return
        served = ServedAnswer(run_id=run.run_id, text=run.answer, policy=self._options.policy)
        asked = replace(request, request_id="", envelope=self._options.envelope)
        size = len(dumps(asked)) + len(run.answer.encode())
        if self._waiting_bytes + size > self._options.queue_bytes:
            SHADOW_DROPPED.labels("FULL").inc()
            return
        shadow_origin = RequestOrigin(key_name=origin.key_name, streamed=origin.streamed, served=served)
        self._waiting.append(_Waiting(request=asked, origin=shadow_origin, since=self._clock(), size=size))
        self._waiting_bytes += size
        self._wake.set()

    def start(self) -> None:
        """Begin to answer what is offered."""
        for worker in self._workers:
            worker.start()

    async def check(self) -> None:
        """Return while shadow runs can be answered.

        Raises:
            WorkerFailing: While a worker fails, or before `start`.
            ConfigurationInvalid: As `check_now`.
        """
        for worker in self._workers:
            await worker.check()
        self.check_now()

    def check_now(self) -> None:
        """Return if the models that the policy names are there, and have the prices that a limited cost needs.

        Raises:
            ConfigurationInvalid: While they are not.
        """
        context = self._context
        context.vote_plans.check_now()
        try:
            names = context.vote_plans.models_of(None, AnswerRequest())
            Spend(self._held(), models=context.models.of_run(*names))
        except MetacogError as error:
            raise ConfigurationInvalid(f"the shadow policy: {error.message}", problem=error.message) from error

    async def close(self) -> None:
        """Drop what waits, cancel what is under way, and stop."""
        self._closing = True
        SHADOW_DROPPED.labels("CLOSED").inc(len(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = 0
        self._cancel()
        self._wake.set()
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(worker.close(within_s=CLOSE_WITHIN_S))

    def _held(self) -> Limits:
        """Return the limits of a shadow run."""
        return limits(self._options.envelope, self._context.limits[None], self._context.ceilings)

    def _make_room(self) -> None:
        """Cancel what is under way, and begin nothing for a while: a served request was rejected."""
        self._pause()
        self._cancel()

    def _pause(self) -> None:
        self._paused_until = self._clock() + self._options.pause_s

    def _cancel(self) -> None:
        for task in self._under_way:
            task.cancel()

    def _is_quiet(self) -> bool:
        """Return whether so little is served that a shadow run may begin."""
        return self._served.requests.in_flight <= self._options.max_served and self._clock() >= self._paused_until

    async def _run_round(self, stop: asyncio.Event) -> None:
        """Answer one request that waits, or wait a little: for one, or until little else is served."""
        if self._closing:
            await stop.wait()
            return
        self._drop_late()
        if not self._waiting:
            self._wake.clear()
            await wait_within(self._wake, ROUND_S)
        elif not self._is_quiet():
            await wait_within(stop, LOOK_EVERY_S)
        else:
            await self._answer(self._take())

    def _drop_late(self) -> None:
        while self._waiting and self._clock() - self._waiting[0].since > self._options.late_s:
            self._take()
            SHADOW_DROPPED.labels("LATE").inc()

    def _take(self) -> _Waiting:
        """Remove the request that has waited longest, and return it."""
        waiting = self._waiting.popleft()
        self._waiting_bytes -= waiting.size
        return waiting

    async def _answer(self, waiting: _Waiting) -> None:
        """Answer a request in a task of its own, which can be cancelled without the worker.

        Raises:
            RoundTooLong: When it goes on long after its envelope.
            Exception: Whatever a bug raises.
        """
        within_s = self._held().timeout_ms / 1000 + self._options.spare_s
        context = copy_context()
        context.run(CALLER_KEY.set, waiting.origin.key_name)
        task = asyncio.create_task(self._all_events(waiting), context=context)
        self._under_way.add(task)
        try:
            _, hanging = await asyncio.wait({task}, timeout=within_s)
        finally:
            self._under_way.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCELLED_WITHIN_S)
        if hanging:
            raise RoundTooLong(f"a shadow run took longer than {within_s:g} s, and probably hangs")
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _all_events(self, waiting: _Waiting) -> None:
        served = waiting.origin.served
        try:
            async with aclosing(answer(waiting.request, context=self._context, origin=waiting.origin)) as events:
                async for _ in events:
                    pass
        except MetacogError as error:
            if error.reason in OVERLOAD_REASONS:
                self._pause()
            if "run_id" not in error.metadata:  # it failed before there was a run to record
                SHADOW_DROPPED.labels(error.reason).inc()
            _log.info("a shadow run has no answer", shadow_of=served.run_id if served else "", reason=error.reason)
