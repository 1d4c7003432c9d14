"""Recorded entries are found, also while they are on their way to the database."""

import asyncio
import time
from typing import Protocol, TypeVar

from chassis.errors import DatabaseUnavailable
from chassis.ids import age_s
from kernel.errors import RunNotFound

# Time to wait for a run that is on its way to the database: from this replica, and from another one [s].
FLUSH_WITHIN_S = 3.0
ARRIVES_WITHIN_S = 1.5
RETRY_S = 0.1
# Age up to which a run may still be on its way from another replica [s].
YOUNG_S = 10.0


T = TypeVar("T")
F = TypeVar("F", covariant=True)


class Finder(Protocol[F]):
    """A finder finds an entry that is in the database."""

    async def __call__(self, run_id: str, *, key_name: str = "") -> F:
        """Return the run, if its request had the key of that name; an empty name finds the runs of all keys.

        Raises:
            RunNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """


class FlushableJournal(Protocol):
    """This journal can wait for entries that are on their way to the database."""

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded before now is in the database; return whether it is."""


async def recorded(run_id: str, *, key_name: str = "", find: Finder[T], journal: FlushableJournal) -> T:
    """Return the run `run_id`; wait for it while it is on its way to the database.

    It also waits for a run that another replica has just recorded; one that waits on the disk of another replica is
    not found before it is written back.

    Raises:
        RunNotFound: When there is none.
        DatabaseUnavailable: When the database is away, or the run may be among those that wait for it on disk.
    """
    try:
        return await find(run_id, key_name=key_name)
    except RunNotFound:
        if not await journal.flush(FLUSH_WITHIN_S):
            raise DatabaseUnavailable(
                f"run {run_id!r} may be among those that wait to be written to the database; try again", run_id=run_id
            ) from None
    return await _arriving(run_id, key_name, find)


async def _arriving(run_id: str, key_name: str, find: Finder[T]) -> T:
    until = time.monotonic() + (ARRIVES_WITHIN_S if _is_young(run_id) else 0)
    while True:
        try:
            return await find(run_id, key_name=key_name)
        except RunNotFound:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(RETRY_S)


def _is_young(run_id: str) -> bool:
    age = age_s(run_id)
    return age is not None and -YOUNG_S < age < YOUNG_S
