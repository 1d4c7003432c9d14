"""The journal records entries, such as runs, without delaying an answer and without losing one.

Entries wait in memory in a queue that is bounded by number and by bytes, and are written in batches. A batch that the
database does not take in time goes to a bounded file on disk with everything behind it, and so do all later entries
until the file is empty again: a second worker writes it back, in order, as soon as the database answers. So no entry is
in memory alone for much longer than `write_within_s`, even while the database hangs. A queue that is half full goes to
the file at once, whatever the workers do, and answers wait a little for that. A durable journal writes every entry to
the file first, many at once, and `settle` waits for that. All writing is done in a thread. Entries for which even the
file has no room, or which come faster than the disk takes them, are counted and logged as errors.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import orjson

from chassis.clock import seconds_within_request
from chassis.errors import ConfigurationInvalid, DatabaseUnavailable
from chassis.journal.disk import WITHIN_S, Disk
from chassis.journal.document_queue import DocumentQueue
from chassis.journal.metrics import (
    JOURNAL_LOST,
    JOURNAL_QUEUED,
    JOURNAL_QUEUED_BYTES,
    JOURNAL_SPOOLED,
    JOURNAL_UNSETTLED,
)
from chassis.journal.rejected import RejectedDocuments
from chassis.journal.spool import is_whole
from chassis.json_text import dumps
from chassis.log import logger
from chassis.recent import Name, RecentDocuments
from chassis.serving.stored import from_stored
from chassis.worker import BackgroundWorker, RoundTooLong, round_within, wait_within

# Entries that one statement stores, and their size, unless one alone is larger [count, bytes].
BATCH, BATCH_BYTES = 200, 8 * 1024 * 1024
# Size of the entries that wait in memory, and of those held to recognise repeated requests [bytes].
QUEUE_BYTES, RECENT_BYTES = 64 * 1024 * 1024, 64 * 1024 * 1024
RETRY_S = 2.0
# Entries that end within this time are written together: a statement costs far more than a row [s].
GATHER_S = 0.05
# Time that the store gets for a batch before it goes to disk [s].
WRITE_WITHIN_S = 2.0
# Time that the store gets for lines from disk before it counts as hung [s].
WRITE_BACK_WITHIN_S = 90.0
# Time for which an answer waits until its entry is durable [s].
SETTLE_WITHIN_S = 2.0
# Time for which an answer waits while the disk makes room in a queue that is half full [s].
ROOM_WITHIN_S = 0.5
# Age of the oldest entry in memory alone from which readiness reports it, and of the oldest on disk while it is written
# back by a durable journal [s].
LATE_S = 1.0
# Time in which the queue is written to the store when the process ends [s]; what is left then goes to disk.
CLOSE_WITHIN_S = 5.0
FULL = "the spool is full"
SLOW = "the disk is too slow"


T = TypeVar("T")

_log = logger(__name__)


class DocumentStore(Protocol):
    """This store holds documents."""

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store documents, given as JSON; those that are stored already stay as they are.

        Returns:
            The documents that can never be stored.

        Raises:
            DatabaseUnavailable: When they cannot be stored now.
        """


class Journal(Generic[T]):
    """The journal records entries of one type.

    Args:
        store: Where they are stored.
        spool: File in which they wait while the store is away.
        kind: Their type.
        name: What they are, for logs, such as `runs`.
        request_of: Names the key and the request that an entry answered, by which a repetition is recognised; None for
            one without.
        max_queue: Entries that may wait in memory [count]; from half of it on they go to disk at once.
        max_queue_bytes: Their size [bytes]; two batches of `BATCH_BYTES`, or of one larger entry, may be on their way
            beside them: one to the store and one to disk.
        max_recent_bytes: Size of the last entries with a request identifier, which are held to recognise repetitions
            [bytes].
        max_spool_bytes: Size of the file [bytes].
        retry_s: Time between attempts to reach the store again [s].
        write_within_s: Time that the store gets for a batch before it goes to disk [s].
        write_back_within_s: Time that it gets for lines from disk before they are tried again [s].
        disk_within_s: Time that the disk gets for a batch before it counts as hung [s].
        durable: Whether entries are on disk before their answers end.
        redact: Removes what is not to be stored of an entry, and so never leaves memory; None: all is stored.

    Attributes:
        rejected: What the store will never accept.
    """

    def __init__(  # noqa: PLR0913 - each is a size or a time that tests or operators set
        self,
        store: DocumentStore,
        spool: Path,
        *,
        kind: type[T],
        name: str,
        request_of: Callable[[T], Name | None] = lambda _: None,
        max_queue: int = 10_000,
        max_queue_bytes: int = QUEUE_BYTES,
        max_recent_bytes: int = RECENT_BYTES,
        max_spool_bytes: int = 256 * 1024 * 1024,
        retry_s: float = RETRY_S,
        write_within_s: float = WRITE_WITHIN_S,
        write_back_within_s: float = WRITE_BACK_WITHIN_S,
        disk_within_s: float = WITHIN_S,
        durable: bool = False,
        redact: Callable[[T], T] | None = None,
    ) -> None:
        self._store = store
        self._kind, self._name, self._request_of = kind, name, request_of
        self._disk = Disk(spool, max_spool_bytes, disk_within_s)
        self.rejected = RejectedDocuments(spool, name)
        # One batch goes to disk at a time, so that what fails is back in its place before the next one leaves.
        self._spooling = asyncio.Lock()
        self._overflow: asyncio.Task[None] | None = None
        self._retry_s = retry_s
        self._write_within_s, self._write_back_within_s = write_within_s, write_back_within_s
        self._durable, self._redact = durable, redact
        self._queue = DocumentQueue(max_queue, max_queue_bytes)
        self._wake = asyncio.Event()
        self._write_now = asyncio.Event()
        self._on_disk = asyncio.Event()
        self._closing = asyncio.Event()
        self._recent = RecentDocuments(max_recent_bytes)
        self._recorded, self._dequeued, self._stored = 0, 0, 0
        self._progress = asyncio.Event()
        self._written_back_at = time.monotonic()
        # Number and time of some of the entries in memory, in their order: enough to know how old the oldest is.
        self._marks: deque[tuple[int, float]] = deque()
        self._store_problem = ""
        self._disk_problem = ""
        self._retry_at, self._overflow_at = 0.0, 0.0
        self._lines_at_once = BATCH
        self._write_worker = BackgroundWorker("journal", self._write_round, first_pause_s=0.05)
        self._write_back_worker = BackgroundWorker("journal-disk", self._write_back_round, first_pause_s=0.05)

    def start(self) -> None:
        """Begin to write, first what an earlier process left on disk.

        Raises:
            ConfigurationInvalid: When the folder for what waits on disk cannot be made.
        """
        folder = self._disk.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationInvalid(
                f"{folder}, where {self._name} wait while the database is away, cannot be made: {error.strerror};"
                " let METACOG_HOME name a folder that can be written",
                setting="METACOG_HOME",
            ) from error
        self._write_worker.start()
        self._write_back_worker.start()

    def record(self, entry: T) -> None:
        """Queue `entry`; never waits."""
        request = self._request_of(entry)
        whole = dumps(entry) if self._redact is None or request else b""
        self._queue.append(whole if self._redact is None else dumps(self._redact(entry)))
        self._recorded += 1
        now = time.monotonic()
        if not self._marks or now - self._marks[-1][1] > GATHER_S:
            self._marks.append((self._recorded, now))
        if request:
            self._recent.add(request, whole, self._recorded)
        if self._queue.is_filling:
            self._begin_overflow()
        if self._queue.is_over:
            self._drop(self._queue.drop_oldest(), self._disk_problem or SLOW)
        if self._has_batch():
            self._write_now.set()
        self._report_queue()
        self._wake.set()

    async def settle(self) -> None:
        """Return when a durable journal has everything recorded before now on disk, or in the store.

        One that cannot do so in `SETTLE_WITHIN_S` counts the entry, and lets its answer end. Another journal returns at
        once, or when the disk has made room in a queue that is half full, within `ROOM_WITHIN_S`.
        """
        if not self._durable:
            if self._overflow is not None and not self._overflow.done():
                await asyncio.wait({self._overflow}, timeout=seconds_within_request(ROOM_WITHIN_S))
            return
        recorded = self._recorded
        if not await self._wait_until(lambda: self._dequeued >= recorded, seconds_within_request(SETTLE_WITHIN_S)):
            JOURNAL_UNSETTLED.inc()

    def recent(self, key_name: str, request_id: str) -> T | None:
        """Return the entry that answered a request of a key, if it is among the last ones."""
        document = self._recent.find((key_name, request_id))
        if document is None:
            return None
        return from_stored(orjson.loads(document), self._kind, record=self._kind.__name__.lower(), record_id=request_id)

    def forget(self, key_name: str, request_id: str) -> None:
        """Hold the entry that answered a request of a key no longer, so that a repetition is answered anew."""
        self._recent.drop((key_name, request_id))

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded before now is in the store; return whether it is.

        Args:
            timeout_s: Time to wait at most [s].
        """
        recorded = self._recorded
        self._write_now.set()
        return await self._wait_until(lambda: self._dequeued >= recorded and not self._disk.size(), timeout_s)

    async def check(self) -> None:
        """Return while entries reach the store in time.

        Raises:
            WorkerFailing: While a worker fails, or before `start`.
            DatabaseUnavailable: While entries wait on disk, or have waited in memory for longer than `LATE_S`.
        """
        await self._write_worker.check()
        await self._write_back_worker.check()
        age_s = self._age_s()
        found = [f"the oldest of the {self._name} in memory has waited for {age_s:.1f} s"] if age_s > LATE_S else []
        if self._is_late_on_disk():
            found += [f"{self._disk.size()} bytes of {self._name} wait on disk", self._problem or "being written back"]
        if found:
            raise DatabaseUnavailable("; ".join(found))

    def is_behind(self) -> bool:
        """Return whether there may be entries that are neither held as `recent` nor known to the store.

        Those are entries that wait on disk for longer than they should, and entries in memory that `recent` had no room
        for.
        """
        return self._recent.last_dropped > self._count_stored() or self._is_late_on_disk()

    def _is_late_on_disk(self) -> bool:
        """Return whether entries wait on disk for longer than they should."""
        if self._problem:
            return True
        is_late = not self._durable or time.monotonic() - self._written_back_at > LATE_S
        return bool(self._disk.size()) and is_late

    async def close(self, *, within_s: float = CLOSE_WITHIN_S) -> None:
        """Write the queue to the store, or to disk where the store is away or slow, and stop.

        Args:
            within_s: Time that the store gets [s].
        """
        if not self._closing.is_set():
            self._closing.set()
            for event in (self._write_now, self._wake, self._on_disk):
                event.set()
            await self._wait_until(lambda: self._dequeued >= self._recorded, within_s)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write_worker.close(within_s=within_s))
                group.create_task(self._write_back_worker.close(within_s=within_s))
        if self._overflow is not None:
            await asyncio.wait({self._overflow})
        if self._queue:
            await self._spool_or_drop()

    @property
    def _problem(self) -> str:
        return "; ".join(filter(None, (self._store_problem, self._disk_problem)))

    def _age_s(self) -> float:
        """Return the age of the oldest entry that is in memory alone [s, >= 0]."""
        return time.monotonic() - self._marks[0][1] if self._marks else 0.0

    async def _wait_until(self, is_true: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds that only changes when entries leave memory or the disk."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_true():
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    def _begin_overflow(self) -> None:
        """Move the queue to disk, unless that is under way, or has just failed; never waits."""
        is_under_way = self._overflow is not None and not self._overflow.done()
        if not is_under_way and time.monotonic() >= self._overflow_at:
            self._overflow = asyncio.create_task(self._move_to_disk(), name="journal-overflow")

    async def _move_to_disk(self) -> None:
        """Move the queue to disk until less than half of what it may hold is left."""
        try:
            while self._queue.is_filling:
                await self._spool_queue()
        except OSError as error:
            self._disk_problem = f"the spool cannot be used: {error}"
            self._overflow_at = time.monotonic() + self._retry_s

    async def _spool_or_drop(self) -> None:
        """Put all that waits on disk at the end, and count what the disk does not take."""
        try:
            await self._spool_queue(most_bytes=inf)
        except OSError as error:
            self._drop(len(self._queue.take_all()), str(error))

    def _drop(self, count: int, problem: str) -> None:
        """Count entries that were dropped from the queue."""
        self._count_lost(count, problem)
        self._count_dequeued(count)

    def _count_dequeued(self, count: int) -> None:
        """Count entries that left memory, in their order, and wake those who wait for that."""
        self._dequeued += count
        while self._marks and self._marks[0][0] <= self._dequeued:
            self._marks.popleft()
        if self._queue and not self._marks:
            self._marks.append((self._recorded, time.monotonic()))
        self._notify()

    def _has_batch(self) -> bool:
        """Return whether as much waits as one statement stores."""
        return len(self._queue) >= BATCH or self._queue.size_bytes >= BATCH_BYTES

    def _report_queue(self) -> None:
        JOURNAL_QUEUED.set(len(self._queue))
        JOURNAL_QUEUED_BYTES.set(self._queue.size_bytes)

    def _count_stored(self) -> int:
        """Return how many entries, in their order, have certainly reached the store, or never will."""
        if not self._disk.size():
            self._stored = self._dequeued
        return self._stored

    def _notify(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    async def _write_round(self, stop: asyncio.Event) -> None:
        """Wait for entries, and write them to the store or to disk; at the end, until the queue is empty."""
        if not self._queue:
            if self._closing.is_set():
                await stop.wait()
                return
            await self._wake.wait()
            self._wake.clear()
            if not self._queue:
                return
        if not self._has_batch() and not self._durable:
            await wait_within(self._write_now, GATHER_S)
        self._write_now.clear()
        if self._durable or self._store_problem or (self._disk.size() and not self._disk_problem):
            try:
                await self._spool_queue()
            except OSError as error:
                self._disk_problem = f"the spool cannot be used: {error}"
            else:
                return
        await self._store_batch()

    async def _store_batch(self) -> None:
        """Write one batch to the store; what it does not take in time goes to disk, with all that waits.

        Raises:
            Exception: Whatever a bug raises, after the batch is safe on disk or back in the queue.
        """
        batch = self._queue.take(most_bytes=BATCH_BYTES, most=BATCH)
        self._report_queue()
        try:
            async with asyncio.timeout(self._write_within_s):
                await self._store_documents(batch)
        except asyncio.CancelledError:
            self._queue.put_back(batch)
            raise
        except TimeoutError:
            await self._spool_all(batch, f"no answer within {self._write_within_s:g} s")
        except DatabaseUnavailable as error:
            await self._spool_all(batch, error.message)
        except Exception as error:
            await self._spool_all(batch, f"{type(error).__name__} while writing")
            raise
        else:
            self._count_dequeued(len(batch))
            self._store_problem = ""
            if not self._disk.size():
                self._disk_problem = ""

    async def _spool_all(self, batch: list[bytes], problem: str) -> None:
        """Put the batch and the queue on disk, or back into the queue for a while where even that fails."""
        if not self._store_problem:
            _log.warning(f"{self._name} wait", spool=str(self._disk.path), problem=problem)
        self._store_problem = problem
        self._retry_at = time.monotonic() + self._retry_s
        self._queue.put_back(batch)
        try:
            await self._spool_queue()
        except OSError as error:
            self._disk_problem = f"the spool cannot be used: {error}"
            if self._closing.is_set():
                self._drop(len(self._queue.take_all()), str(error))
            else:
                await wait_within(self._closing, self._retry_s)
                self._wake.set()

    async def _spool_queue(self, *, most_bytes: float = BATCH_BYTES) -> None:
        """Put the first entries of the queue on disk; where that fails or is cut short they stay in memory too.

        Args:
            most_bytes: Their size in all, unless the first one alone is larger [bytes].

        Raises:
            OSError: When the disk fails, or the file has no room for all.
        """
        async with self._spooling:
            batch = self._queue.take(most_bytes=most_bytes)
            if not batch:
                return
            try:
                left = await self._disk.put(batch)
            except BaseException:
                self._queue.put_back(batch)
                raise
            self._queue.put_back(left)
        JOURNAL_SPOOLED.set(self._disk.size())
        self._report_queue()
        self._on_disk.set()
        self._count_dequeued(len(batch) - len(left))
        if left:
            raise OSError(FULL)

    async def _store_documents(self, documents: Sequence[bytes], torn: Sequence[bytes] = ()) -> None:
        """Write to the store; documents that it will never accept are set aside in files of their own, and logged."""
        rejected = [*torn, *(await self._store.add(documents) if documents else ())]
        if rejected:
            await self._disk.run(self.rejected.keep, rejected)

    async def _store_lines(self, lines: Sequence[bytes]) -> int:
        """Write lines from disk, where a crash may have torn one, to the store; return how many they are."""
        whole = {line: is_whole(line) for line in lines}
        await self._store_documents(
            [line for line in lines if whole[line]], [line for line in lines if not whole[line]]
        )
        return len(lines)

    async def _write_back_round(self, stop: asyncio.Event) -> None:
        """Wait for entries on disk, and write them to the store; after a failure, not before `retry_s`."""
        if self._closing.is_set():
            await stop.wait()
            return
        if not self._disk.size():
            self._stored = self._dequeued
            self._written_back_at = time.monotonic()
            self._disk_problem = ""
            await self._on_disk.wait()
            self._written_back_at = time.monotonic()
        self._on_disk.clear()
        await wait_within(self._closing, max(0.0, self._retry_at - time.monotonic()))
        if self._closing.is_set():
            return
        try:
            await self._write_back()
        except (DatabaseUnavailable, RoundTooLong) as error:
            self._store_problem = error.message
            self._lines_at_once = max(1, self._lines_at_once // 2)
        except OSError as error:
            self._disk_problem = f"the spool cannot be used: {error}"
            _log.error("the spool cannot be used", spool=str(self._disk.path), problem=str(error))
        else:
            self._disk_problem = ""
            return
        self._retry_at = time.monotonic() + self._retry_s

    async def _write_back(self) -> None:
        """Write what waits on disk to the store, in order.

        Raises:
            DatabaseUnavailable, RoundTooLong: When the store does not take it; what it took before has left the disk.
            OSError: When the disk fails.
        """
        written = 0
        while self._disk.size() and not self._closing.is_set():
            waiting = await self._disk.read()
            while waiting:
                lines, waiting = waiting[: self._lines_at_once], waiting[self._lines_at_once :]
                async with round_within(self._write_back_within_s):
                    written += await self._store_lines([line.rstrip() for line in lines if line.strip()])
                await self._disk.drop(sum(map(len, lines)))
                self._lines_at_once = min(BATCH, 2 * self._lines_at_once)
                self._written_back_at = time.monotonic()
                self._store_problem = ""
                self._notify()
            JOURNAL_SPOOLED.set(self._disk.size())
        self._wake.set()  # a round of the writer may return
        if written and not self._durable:
            _log.info(f"{self._name} written back", count=written)

    def _count_lost(self, count: int, problem: str) -> None:
        if count:
            JOURNAL_LOST.inc(count)
            _log.error(f"{self._name} were lost", count=count, problem=problem)
