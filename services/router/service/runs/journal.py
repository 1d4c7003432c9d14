"""Runs are remembered without slowing an answer down and without being lost.

A bounded queue in memory, written in batches. While the database is away the runs wait in a bounded file on disk, which
is written back, in order, as soon as the database answers. What does not fit even there is counted and said loudly.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import orjson
from prometheus_client import Counter, Gauge

from chassis.errors import DatabaseUnavailable
from chassis.json_text import dumps
from chassis.log import logger
from services.router.service.runs.spool import Spool
from services.router.service.runs.values import Run

BATCH = 200
RECENT = 1000
RETRY_S = 2.0
# Runs that end within this time are written together: a statement costs far more than a row [s].
GATHER_S = 0.05

QUEUED = Gauge("metacog_journal_queue", "Runs waiting in memory to be recorded.")
SPOOLED = Gauge("metacog_journal_spool_bytes", "Bytes of runs waiting on disk for the database.")
LOST = Counter("metacog_journal_lost_total", "Runs that could be kept neither in the database nor on disk.")

_log = logger(__name__)


class RunStore(Protocol):
    """Where runs are kept."""

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Keep runs, given as JSON; those that are there already stay as they are.

        Returns:
            The documents that can never be kept.

        Raises:
            DatabaseUnavailable: When they cannot be kept now.
        """


class Journal:
    """Remembers runs.

    Args:
        store: Where they are kept.
        spool: File in which they wait while the store is away.
        max_queue: Runs that may wait in memory [count].
        max_spool_bytes: Size of the file [bytes].
        retry_s: Time between attempts to reach the store again [s].
        kept: What of a run is kept; the rest never leaves memory.
    """

    def __init__(
        self,
        store: RunStore,
        spool: Path,
        *,
        max_queue: int = 10_000,
        max_spool_bytes: int = 256 * 1024 * 1024,
        retry_s: float = RETRY_S,
        kept: Callable[[Run], Run] = lambda run: run,
    ) -> None:
        self._store = store
        self._spool = Spool(spool, max_spool_bytes)
        self._max_queue = max_queue
        self._retry_s = retry_s
        self._kept = kept
        self._queue: list[bytes] = []
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stop = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._recent: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._recorded = 0
        self._settled = 0
        self._progress = asyncio.Event()
        self.away = ""

    def start(self) -> None:
        """Begin to write, what an earlier process left on disk first."""
        self._spool.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = asyncio.create_task(self._write())

    def record(self, run: Run) -> None:
        """Queue `run`; never waits."""
        self._queue.append(dumps(self._kept(run)))
        self._recorded += 1
        if run.request_id:
            self._recent[run.key_name, run.request_id] = run
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        if len(self._queue) > self._max_queue:
            self._overflow()
        if len(self._queue) >= BATCH:
            self._hurry.set()
        QUEUED.set(len(self._queue))
        self._wake.set()

    def recent(self, key_name: str, request_id: str) -> Run | None:
        """The run that answered a request of a key, if it is among the last ones."""
        return self._recent.get((key_name, request_id))

    async def settled(self, timeout_s: float) -> bool:
        """Whether everything recorded before now has reached the store, which is waited for.

        Args:
            timeout_s: Time to wait at most [s].
        """
        until = self._recorded
        self._hurry.set()
        try:
            async with asyncio.timeout(timeout_s):
                while self._settled < until or self._waiting_bytes():
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    async def check(self) -> None:
        """Return if runs reach the store.

        Raises:
            DatabaseUnavailable: While they wait on disk, or nobody writes them.
        """
        if self._writer is not None and self._writer.done() and not self._stop.is_set():
            raise DatabaseUnavailable("the journal's writer has ended; see the log")
        waiting = self._waiting_bytes()
        if self.away or waiting:
            raise DatabaseUnavailable(f"{waiting} bytes of runs wait on disk; {self.away or 'being written back'}")

    async def close(self) -> None:
        """Write what is queued, to disk where the store is away, and stop."""
        self._stop.set()
        self._hurry.set()
        self._wake.set()
        if self._writer is not None:
            await self._writer

    def _overflow(self) -> None:
        """Too many runs wait in memory: to disk with them, or, where that fails, away with the oldest, loudly."""
        documents, self._queue = self._queue, []
        try:
            self._count_lost(self._spool.put(documents))
        except OSError as error:
            self._queue = documents[-self._max_queue :]
            self._count_lost(len(documents) - len(self._queue), str(error))
        self._moved_on(len(documents) - len(self._queue))

    def _moved_on(self, count: int) -> None:
        """So many runs have left memory, in their order; whoever waits for that looks again."""
        self._settled += count
        self._progress.set()
        self._progress = asyncio.Event()

    async def _write(self) -> None:
        while self._queue or not self._stop.is_set():
            if not self._queue and not self._waiting_bytes():
                await self._wake.wait()
                self._wake.clear()
            if len(self._queue) < BATCH:
                await _within(self._hurry, GATHER_S)
            self._hurry.clear()
            await self._flush()

    async def _flush(self) -> None:
        """One attempt on what waits; what cannot be written now is set down."""
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        QUEUED.set(len(self._queue))
        try:
            problem = "" if self._stop.is_set() else await self._write_back()
            await self._keep(batch)
            self._moved_on(len(batch))
            self.away = problem
            if problem:
                await self._pause()
        except DatabaseUnavailable as refusal:
            await self._set_down(batch, refusal.message)
        except Exception as error:  # noqa: BLE001 - whatever happens to one batch, the writer goes on
            _log.error("runs could not be written", exc_info=error)
            await self._set_down(batch, f"{type(error).__name__} while writing")

    async def _set_down(self, batch: list[bytes], problem: str) -> None:
        """Put the batch and all that is queued on disk, or back into the queue where even that fails."""
        if not self.away:
            _log.warning("runs wait", spool=str(self._spool.path), problem=problem)
        self.away = problem
        batch, self._queue = batch + self._queue, []
        try:
            if batch:
                self._count_lost(await asyncio.to_thread(self._spool.put, batch))
                self._moved_on(len(batch))
        except OSError as error:
            if self._stop.is_set():
                self._count_lost(len(batch), str(error))
            else:
                self._queue = batch + self._queue
        SPOOLED.set(self._waiting_bytes())
        await self._pause()

    async def _keep(self, documents: Sequence[bytes], torn: Sequence[bytes] = ()) -> None:
        """Write to the store; what it will never take is set aside in a file of its own, and said."""
        rejected = [*torn, *(await self._store.add(documents) if documents else ())]
        if rejected:
            aside = self._spool.set_aside(rejected)
            _log.error("runs cannot be recorded", count=len(rejected), kept_in=str(aside))

    async def _keep_lines(self, lines: Sequence[bytes]) -> int:
        """The same with what comes from disk, where a crash may have torn it; the number of lines."""
        whole = {line: _is_whole(line) for line in lines}
        await self._keep([line for line in lines if whole[line]], [line for line in lines if not whole[line]])
        return len(lines)

    async def _pause(self) -> None:
        await _within(self._stop, self._retry_s)

    async def _write_back(self) -> str:
        """What waits on disk goes to the store, in order; a disk that fails is told and holds up nothing else."""
        if not self._waiting_bytes():
            return ""
        written = 0
        try:
            while self._waiting_bytes() and not self._stop.is_set():
                waiting = await asyncio.to_thread(self._spool.read)
                for lines in (waiting[start : start + BATCH] for start in range(0, len(waiting), BATCH)):
                    written += await self._keep_lines([line.rstrip() for line in lines if line.strip()])
                    await asyncio.to_thread(self._spool.drop, sum(map(len, lines)))
                SPOOLED.set(self._waiting_bytes())
                await self._make_room()
        except OSError as error:
            _log.error("the spool cannot be used", spool=str(self._spool.path), problem=str(error))
            return f"the spool cannot be used: {error}"
        _log.info("runs written back", runs=written)
        return ""

    async def _make_room(self) -> None:
        """What has come meanwhile joins those that wait on disk, before it is too much for memory."""
        if len(self._queue) > self._max_queue // 2:
            batch, self._queue = self._queue, []
            self._count_lost(await asyncio.to_thread(self._spool.put, batch))
            self._moved_on(len(batch))

    def _waiting_bytes(self) -> int:
        try:
            return self._spool.size()
        except OSError:
            return 0

    def _count_lost(self, count: int, problem: str = "the spool is full") -> None:
        if count:
            LOST.inc(count)
            _log.error("runs were lost", count=count, problem=problem)


async def _within(event: asyncio.Event, patience_s: float) -> None:
    """Wait for `event`, for so long at most [s]."""
    try:
        async with asyncio.timeout(patience_s):
            await event.wait()
    except TimeoutError:
        return


def _is_whole(document: bytes) -> bool:
    """Whether a document is JSON; a line that a crash tore is not."""
    try:
        return isinstance(orjson.loads(document), dict)
    except orjson.JSONDecodeError:
        return False
