"""Runs are remembered without slowing an answer down and without being lost.

A bounded queue in memory, written in batches. While the database is away the runs wait in a bounded file on disk, which
is written back, in order, as soon as the database answers. What does not fit even there is counted and said loudly.
"""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import orjson
from prometheus_client import Counter, Gauge

from chassis.errors import DatabaseUnavailable
from chassis.log import logger
from chassis.rest import dumps
from services.router.service.values import Run

BATCH = 200
RECENT = 1000
RETRY_S = 2.0

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
    """

    def __init__(
        self,
        store: RunStore,
        spool: Path,
        *,
        max_queue: int = 10_000,
        max_spool_bytes: int = 256 * 1024 * 1024,
        retry_s: float = RETRY_S,
    ) -> None:
        self._store = store
        self._spool = spool
        self._max_queue = max_queue
        self._max_spool_bytes = max_spool_bytes
        self._retry_s = retry_s
        self._queue: list[bytes] = []
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._disk = threading.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._recent: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self.away = ""

    def start(self) -> None:
        """Begin to write, what an earlier process left on disk first."""
        self._spool.parent.mkdir(parents=True, exist_ok=True)
        if self._spool_bytes():
            self._wake.set()
        self._writer = asyncio.create_task(self._write())

    def record(self, run: Run) -> None:
        """Queue `run`; never waits."""
        self._queue.append(dumps(run))
        if run.request_id:
            self._recent[run.key_name, run.request_id] = run
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        if len(self._queue) > self._max_queue:
            self._to_disk(self._queue)
            self._queue = []
        QUEUED.set(len(self._queue))
        self._wake.set()

    def recent(self, key_name: str, request_id: str) -> Run | None:
        """The run that answered a request of a key, if it is among the last ones."""
        return self._recent.get((key_name, request_id))

    async def check(self) -> None:
        """Return if runs reach the store.

        Raises:
            DatabaseUnavailable: While they wait on disk, or nobody writes them.
        """
        if self._writer is not None and self._writer.done() and not self._stop.is_set():
            raise DatabaseUnavailable("the journal's writer has ended; see the log")
        waiting = self._spool_bytes()
        if self.away or waiting:
            raise DatabaseUnavailable(f"{waiting} bytes of runs wait on disk; {self.away or 'being written back'}")

    async def close(self) -> None:
        """Write what is queued, to disk where the store is away, and stop."""
        self._stop.set()
        self._wake.set()
        if self._writer is not None:
            await self._writer

    async def _write(self) -> None:
        while self._queue or not self._stop.is_set():
            if not self._queue and not self._spool_bytes():
                await self._wake.wait()
                self._wake.clear()
            await self._flush()

    async def _flush(self) -> None:
        """One attempt on everything that waits; what cannot be written anywhere goes back into the queue."""
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        QUEUED.set(len(self._queue))
        try:
            if not self._stop.is_set():
                await self._write_back()
            await self._keep(batch)
            self.away = ""
        except DatabaseUnavailable as refusal:
            self._say_away(refusal.message)
            await self._set_down(batch)
        except OSError as error:
            self._say_away(f"the spool cannot be used: {error}")
            await self._set_down(batch)

    def _say_away(self, problem: str) -> None:
        if not self.away:
            _log.warning("runs wait", spool=str(self._spool), problem=problem)
        self.away = problem

    async def _set_down(self, batch: list[bytes]) -> None:
        """Put a batch on disk, or, where even that fails, back into the queue while there is time."""
        try:
            await asyncio.to_thread(self._to_disk, batch)
        except OSError as error:
            _log.error("runs cannot be put on disk", problem=str(error), runs=len(batch))
            if self._stop.is_set():
                LOST.inc(len(batch))
            else:
                self._queue = batch + self._queue
        await self._pause()

    async def _keep(self, documents: Sequence[bytes]) -> None:
        """Write to the store; what it will never take is set aside in a file of its own, and said."""
        whole = [document for document in documents if _is_whole(document)]
        torn = [document for document in documents if not _is_whole(document)]
        rejected = [*torn, *(await self._store.add(whole) if whole else ())]
        if rejected:
            aside = self._spool.with_suffix(".rejected")
            _log.error("runs cannot be recorded", count=len(rejected), kept_in=str(aside))
            with _private(aside) as file:
                file.writelines(document + b"\n" for document in rejected)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._retry_s):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _write_back(self) -> None:
        if not self._spool_bytes():
            return
        waiting = await asyncio.to_thread(self._spool.read_bytes)
        lines = [line for line in waiting.splitlines() if line]
        for start in range(0, len(lines), BATCH):
            await self._keep(lines[start : start + BATCH])
        with self._disk, self._spool.open("r+b") as file:
            rest = file.read()[len(waiting) :]
            file.seek(0)
            file.write(rest)
            file.truncate()
        SPOOLED.set(self._spool_bytes())
        _log.info("runs written back", runs=len(lines))

    def _to_disk(self, documents: Sequence[bytes]) -> None:
        with self._disk, _private(self._spool) as file:
            room = self._max_spool_bytes - self._spool_bytes()
            for document in documents:
                if len(document) + 1 > room:
                    LOST.inc()
                    _log.error("a run was lost: the spool is full", spool=str(self._spool))
                    continue
                file.write(document + b"\n")
                room -= len(document) + 1
            file.flush()
            os.fsync(file.fileno())
        SPOOLED.set(self._spool_bytes())

    def _spool_bytes(self) -> int:
        try:
            return self._spool.stat().st_size
        except FileNotFoundError:
            return 0


def _is_whole(document: bytes) -> bool:
    """Whether a document is JSON; a line that a crash tore is not."""
    try:
        return isinstance(orjson.loads(document), dict)
    except orjson.JSONDecodeError:
        return False


def _private(path: Path) -> BinaryIO:
    """`path` opened to append to, for nobody else to read: runs hold conversations."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
