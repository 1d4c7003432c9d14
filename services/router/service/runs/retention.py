"""Runs are forgotten when they are older than they may get, with what was said and learned of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from prometheus_client import Counter

from chassis.log import logger
from kernel.errors import MetacogError

BATCH = 500
EVERY_S = 3600.0
BREATHER_S = 0.05

FORGOTTEN = Counter("metacog_runs_forgotten_total", "Runs deleted because they were older than they may get.")

Forget = Callable[[str], Awaitable[None]]

_log = logger(__name__)


class OldRunStore(Protocol):
    """Runs that may be too old. Every method may raise `DatabaseUnavailable`."""

    def alone(self) -> AbstractAsyncContextManager[bool]:
        """Whether this replica may forget runs meanwhile; one at a time may."""

    async def older(self, than: datetime, most: int) -> Sequence[str]:
        """Names of runs that began before a moment, oldest first."""

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, the verdicts on them, and messages about them that nobody waits for."""


class Retention:
    """Forgets runs that are too old, in the background.

    Args:
        runs: The runs.
        days: Age from which a run is forgotten [days, >= 1].
        forget: Takes back what was learned of a run; None where nothing is.
        every_s: Time between two looks [s].
        batch: Runs deleted at once [count].
    """

    def __init__(
        self,
        runs: OldRunStore,
        *,
        days: int,
        forget: Forget | None = None,
        every_s: float = EVERY_S,
        batch: int = BATCH,
    ) -> None:
        self._runs = runs
        self._days = days
        self._forget = forget
        self._every_s = every_s
        self._batch = batch
        self._stop = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to forget."""
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Finish the batch at hand, and stop."""
        self._stop.set()
        if self._worker is not None:
            await self._worker

    async def sweep(self) -> int:
        """Forget all that is too old now, unless another replica is at it; returns how many runs that were.

        Raises:
            DatabaseUnavailable: When the database is away.
            EncoderUnavailable: Never by itself, but `forget` may refuse; then its run stays until the next time.
        """
        before, forgotten = datetime.now(UTC) - timedelta(days=self._days), 0
        async with self._runs.alone() as may:
            while may and not self._stop.is_set():
                old = await self._runs.older(before, self._batch)
                if not old:
                    break
                if self._forget is not None:
                    for run_id in old:
                        await self._forget(run_id)
                await self._runs.delete(old)
                FORGOTTEN.inc(len(old))
                forgotten += len(old)
                await self._pause(BREATHER_S)
        return forgotten

    async def _work(self) -> None:
        while not self._stop.is_set():
            try:
                forgotten = await self.sweep()
                if forgotten:
                    _log.info("runs forgotten", runs=forgotten, older_than_days=self._days)
            except MetacogError as refusal:
                _log.warning("old runs stay for now", problem=refusal.message)
            except Exception as error:  # noqa: BLE001 - a bug here must not end forgetting for good
                _log.error("forgetting old runs stumbled", exc_info=error)
            await self._pause(self._every_s)

    async def _pause(self, time_s: float) -> None:
        try:
            async with asyncio.timeout(time_s):
                await self._stop.wait()
        except TimeoutError:
            return
