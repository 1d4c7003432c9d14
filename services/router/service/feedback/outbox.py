"""What feedback teaches reaches those who learn, sooner or later, even if they are away or this process ends.

Messages stand in a table, written together with the verdict. A worker takes what is due, tells it, and notes how it
went: done; to be told again after a pause; or parked with the reason, where the receiver will never take it. A message
may be told twice, when a process ends between telling and noting, so receivers must take a repetition for one.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from prometheus_client import Counter, Gauge

from chassis.errors import DatabaseUnavailable, PeerUnavailable
from chassis.log import logger
from kernel.errors import Bug, MetacogError
from kernel.values import value
from services.router.core.retries import FIRST_S, MOST_S, is_final, pause_s

BATCH = 32
POLL_S = 5.0
# A message that was taken is offered again after this time, if nobody has noted how it went [s].
LEASE_S = 60.0
# A receiver gets this long [s]; well under the lease.
TOLD_WITHIN_S = 20.0
# At the end of a process, what is being told gets this long [s]; what is not noted then is told again by the next one.
LEAVES_WITHIN_S = 5.0
# The oldest message may wait this long before readiness speaks of it [s].
LATE_S = 300.0

PENDING = Gauge("metacog_outbox_pending", "Messages of feedback waiting to be told.")
DELIVERED = Counter("metacog_outbox_delivered_total", "Messages of feedback told.", ["kind"])
FAILED = Counter("metacog_outbox_failed_total", "Attempts to tell that failed and are made again.", ["kind", "reason"])
PARKED = Counter("metacog_outbox_parked_total", "Messages of feedback that nobody will take.", ["kind", "reason"])

Receiver = Callable[[Mapping[str, Any]], Awaitable[object]]

_log = logger(__name__)


@value
class OutboxMessage:
    """A message that is due.

    Attributes:
        id: Its number.
        kind: Who it is for.
        run_id: The run it is about.
        payload: What is told.
        attempts: Attempts, this one included [count, >= 1].
    """

    id: int
    kind: str
    run_id: str
    payload: Mapping[str, Any]
    attempts: int


@value
class DeliveryResult:
    """How telling a message went; neither a pause nor parked: it was taken.

    Attributes:
        id: Number of the message.
        pause_s: Time until it is told again [s]; None if it is not.
        parked: Whether nobody will ever take it.
        error: What went wrong; empty when nothing did.
    """

    id: int
    pause_s: float | None = None
    parked: bool = False
    error: str = ""


@value
class OutboxBacklog:
    """What waits.

    Attributes:
        count: Messages [count].
        oldest: When the oldest of them was written; None when there is none.
    """

    count: int
    oldest: datetime | None


class OutboxStore(Protocol):
    """Where messages wait. Every method may raise `DatabaseUnavailable`."""

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        """Messages that are due, oldest attempt first; nobody else gets them while the lease lasts."""

    async def note(self, told: Sequence[DeliveryResult]) -> None:
        """Remember how telling them went."""

    async def waiting(self, kinds: Sequence[str]) -> OutboxBacklog:
        """What waits to be told."""


class Outbox:
    """Tells those who learn.

    Args:
        store: Where messages wait.
        receivers: Who is told, by kind; a message of another kind waits for a process that knows whom to tell.
        poll_s: Time between two looks at what is due [s].
        first_pause_s: Time before a message is told again [s]; it doubles up to five minutes.
        late_s: Age of the oldest message from which readiness speaks of it [s].
        leaves_within_s: Time that what is being told gets at the end [s].
    """

    def __init__(
        self,
        store: OutboxStore,
        receivers: Mapping[str, Receiver],
        *,
        poll_s: float = POLL_S,
        first_pause_s: float = FIRST_S,
        late_s: float = LATE_S,
        leaves_within_s: float = LEAVES_WITHIN_S,
    ) -> None:
        self._store = store
        self._receivers = receivers
        self._kinds = sorted(receivers)
        self._poll_s = poll_s
        self._first_pause_s = first_pause_s
        self._late_s = late_s
        self._leaves_within_s = leaves_within_s
        self._chance = random.Random()
        self._due = asyncio.Event()
        self._stop = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._away = False

    def start(self) -> None:
        """Begin to tell, what an earlier process left first."""
        self._worker = asyncio.create_task(self._work())

    def wake(self) -> None:
        """There is something new to tell."""
        self._due.set()

    async def check(self) -> None:
        """Return if nothing waits for long.

        Raises:
            DatabaseUnavailable: When the database is away, or nobody tells.
            PeerUnavailable: When messages wait for long.
        """
        if self._worker is not None and self._worker.done() and not self._stop.is_set():
            raise DatabaseUnavailable("the outbox's worker has ended; see the log")
        waiting = await self._store.waiting(self._kinds)
        PENDING.set(waiting.count)
        if waiting.oldest is None:
            return
        age_s = (datetime.now(UTC) - waiting.oldest).total_seconds()
        if age_s > self._late_s:
            raise PeerUnavailable(f"{waiting.count} messages of feedback wait, the oldest for {age_s / 60:.0f} minutes")

    async def close(self) -> None:
        """Give the batch that is being told a little time, and stop; what is left waits for the next process."""
        self._stop.set()
        self._due.set()
        if self._worker is None:
            return
        await asyncio.wait({self._worker}, timeout=self._leaves_within_s)
        self._worker.cancel()
        await asyncio.wait({self._worker})

    async def _work(self) -> None:
        while not self._stop.is_set():
            try:
                told = await self._tell_batch()
                self._away = False
            except MetacogError as refusal:
                told = 0
                if not self._away:
                    _log.warning("the outbox waits", problem=refusal.message)
                self._away = True
            except Exception as error:  # noqa: BLE001 - whatever happens to one batch, the worker goes on
                told = 0
                _log.error("the outbox stumbled", exc_info=error)
            if told < BATCH:
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._due.wait()
        except TimeoutError:
            return
        self._due.clear()

    async def _tell_batch(self) -> int:
        """Tell what is due, and note how it went; returns how many were due."""
        letters = await self._store.take(self._kinds, most=BATCH, lease_s=LEASE_S)
        told: list[DeliveryResult] = []
        async with asyncio.TaskGroup() as group:
            for letter in letters:
                group.create_task(self._tell(letter, told))
        if told:
            await self._store.note(told)
        PENDING.set((await self._store.waiting(self._kinds)).count)
        return len(letters)

    async def _tell(self, letter: OutboxMessage, told: list[DeliveryResult]) -> None:
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                await self._receivers[letter.kind](letter.payload)
        except TimeoutError:
            late = PeerUnavailable(f"{letter.kind} took longer than {TOLD_WITHIN_S:g} s")
            told.append(self._failed(letter, late))
        except MetacogError as refusal:
            told.append(self._failed(letter, refusal))
        except Exception as error:  # noqa: BLE001 - a bug in one receiver holds up no other
            _log.error("a receiver of feedback stumbled", kind=letter.kind, exc_info=error)
            told.append(self._failed(letter, Bug()))
        else:
            DELIVERED.labels(letter.kind).inc()
            told.append(DeliveryResult(id=letter.id))

    def _failed(self, letter: OutboxMessage, refusal: MetacogError) -> DeliveryResult:
        error = f"{refusal.reason}: {refusal.message}"
        if is_final(refusal.code, letter.attempts):
            PARKED.labels(letter.kind, refusal.reason).inc()
            _log.error("feedback cannot be told", id=letter.id, kind=letter.kind, run_id=letter.run_id, problem=error)
            return DeliveryResult(id=letter.id, parked=True, error=error)
        FAILED.labels(letter.kind, refusal.reason).inc()
        if letter.attempts == 1:
            _log.info("feedback is told later", id=letter.id, kind=letter.kind, run_id=letter.run_id, problem=error)
        pause = pause_s(letter.attempts, self._chance.random(), first_s=self._first_pause_s, most_s=MOST_S)
        return DeliveryResult(id=letter.id, pause_s=pause, error=error)
