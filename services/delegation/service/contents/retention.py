"""Tasks are deleted when they reach the configured age, with feedback and experience; what profiles learned stays."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from chassis.log import logger
from chassis.worker import BackgroundWorker
from kernel.errors import MetacogError

BATCH = 500
EVERY_S = 3600.0
# Pause between two batches, in which other statements are served [s].
BATCH_PAUSE_S = 0.05
# Difference between the clocks of process and database up to which tasks are deleted [s].
CLOCKS_MAY_DIFFER_S = 60.0

_log = logger(__name__)


class OldTaskStore(Protocol):
    """This store holds tasks, of which some may be too old. Every method may raise `DatabaseUnavailable`."""

    async def clock(self) -> datetime:
        """Return the time of the store's clock."""

    async def delete_older(self, days: int, most: int) -> int:
        """Delete at most `most` tasks older than `days`, with their feedback and experience; return how many."""

    async def forget_older(self, days: int) -> None:
        """Delete what is as old and belongs to no task: request identifiers, proposals, and examples of categories."""


class TaskRetention:
    """Retention deletes tasks that are too old, in the background.

    Args:
        tasks: The tasks.
        days: Age from which a task is deleted [days, >= 1].
        every_s: Time between two sweeps [s].
    """

    def __init__(self, tasks: OldTaskStore, *, days: int, every_s: float = EVERY_S) -> None:
        self._tasks = tasks
        self._days = days
        self._worker = BackgroundWorker("retention", self._run_round, interval_s=every_s)

    def start(self) -> None:
        """Begin to delete old tasks."""
        self._worker.start()

    async def check(self) -> None:
        """Return while old tasks are deleted.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Finish the current batch, and stop."""
        await self._worker.close()

    async def _run_round(self, stop: asyncio.Event) -> None:
        try:
            difference_s = (datetime.now(UTC) - await self._tasks.clock()).total_seconds()
            if abs(difference_s) > CLOCKS_MAY_DIFFER_S:
                _log.warning("old tasks stay for now", problem=f"the database's clock differs by {difference_s:.0f} s")
                return
            deleted = await self._sweep(stop)
            await self._tasks.forget_older(self._days)
        except MetacogError as error:
            _log.warning("old tasks stay for now", problem=error.message)
        else:
            if deleted:
                _log.info("old tasks deleted", tasks=deleted, older_than_days=self._days)

    async def _sweep(self, stop: asyncio.Event) -> int:
        deleted = 0
        while not stop.is_set():
            count = await self._tasks.delete_older(self._days, BATCH)
            deleted += count
            if count < BATCH:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(BATCH_PAUSE_S):
                    await stop.wait()
        return deleted
