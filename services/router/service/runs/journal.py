"""The journal records runs without delaying an answer and without losing one.

Runs wait in a bounded queue in memory and are written in batches. While the database is away they wait in a bounded
file on disk, which is written back, in order, as soon as the database answers. Runs for which even the file has no room
are counted and logged as errors.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import orjson

from chassis.errors import DatabaseUnavailable
from chassis.json_text import dumps
from chassis.log import logger
from chassis.worker import BackgroundWorker
from services.router.metrics import JOURNAL_LOST, JOURNAL_QUEUED, JOURNAL_SPOOLED
from services.router.service.runs.spool import Spool
from services.router.service.runs.values import Run
from services.router.service.timeouts import wait_within

BATCH = 200
RECENT = 1000
RETRY_S = 2.0
# Runs that end within this time are written together: a statement costs far more than a row [s].
GATHER_S = 0.05
# Time in which the queue is written to the store when the process ends [s]; what is left then goes to disk.
CLOSE_WITHIN_S = 5.0


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
        max_queue: Runs that may wait in memory [count].
        max_spool_bytes: Size of the file [bytes].
        retry_s: Time between attempts to reach the store again [s].
        redact: Removes what is not to be stored of a run, and so never leaves memory; None: all is stored.
    """

    def __init__(
        self,
        store: RunStore,
        spool: Path,
        *,
        max_queue: int = 10_000,
        max_spool_bytes: int = 256 * 1024 * 1024,
        retry_s: float = RETRY_S,
        redact: Callable[[Run], Run] | None = None,
    ) -> None:
        self._store = store
        self._spool = Spool(spool, max_spool_bytes)
        self._max_queue = max_queue
        self._retry_s = retry_s
        self._redact = redact
        self._queue: list[bytes] = []
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._closing = asyncio.Event()
        self._recent: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._recorded = 0
        self._dequeued = 0
        self._progress = asyncio.Event()
        self._problem = ""
        self._worker = BackgroundWorker("journal", self._run_round)

    def start(self) -> None:
        """Begin to write, first what an earlier process left on disk."""
        self._spool.path.parent.mkdir(parents=True, exist_ok=True)
        self._worker.start()

    def record(self, run: Run) -> None:
        """Queue `run`; never waits."""
        self._queue.append(dumps(run if self._redact is None else self._redact(run)))
        self._recorded += 1
        if run.request_id:
            self._recent[run.key_name, run.request_id] = run
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        if len(self._queue) > self._max_queue:
            self._overflow()
        if len(self._queue) >= BATCH:
            self._hurry.set()
        JOURNAL_QUEUED.set(len(self._queue))
        self._wake.set()

    def recent(self, key_name: str, request_id: str) -> Run | None:
        """Return the run that answered a request of a key, if it is among the last ones."""
        return self._recent.get((key_name, request_id))

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded before now is in the store; return whether it is.

        Args:
            timeout_s: Time to wait at most [s].
        """
        recorded = self._recorded
        self._hurry.set()
        return await self._wait_until(lambda: self._dequeued >= recorded and not self._spooled_bytes(), timeout_s)

    async def check(self) -> None:
        """Return while runs reach the store.

        Raises:
            WorkerFailing: While the writer fails, or before `start`.
            DatabaseUnavailable: While runs wait on disk.
        """
        await self._worker.check()
        spooled = self._spooled_bytes()
        if self._problem or spooled:
            raise DatabaseUnavailable(f"{spooled} bytes of runs wait on disk; {self._problem or 'being written back'}")

    async def close(self, *, within_s: float = CLOSE_WITHIN_S) -> None:
        """Write the queue to the store, or to disk where the store is away or slow, and stop.

        Args:
            within_s: Time that the store gets [s].
        """
        if not self._closing.is_set():
            self._closing.set()
            self._hurry.set()
            self._wake.set()
            await self._wait_until(lambda: self._dequeued >= self._recorded, within_s)
            await self._worker.close(within_s=within_s)
        if self._queue:
            self._overflow()

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
        documents, self._queue = self._queue, []
        try:
            self._count_lost(self._spool.put(documents))
        except OSError as error:
            left = 0 if self._closing.is_set() else self._max_queue
            self._queue = documents[len(documents) - left :]
            self._count_lost(len(documents) - len(self._queue), str(error))
        self._count_dequeued(len(documents) - len(self._queue))

    def _count_dequeued(self, count: int) -> None:
        """Count runs that left memory, in their order, and wake those who wait for that."""
        self._dequeued += count
        self._progress.set()
        self._progress = asyncio.Event()

    async def _run_round(self, stop: asyncio.Event) -> None:
        """Wait for runs, and write one batch; at the end, until the queue is empty."""
        if self._closing.is_set() and not self._queue:
            await stop.wait()
            return
        if not self._queue and not self._spooled_bytes():
            await self._wake.wait()
            self._wake.clear()
        if len(self._queue) < BATCH:
            await wait_within(self._hurry, GATHER_S)
        self._hurry.clear()
        await self._write_batch()

    async def _write_batch(self) -> None:
        """Write what waits on disk and one batch to the store; what cannot be written now goes to disk.

        Raises:
            Exception: Whatever a bug raises, after the batch is safe on disk or back in the queue.
        """
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        JOURNAL_QUEUED.set(len(self._queue))
        try:
            problem = "" if self._closing.is_set() else await self._write_back()
            await self._store_documents(batch)
        except asyncio.CancelledError:
            self._queue = batch + self._queue
            raise
        except DatabaseUnavailable as error:
            await self._spool_all(batch, error.message)
            await self._pause()
        except Exception as error:
            await self._spool_all(batch, f"{type(error).__name__} while writing")
            raise
        else:
            self._count_dequeued(len(batch))
            self._problem = problem
            if problem:
                await self._pause()

    async def _spool_all(self, batch: list[bytes], problem: str) -> None:
        """Put the batch and the queue on disk, or back into the queue where even that fails."""
        if not self._problem:
            _log.warning("runs wait", spool=str(self._spool.path), problem=problem)
        self._problem = problem
        self._queue = batch + self._queue
        try:
            await self._spool_queue()
        except OSError as error:
            if self._closing.is_set():
                count, self._queue = len(self._queue), []
                self._count_lost(count, str(error))
                self._count_dequeued(count)
        JOURNAL_SPOOLED.set(self._spooled_bytes())

    async def _spool_queue(self) -> None:
        """Put the queue on disk; where that fails or is cut short it stays in memory too.

        Raises:
            OSError: When the disk fails.
        """
        batch, self._queue = self._queue, []
        if not batch:
            return
        try:
            lost = await asyncio.to_thread(self._spool.put, batch)
        except BaseException:
            self._queue = batch + self._queue
            raise
        self._count_lost(lost)
        self._count_dequeued(len(batch))

    async def _store_documents(self, documents: Sequence[bytes], torn: Sequence[bytes] = ()) -> None:
        """Write to the store; documents that it will never accept are set aside in a file of their own, and logged."""
        rejected = [*torn, *(await self._store.add(documents) if documents else ())]
        if rejected:
            aside = self._spool.set_aside(rejected)
            _log.error("runs cannot be recorded", count=len(rejected), kept_in=str(aside))

    async def _store_lines(self, lines: Sequence[bytes]) -> int:
        """Write lines from disk, where a crash may have torn one, to the store; return how many they are."""
        whole = {line: _is_whole(line) for line in lines}
        await self._store_documents(
            [line for line in lines if whole[line]], [line for line in lines if not whole[line]]
        )
        return len(lines)

    async def _pause(self) -> None:
        await wait_within(self._closing, self._retry_s)

    async def _write_back(self) -> str:
        """Write what waits on disk to the store, in order; return what is wrong with the disk, or nothing."""
        if not self._spooled_bytes():
            return ""
        written = 0
        try:
            while self._spooled_bytes() and not self._closing.is_set():
                waiting = await asyncio.to_thread(self._spool.read)
                for lines in (waiting[start : start + BATCH] for start in range(0, len(waiting), BATCH)):
                    written += await self._store_lines([line.rstrip() for line in lines if line.strip()])
                    await asyncio.to_thread(self._spool.drop, sum(map(len, lines)))
                JOURNAL_SPOOLED.set(self._spooled_bytes())
                if len(self._queue) > self._max_queue // 2:  # before it is too much for memory
                    await self._spool_queue()
        except OSError as error:
            _log.error("the spool cannot be used", spool=str(self._spool.path), problem=str(error))
            return f"the spool cannot be used: {error}"
        _log.info("runs written back", runs=written)
        return ""

    def _spooled_bytes(self) -> int:
        try:
            return self._spool.size()
        except OSError:
            return 0

    def _count_lost(self, count: int, problem: str = "the spool is full") -> None:
        if count:
            JOURNAL_LOST.inc(count)
            _log.error("runs were lost", count=count, problem=problem)


def _is_whole(document: bytes) -> bool:
    """Return whether a document is JSON, which a line that a crash tore is not."""
    try:
        return isinstance(orjson.loads(document), dict)
    except orjson.JSONDecodeError:
        return False
