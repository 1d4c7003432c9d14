"""Runs are deleted when they reach the configured age, with the feedback on them and the experience made of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from chassis.log import logger
from chassis.worker import BackgroundWorker
from kernel.errors import Code, MetacogError
from services.router.metrics import RUNS_FORGOTTEN
from services.router.service.runs.rejected import RejectedRuns
from services.router.service.timeouts import wait_within

BATCH = 500
EVERY_S = 3600.0
# Pause between two batches, in which other statements are served [s].
BATCH_PAUSE_S = 0.05


# Difference between the clocks of process and store up to which runs are deleted [s].
CLOCKS_MAY_DIFFER_S = 60.0

Forget = Callable[[str], Awaitable[None]]

_log = logger(__name__)


class ClocksDiffer(MetacogError):
    """The clocks of the process and of the database differ by too much."""

    code = Code.FAILED_PRECONDITION
    reason = "CLOCKS_DIFFER"


class OldRunStore(Protocol):
    """This store holds runs, of which some may be too old. Every method may raise `DatabaseUnavailable`."""

    def lock(self) -> AbstractAsyncContextManager[bool]:
        """Lock deletion for all other replicas; False when another one holds the lock."""

    async def clock(self) -> datetime:
        """Return the time of the store's clock."""

    async def older(self, age: timedelta, most: int) -> Sequence[str]:
        """Return identifiers of at most `most` runs older than an age by the store's clock, oldest first."""

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, the feedback on them, and their messages that are delivered or parked."""


class Retention:
    """Retention deletes runs that are too old, in the background.

    Args:
        runs: The runs.
        days: Age from which a run is deleted [days, >= 1].
        forget: Deletes the experience made of a run; None where there is no experience.
        rejected: What this replica has set aside of runs; None where there is nothing.
        every_s: Time between two sweeps [s].
        batch: Runs deleted at once [count].
    """

    def __init__(
        self,
        runs: OldRunStore,
        *,
        days: int,
        forget: Forget | None = None,
        rejected: RejectedRuns | None = None,
        every_s: float = EVERY_S,
        batch: int = BATCH,
    ) -> None:
        self._runs = runs
        self._days = days
        self._forget = forget
        self._rejected = rejected
        self._batch = batch
        self._worker = BackgroundWorker("retention", self._run_round, interval_s=every_s)

    def start(self) -> None:
        """Begin to delete old runs."""
        self._worker.start()

    async def check(self) -> None:
        """Return while old runs are deleted.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Finish the current batch, and stop."""
        await self._worker.close()

    async def sweep(self, stop: asyncio.Event | None = None) -> int:
        """Delete all runs that are too old now, unless another replica does; return how many it deleted.

        Args:
            stop: Ends the sweep after the current batch once it is set.

        Raises:
            ClocksDiffer: When the clocks of process and store differ by more than a minute; nothing is deleted.
            DatabaseUnavailable: When the database is away.
            EncoderUnavailable: When `forget` raises it; then its run stays until the next sweep.
        """
        stop = stop or asyncio.Event()
        await self._check_clocks()
        age, deleted = timedelta(days=self._days), 0
        async with self._runs.lock() as locked:
            while locked and not stop.is_set():
                old = await self._runs.older(age, self._batch)
                if not old:
                    break
                if self._forget is not None:
                    for run_id in old:
                        await self._forget(run_id)
                await self._runs.delete(old)
                RUNS_FORGOTTEN.inc(len(old))
                deleted += len(old)
                await wait_within(stop, BATCH_PAUSE_S)
        return deleted

    async def _check_clocks(self) -> None:
        """Raise `ClocksDiffer` when it is not known which runs are too old: processes wrote when they began."""
        difference_s = (datetime.now(UTC) - await self._runs.clock()).total_seconds()
        if abs(difference_s) > CLOCKS_MAY_DIFFER_S:
            raise ClocksDiffer(
                f"the clocks of this process and of the database differ by {difference_s:.0f} s; set them right, then"
                " old runs are deleted again"
            )

    async def _run_round(self, stop: asyncio.Event) -> None:
        try:
            if self._rejected is not None:
                await asyncio.to_thread(self._rejected.remove_older, self._days)
            deleted = await self.sweep(stop)
            if deleted:
                _log.info("old runs deleted", runs=deleted, older_than_days=self._days)
        except MetacogError as error:
            _log.warning("old runs stay for now", problem=error.message)
        except OSError as error:
            _log.warning("old runs stay for now", problem=str(error))
