"""Old runs are deleted with the feedback on them and the experience made of them."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol

from services.router.metrics import RUNS_FORGOTTEN

Forget = Callable[[str], Awaitable[None]]
# Deletes at most so many records older than an age, and returns how many.
DeleteOld = Callable[[timedelta, int], Awaitable[int]]
# Records beside runs that are deleted at once [count].
PAGE = 500


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


class OldRuns:
    """Old runs are the `OldRecords` of the router.

    Args:
        store: The runs.
        forget: Deletes the experience made of a run; None where there is no experience.
        others: Delete what is no run and gets as old: batches and files.
    """

    def __init__(self, store: OldRunStore, forget: Forget | None = None, others: Sequence[DeleteOld] = ()) -> None:
        self._store = store
        self._forget = forget
        self._others = others

    def lock(self) -> AbstractAsyncContextManager[bool]:
        """Lock deletion for all other replicas; False when another one holds the lock."""
        return self._store.lock()

    async def clock(self) -> datetime:
        """Return the time of the store's clock."""
        return await self._store.clock()

    async def delete_older(self, days: int, most: int) -> int:
        """Delete at most `most` runs older than `days`, after the experience made of them; return how many.

        Raises:
            DatabaseUnavailable: When the database is away.
            EncoderUnavailable: When `forget` raises it; then these runs stay.
        """
        old = await self._store.older(timedelta(days=days), most)
        if self._forget is not None:
            for run_id in old:
                await self._forget(run_id)
        if old:
            await self._store.delete(old)
            RUNS_FORGOTTEN.inc(len(old))
        return len(old)

    async def forget_older(self, days: int) -> None:
        """Delete batches that have ended, and files that no batch uses, older than `days`.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        for delete_old in self._others:
            while await delete_old(timedelta(days=days), PAGE) == PAGE:
                pass
