"""The journal records runs without delaying an answer and without losing one.

Runs wait in memory in a queue that is bounded by number and by bytes, and are written in batches. A batch that the
database does not take in time goes to a bounded file on disk with everything behind it, and so do all later runs until
the file is empty again: a second worker writes it back, in order, as soon as the database answers. So no run is in
memory alone for much longer than `write_within_s`, even while the database hangs. A durable journal writes every run
to the file first, many at once, and `settle` waits for that. Runs for which even the file has no room are counted and
logged as errors.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

import orjson

from chassis.clock import seconds_within_request
from chassis.errors import DatabaseUnavailable
from chassis.json_text import dumps
from chassis.log import logger
from chassis.worker import BackgroundWorker
from services.router.metrics import (
    JOURNAL_LOST,
    JOURNAL_QUEUED,
    JOURNAL_QUEUED_BYTES,
    JOURNAL_SPOOLED,
    JOURNAL_UNSETTLED,
)
from services.router.service.runs.recent import RecentRuns
from services.router.service.runs.rejected import RejectedRuns
from services.router.service.runs.run_queue import RunQueue
from services.router.service.runs.spool import Spool
from services.router.service.runs.values import Run
from services.router.service.timeouts import wait_within

P = ParamSpec("P")
T = TypeVar("T")

# Runs that one statement stores, and their size, unless one alone is larger [count, bytes].
BATCH, BATCH_BYTES = 200, 8 * 1024 * 1024
# Size of the runs that wait in memory, and of those held to recognise repeated requests [bytes].
QUEUE_BYTES, RECENT_BYTES = 64 * 1024 * 1024, 64 * 1024 * 1024
RETRY_S = 2.0
# Runs that end within this time are written together: a statement costs far more than a row [s].
GATHER_S = 0.05
# Time that the store gets for a batch before it goes to disk [s].
WRITE_WITHIN_S = 2.0
# Time for which an answer waits until its run is durable [s].
SETTLE_WITHIN_S = 2.0
# Age of the oldest run in memory alone from which readiness reports it, and of the oldest on disk while it is written
# back by a durable journal [s].
LATE_S = 1.0
# Time in which the queue is written to the store when the process ends [s]; what is left then goes to disk.
CLOSE_WITHIN_S = 5.0
FULL = "the spool is full"


_log = logger(__name__)


class RunStore(Protocol):
    """This store holds runs."""

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store runs, given as JSON; those that are stored already stay as they are.

        Returns:
            The documents that can never be stored.

        Raises:
            DatabaseUnavailable: When they cannot be stored now.
        """


class Journal:
    """The journal records runs.

    Args:
        store: Where they are stored.
        spool: File in which they wait while the store is away.
        max_queue: Runs that may wait in memory [count]; beyond that they go to disk at once.
        max_queue_bytes: Their size [bytes]; one batch of `BATCH_BYTES` may be on its way beside them.
        max_recent_bytes: Size of the last runs with a request identifier, which are held to recognise repetitions
            [bytes].
        max_spool_bytes: Size of the file [bytes].
        retry_s: Time between attempts to reach the store again [s].
        write_within_s: Time that the store gets for a batch before it goes to disk [s].
        durable: Whether runs are on disk before their answers end.
        redact: Removes what is not to be stored of a run, and so never leaves memory; None: all is stored.

    Attributes:
        rejected: What the store will never accept.
    """

    def __init__(  # noqa: PLR0913 - each is a size or a time that tests or operators set
        self,
        store: RunStore,
        spool: Path,
        *,
        max_queue: int = 10_000,
        max_queue_bytes: int = QUEUE_BYTES,
        max_recent_bytes: int = RECENT_BYTES,
        max_spool_bytes: int = 256 * 1024 * 1024,
        retry_s: float = RETRY_S,
        write_within_s: float = WRITE_WITHIN_S,
        durable: bool = False,
        redact: Callable[[Run], Run] | None = None,
    ) -> None:
        self._store = store
        self._spool = Spool(spool, max_spool_bytes)
        self.rejected = RejectedRuns(spool)
        # The disk has a thread of its own: what computes for callers takes none from it.
        self._disk_thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._retry_s = retry_s
        self._write_within_s = write_within_s
        self._durable = durable
        self._redact = redact
        self._queue = RunQueue(max_queue, max_queue_bytes)
        self._wake = asyncio.Event()
        self._write_now = asyncio.Event()
        self._on_disk = asyncio.Event()
        self._closing = asyncio.Event()
        self._recent = RecentRuns(max_recent_bytes)
        self._recorded, self._dequeued, self._stored = 0, 0, 0
        self._progress = asyncio.Event()
        self._written_back_at = time.monotonic()
        # Number and time of some of the runs in memory, in their order: enough to know how old the oldest is.
        self._marks: deque[tuple[int, float]] = deque()
        self._store_problem = ""
        self._disk_problem = ""
        self._retry_at = 0.0
        self._lines_at_once = BATCH
        self._write_worker = BackgroundWorker("journal", self._write_round, first_pause_s=0.05)
        self._write_back_worker = BackgroundWorker("journal-disk", self._write_back_round, first_pause_s=0.05)

    def start(self) -> None:
        """Begin to write, first what an earlier process left on disk."""
        self._spool.path.parent.mkdir(parents=True, exist_ok=True)
        self._write_worker.start()
        self._write_back_worker.start()

    def record(self, run: Run) -> None:
        """Queue `run`; never waits."""
        whole = dumps(run) if self._redact is None or run.request_id else b""
        self._queue.append(whole if self._redact is None else dumps(self._redact(run)))
        self._recorded += 1
        now = time.monotonic()
        if not self._marks or now - self._marks[-1][1] > GATHER_S:
            self._marks.append((self._recorded, now))
        if run.request_id:
            self._recent.add((run.key_name, run.request_id), whole, self._recorded)
        if self._queue.is_over:
            self._overflow()
        if self._has_batch():
            self._write_now.set()
        self._report_queue()
        self._wake.set()

    async def settle(self) -> None:
        """Return when a durable journal has everything recorded before now on disk, or in the store; else at once.

        A journal that cannot do so in `SETTLE_WITHIN_S` counts the run, and lets its answer end.
        """
        if not self._durable:
            return
        recorded = self._recorded
        if not await self._wait_until(lambda: self._dequeued >= recorded, seconds_within_request(SETTLE_WITHIN_S)):
            JOURNAL_UNSETTLED.inc()

    def recent(self, key_name: str, request_id: str) -> Run | None:
        """Return the run that answered a request of a key, if it is among the last ones."""
        return self._recent.find((key_name, request_id))

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded before now is in the store; return whether it is.

        Args:
            timeout_s: Time to wait at most [s].
        """
        recorded = self._recorded
        self._write_now.set()
        return await self._wait_until(lambda: self._dequeued >= recorded and not self._spooled_bytes(), timeout_s)

    async def check(self) -> None:
        """Return while runs reach the store in time.

        Raises:
            WorkerFailing: While a worker fails, or before `start`.
            DatabaseUnavailable: While runs wait on disk, or have waited in memory for longer than `LATE_S`.
        """
        await self._write_worker.check()
        await self._write_back_worker.check()
        age_s = self._age_s()
        found = [f"the oldest run in memory has waited for {age_s:.1f} s"] if age_s > LATE_S else []
        if self._is_late_on_disk():
            found += [f"{self._spooled_bytes()} bytes of runs wait on disk", self._problem or "being written back"]
        if found:
            raise DatabaseUnavailable("; ".join(found))

    def is_behind(self) -> bool:
        """Return whether there may be runs that are neither held as `recent` nor known to the store.

        Those are runs that wait on disk for longer than they should, and runs in memory that `recent` had no room for.
        """
        return self._recent.last_dropped > self._count_stored() or self._is_late_on_disk()

    def _is_late_on_disk(self) -> bool:
        """Return whether runs wait on disk for longer than they should."""
        if self._problem:
            return True
        is_late = not self._durable or time.monotonic() - self._written_back_at > LATE_S
        return bool(self._spooled_bytes()) and is_late

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
        if self._queue:
            self._overflow()

    @property
    def _problem(self) -> str:
        return "; ".join(filter(None, (self._store_problem, self._disk_problem)))

    def _age_s(self) -> float:
        """Return the age of the oldest run that is in memory alone [s, >= 0]."""
        return time.monotonic() - self._marks[0][1] if self._marks else 0.0

    async def _wait_until(self, is_true: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds that only changes when runs leave memory or the disk."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_true():
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    def _overflow(self) -> None:
        """Move the queue to disk at once; where that fails, drop its oldest runs, or all at the end."""
        documents = self._queue.take_all()
        problem = FULL
        try:
            left = self._spool.put(documents)
        except OSError as error:
            left, problem = documents, str(error)
        self._queue.put_back(left)
        lost = len(self._queue.take_all()) if self._closing.is_set() else self._queue.drop_oldest()
        self._count_lost(lost, problem)
        self._on_disk.set()
        self._count_dequeued(len(documents) - len(self._queue))

    def _count_dequeued(self, count: int) -> None:
        """Count runs that left memory, in their order, and wake those who wait for that."""
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
        """Return how many runs, in their order, have certainly reached the store, or never will."""
        if not self._spooled_bytes():
            self._stored = self._dequeued
        return self._stored

    def _notify(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    async def _write_round(self, stop: asyncio.Event) -> None:
        """Wait for runs, and write them to the store or to disk; at the end, until the queue is empty."""
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
        if self._durable or self._store_problem or (self._spooled_bytes() and not self._disk_problem):
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
            if not self._spooled_bytes():
                self._disk_problem = ""

    async def _spool_all(self, batch: list[bytes], problem: str) -> None:
        """Put the batch and the queue on disk, or back into the queue for a while where even that fails."""
        if not self._store_problem:
            _log.warning("runs wait", spool=str(self._spool.path), problem=problem)
        self._store_problem = problem
        self._retry_at = time.monotonic() + self._retry_s
        self._queue.put_back(batch)
        try:
            await self._spool_queue()
        except OSError as error:
            self._disk_problem = f"the spool cannot be used: {error}"
            if self._closing.is_set():
                count = len(self._queue.take_all())
                self._count_lost(count, str(error))
                self._count_dequeued(count)
            else:
                await wait_within(self._closing, self._retry_s)
                self._wake.set()

    async def _spool_queue(self) -> None:
        """Put the first runs of the queue on disk; where that fails or is cut short they stay in memory too.

        Raises:
            OSError: When the disk fails, or the file has no room for all.
        """
        batch = self._queue.take(most_bytes=BATCH_BYTES)
        if not batch:
            return
        try:
            left = await self._on_thread(self._spool.put, batch)
        except BaseException:
            self._queue.put_back(batch)
            raise
        JOURNAL_SPOOLED.set(self._spooled_bytes())
        self._on_disk.set()
        self._queue.put_back(left)
        self._count_dequeued(len(batch) - len(left))
        if left:
            raise OSError(FULL)

    async def _on_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk_thread, partial(work, *args, **named))

    async def _store_documents(self, documents: Sequence[bytes], torn: Sequence[bytes] = ()) -> None:
        """Write to the store; documents that it will never accept are set aside in files of their own, and logged."""
        rejected = [*torn, *(await self._store.add(documents) if documents else ())]
        if rejected:
            await self._on_thread(self.rejected.keep, rejected)

    async def _store_lines(self, lines: Sequence[bytes]) -> int:
        """Write lines from disk, where a crash may have torn one, to the store; return how many they are."""
        whole = {line: _is_whole(line) for line in lines}
        await self._store_documents(
            [line for line in lines if whole[line]], [line for line in lines if not whole[line]]
        )
        return len(lines)

    async def _write_back_round(self, stop: asyncio.Event) -> None:
        """Wait for runs on disk, and write them to the store; after a failure, not before `retry_s`."""
        if self._closing.is_set():
            await stop.wait()
            return
        if not self._spooled_bytes():
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
        except DatabaseUnavailable as error:
            self._store_problem = error.message
            self._lines_at_once = max(1, self._lines_at_once // 2)
        except OSError as error:
            self._disk_problem = f"the spool cannot be used: {error}"
            _log.error("the spool cannot be used", spool=str(self._spool.path), problem=str(error))
        else:
            self._disk_problem = ""
            return
        self._retry_at = time.monotonic() + self._retry_s

    async def _write_back(self) -> None:
        """Write what waits on disk to the store, in order.

        Raises:
            DatabaseUnavailable: When the store does not take it; what it took before is no longer on disk.
            OSError: When the disk fails.
        """
        written = 0
        while self._spooled_bytes() and not self._closing.is_set():
            waiting = await self._on_thread(self._spool.read)
            while waiting:
                lines, waiting = waiting[: self._lines_at_once], waiting[self._lines_at_once :]
                written += await self._store_lines([line.rstrip() for line in lines if line.strip()])
                await self._on_thread(self._spool.drop, sum(map(len, lines)))
                self._lines_at_once = min(BATCH, 2 * self._lines_at_once)
                self._written_back_at = time.monotonic()
                self._store_problem = ""
                self._notify()
            JOURNAL_SPOOLED.set(self._spooled_bytes())
        self._wake.set()  # a round of the writer may return
        if written and not self._durable:
            _log.info("runs written back", runs=written)

    def _spooled_bytes(self) -> int:
        try:
            return self._spool.size()
        except OSError:
            return 0

    def _count_lost(self, count: int, problem: str) -> None:
        if count:
            JOURNAL_LOST.inc(count)
            _log.error("runs were lost", count=count, problem=problem)


def _is_whole(document: bytes) -> bool:
    """Return whether a document is JSON, which a line that a crash tore is not."""
    try:
        return isinstance(orjson.loads(document), dict)
    except orjson.JSONDecodeError:
        return False
