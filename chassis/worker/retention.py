"""Records are deleted in the background when they reach the configured age, whatever happens to one sweep."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

from chassis.log import logger
from chassis.worker import BackgroundWorker, RoundTooLong, round_within, wait_within
from kernel.errors import Code, MetacogError

BATCH = 500
EVERY_S = 3600.0
# Pause between two batches, in which other statements are served [s].
BATCH_PAUSE_S = 0.05
# Time that a batch may take before it counts as hung [s].
BATCH_WITHIN_S = 300.0
# Difference between the clocks of process and store up to which records are deleted [s].
CLOCKS_MAY_DIFFER_S = 60.0

_log = logger(__name__)


class ClocksDiffer(MetacogError):
    """The clocks of the process and of the database differ by too much."""

    code = Code.FAILED_PRECONDITION
    reason = "CLOCKS_DIFFER"


class OldRecords(Protocol):
    """This store holds records, of which some may be too old. Every method may raise `DatabaseUnavailable`."""

    def lock(self) -> AbstractAsyncContextManager[bool]:
        """Lock deletion for all other replicas, where only one may delete; False when another one holds the lock."""

    async def clock(self) -> datetime:
        """Return the time of the store's clock."""

    async def delete_older(self, days: int, most: int) -> int:
        """Delete at most `most` records older than `days` by the store's clock, oldest first; return how many."""

    async def forget_older(self, days: int) -> None:
        """Delete what is as old and belongs to no record."""


class Retention:
    """Retention deletes records that are too old, in the background.

    Args:
        name: What the records are, for logs, such as `runs`.
        records: The records.
        days: Age from which a record is deleted [days, >= 1].
        delete_files: Deletes what this replica holds in files of that age [days], in a thread; None: there is nothing.
        every_s: Time between two sweeps [s].
        batch: Records deleted at once [count].
        batch_within_s: Time that a batch, the files, or the lock may take before they count as hung [s].
    """

    def __init__(  # noqa: PLR0913 - most are sizes and times that tests set
        self,
        name: str,
        records: OldRecords,
        *,
        days: int,
        delete_files: Callable[[int], object] | None = None,
        every_s: float = EVERY_S,
        batch: int = BATCH,
        batch_within_s: float = BATCH_WITHIN_S,
    ) -> None:
        self._name = name
        self._records = records
        self._days = days
        self._delete_files = delete_files
        self._batch = batch
        self._batch_within_s = batch_within_s
        self._files: asyncio.Task[object] | None = None
        self._worker = BackgroundWorker("retention", self._run_round, interval_s=every_s)

    def start(self) -> None:
        """Begin to delete old records."""
        self._worker.start()

    async def check(self) -> None:
        """Return while old records are deleted.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Finish the current batch, and stop."""
        await self._worker.close()
        if self._files is not None:
            self._files.cancel()

    async def sweep(self, stop: asyncio.Event | None = None) -> int:
        """Delete all records that are too old now, unless another replica does; return how many it deleted.

        Args:
            stop: Ends the sweep after the current batch once it is set.

        Raises:
            ClocksDiffer: When the clocks of process and store differ by more than a minute; nothing is deleted.
            RoundTooLong: When a batch, or the lock, takes too long.
            MetacogError: What the store raises; then the records of that batch stay until the next sweep.
        """
        stop = stop or asyncio.Event()
        async with round_within(self._batch_within_s):
            await self._check_clocks()
        deleted = 0
        async with self._locked() as is_locked:
            while is_locked and not stop.is_set():
                async with round_within(self._batch_within_s):
                    count = await self._records.delete_older(self._days, self._batch)
                deleted += count
                if count < self._batch:
                    async with round_within(self._batch_within_s):
                        await self._records.forget_older(self._days)
                    break
                await wait_within(stop, BATCH_PAUSE_S)
        return deleted

    async def _check_clocks(self) -> None:
        """Raise `ClocksDiffer` when it is not known which records are too old: processes wrote when they began."""
        difference_s = (datetime.now(UTC) - await self._records.clock()).total_seconds()
        if abs(difference_s) > CLOCKS_MAY_DIFFER_S:
            raise ClocksDiffer(
                f"the clocks of this process and of the database differ by {difference_s:.0f} s; set them right, then"
                f" old {self._name} are deleted again"
            )

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[bool]:
        """Hold the lock of the records; taking it and giving it back have the time of a batch each."""
        lock = self._records.lock()
        async with round_within(self._batch_within_s):
            is_locked = await lock.__aenter__()
        try:
            yield is_locked
        except BaseException as error:
            async with round_within(self._batch_within_s):
                await lock.__aexit__(type(error), error, error.__traceback__)
            raise
        async with round_within(self._batch_within_s):
            await lock.__aexit__(None, None, None)

    async def _run_round(self, stop: asyncio.Event) -> None:
        try:
            await self._sweep_files()
        except RoundTooLong:
            await self._sweep_records(stop)
            raise
        await self._sweep_records(stop)

    async def _sweep_files(self) -> None:
        """Delete files in one thread at most: one that hung is waited for again, and holds no second thread."""
        if self._delete_files is None:
            return
        if self._files is None:
            self._files = asyncio.create_task(asyncio.to_thread(self._delete_files, self._days))
        try:
            async with round_within(self._batch_within_s):
                await asyncio.shield(self._files)
        except OSError as error:
            _log.warning("old files stay for now", records=self._name, problem=str(error))
        finally:
            if self._files.done():
                self._files = None

    async def _sweep_records(self, stop: asyncio.Event) -> None:
        try:
            deleted = await self.sweep(stop)
        except RoundTooLong:
            raise
        except (MetacogError, OSError) as error:
            _log.warning("old records stay for now", records=self._name, problem=str(error))
        else:
            if deleted:
                _log.info("old records deleted", records=self._name, count=deleted, older_than_days=self._days)
