"""The outbox delivers what feedback teaches to its receivers, also when they are away for a while or this process ends.

Messages are rows of a table, written together with the feedback. A worker takes those that are due, delivers them, and
records the results: delivered; due again after a pause; or parked with the reason, where the receiver will never accept
the message. A message may be delivered twice, when a process ends between delivery and its record, so receivers must
recognize a repetition.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from chassis.errors import PeerUnavailable
from chassis.log import logger
from chassis.worker import BackgroundWorker, RoundTooLong, round_within, wait_within
from kernel.errors import InternalError, MetacogError
from kernel.values import value
from services.router.core.retries import FIRST_S, MOST_S, is_final, pause_s
from services.router.metrics import OUTBOX_DELIVERED, OUTBOX_FAILED, OUTBOX_PARKED, OUTBOX_PENDING

BATCH = 32
POLL_S = 5.0
# A message that was taken is due again after this time, if no result was recorded [s].
LEASE_S = 60.0
# Time that a receiver gets [s]; well under the lease.
DELIVER_WITHIN_S = 20.0
# Time that a batch may take before it counts as hung [s].
ROUND_WITHIN_S = 180.0
# Time that the current batch gets when the process ends [s]; the next process delivers again what has no result.
CLOSE_WITHIN_S = 5.0
# Age of the oldest message from which readiness reports it [s].
LATE_S = 300.0


Receiver = Callable[[Mapping[str, Any]], Awaitable[object]]

_log = logger(__name__)


@value
class OutboxMessage:
    """This message is due.

    Attributes:
        id: Its number.
        kind: Its receiver.
        run_id: The run it is about.
        payload: What the receiver gets.
        attempts: Deliveries tried, this one included [count, >= 1].
    """

    id: int
    kind: str
    run_id: str
    payload: Mapping[str, Any]
    attempts: int


@value
class DeliveryResult:
    """This value is the result of one delivery; with neither a pause nor `parked` the message was accepted.

    Attributes:
        id: Number of the message.
        pause_s: Time until the next delivery [s]; None when there is none.
        parked: Whether the receiver will never accept it.
        error: What went wrong; empty when nothing did.
    """

    id: int
    pause_s: float | None = None
    parked: bool = False
    error: str = ""


@value
class OutboxBacklog:
    """The backlog is the messages that wait.

    Attributes:
        count: Messages [count].
        oldest: When the oldest of them was written; None when there is none.
    """

    count: int
    oldest: datetime | None


class OutboxStore(Protocol):
    """This store holds messages. Every method may raise `DatabaseUnavailable`."""

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        """Return messages that are due, longest due first; no other replica gets them while the lease lasts."""

    async def record(self, results: Sequence[DeliveryResult]) -> None:
        """Record the results of deliveries."""

    async def backlog(self, kinds: Sequence[str]) -> OutboxBacklog:
        """Return the messages that wait."""


class Outbox:
    """The outbox delivers messages to their receivers.

    Args:
        store: Where messages wait.
        receivers: Receivers by kind; a message of another kind waits for a process that has its receiver.
        poll_s: Time between two looks at what is due [s].
        first_pause_s: Time before the second delivery of a message [s]; it doubles up to five minutes.
        late_s: Age of the oldest message from which readiness reports it [s].
        close_within_s: Time that the current batch gets at the end [s].
        round_within_s: Time that a batch may take before it counts as hung [s].
    """

    def __init__(  # noqa: PLR0913 - most are times that tests or operators set
        self,
        store: OutboxStore,
        receivers: Mapping[str, Receiver],
        *,
        poll_s: float = POLL_S,
        first_pause_s: float = FIRST_S,
        late_s: float = LATE_S,
        close_within_s: float = CLOSE_WITHIN_S,
        round_within_s: float = ROUND_WITHIN_S,
    ) -> None:
        self._store = store
        self._receivers = receivers
        self._kinds = sorted(receivers)
        self._poll_s = poll_s
        self._first_pause_s = first_pause_s
        self._late_s = late_s
        self._close_within_s = close_within_s
        self._round_within_s = round_within_s
        self._chance = random.Random()
        self._due = asyncio.Event()
        self._due.set()
        self._is_away = False
        self._worker = BackgroundWorker("outbox", self._run_round)

    def start(self) -> None:
        """Begin to deliver, first what an earlier process left."""
        self._worker.start()

    def wake(self) -> None:
        """Report that there is a new message; never waits."""
        self._due.set()

    async def check(self) -> None:
        """Return while no message waits for long.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
            DatabaseUnavailable: When the database is away.
            PeerUnavailable: When messages wait for long.
        """
        await self._worker.check()
        backlog = await self._store.backlog(self._kinds)
        OUTBOX_PENDING.set(backlog.count)
        if backlog.oldest is None:
            return
        age_s = (datetime.now(UTC) - backlog.oldest).total_seconds()
        if age_s > self._late_s:
            raise PeerUnavailable(f"{backlog.count} messages of feedback wait, the oldest for {age_s / 60:.0f} minutes")

    async def close(self) -> None:
        """Give the current batch a little time, and stop; what is left waits for the next process."""
        self._due.set()
        await self._worker.close(within_s=self._close_within_s)

    async def _run_round(self, stop: asyncio.Event) -> None:
        """Deliver one batch, as soon as a message may be due."""
        await wait_within(self._due, self._poll_s)
        self._due.clear()
        if stop.is_set():
            return
        try:
            async with round_within(self._round_within_s):
                taken = await self._deliver_batch()
        except RoundTooLong:
            raise
        except MetacogError as error:
            if not self._is_away:
                _log.warning("the outbox waits", problem=error.message)
            self._is_away = True
        else:
            self._is_away = False
            if taken == BATCH:
                self._due.set()

    async def _deliver_batch(self) -> int:
        """Deliver what is due, and record the results; return how many messages were due.

        Raises:
            ExceptionGroup: When receivers have bugs; the results are recorded first, so that no other message waits.
        """
        messages = await self._store.take(self._kinds, most=BATCH, lease_s=LEASE_S)
        results: list[DeliveryResult] = []
        bugs = await _errors_of([self._deliver(message, results) for message in messages])
        if results:
            await self._store.record(results)
        OUTBOX_PENDING.set((await self._store.backlog(self._kinds)).count)
        if bugs:
            raise ExceptionGroup("receivers of feedback failed", bugs)
        return len(messages)

    async def _deliver(self, message: OutboxMessage, results: list[DeliveryResult]) -> None:
        """Deliver a message and add the result.

        Raises:
            Exception: Whatever a bug of the receiver raises, after its result is added.
        """
        try:
            async with asyncio.timeout(DELIVER_WITHIN_S):
                await self._receivers[message.kind](message.payload)
        except TimeoutError:
            late = PeerUnavailable(f"{message.kind} took longer than {DELIVER_WITHIN_S:g} s")
            results.append(self._failed(message, late))
        except MetacogError as error:
            results.append(self._failed(message, error))
        except Exception:
            results.append(self._failed(message, InternalError()))
            raise
        else:
            OUTBOX_DELIVERED.labels(message.kind).inc()
            results.append(DeliveryResult(id=message.id))

    def _failed(self, message: OutboxMessage, error: MetacogError) -> DeliveryResult:
        text = f"{error.reason}: {error.message}"
        facts = {"id": message.id, "kind": message.kind, "run_id": message.run_id, "problem": text}
        if is_final(error.code, message.attempts):
            OUTBOX_PARKED.labels(message.kind, error.reason).inc()
            _log.error("feedback cannot be delivered", **facts)
            return DeliveryResult(id=message.id, parked=True, error=text)
        OUTBOX_FAILED.labels(message.kind, error.reason).inc()
        if message.attempts == 1:
            _log.info("feedback is delivered later", **facts)
        pause = pause_s(message.attempts, self._chance.random(), first_s=self._first_pause_s, most_s=MOST_S)
        return DeliveryResult(id=message.id, pause_s=pause, error=text)


async def _errors_of(deliveries: Sequence[Coroutine[None, None, None]]) -> Sequence[Exception]:
    """Return what deliveries raise, once all have ended; unlike in a task group, an error of one ends no other."""
    tasks = {asyncio.create_task(delivery) for delivery in deliveries}
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    errors = [task.exception() for task in tasks if not task.cancelled()]
    return [error for error in errors if isinstance(error, Exception)]
