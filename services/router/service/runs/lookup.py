"""Recorded runs, also those that are on their way to the database."""

import asyncio
import time
from typing import Protocol

from chassis.errors import DatabaseUnavailable
from chassis.ids import age_s
from kernel.errors import Code, MetacogError
from services.router.service.runs.values import Run

# How long a run that is on its way to the database is waited for: from here, and from another replica [s].
SETTLES_WITHIN_S = 3.0
ARRIVES_WITHIN_S = 1.5
LOOK_AGAIN_S = 0.1
YOUNG_S = 10.0


class RunNotFound(MetacogError):
    """There is no such run."""

    code = Code.NOT_FOUND
    reason = "RUN_NOT_FOUND"


class RunFinder(Protocol):
    """Finds a run that is in the database."""

    async def __call__(self, run_id: str, *, key_name: str = "") -> Run:
        """The run, if it came in with the key of that name; without keys everybody sees all.

        Raises:
            RunNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """


class SettlingJournal(Protocol):
    """Waits for runs that are on their way to the database."""

    async def settled(self, timeout_s: float) -> bool:
        """Whether everything recorded before now is in the database, which is waited for."""


async def recorded_run(run_id: str, *, key_name: str = "", find: RunFinder, journal: SettlingJournal) -> Run:
    """The run called `run_id`, waited for while it is on its way to the database.

    One that another replica has just recorded is waited for too; one that waits on the disk of another replica is not
    found before it is written back.

    Raises:
        RunNotFound: When there is none.
        DatabaseUnavailable: When the database is away, or the run may be among those that wait for it on disk.
    """
    try:
        return await find(run_id, key_name=key_name)
    except RunNotFound:
        if not await journal.settled(SETTLES_WITHIN_S):
            raise DatabaseUnavailable(
                f"run {run_id!r} may be among those that wait to be written to the database; try again", run_id=run_id
            ) from None
    return await _arriving(run_id, key_name, find)


async def _arriving(run_id: str, key_name: str, find: RunFinder) -> Run:
    until = time.monotonic() + (ARRIVES_WITHIN_S if _is_young(run_id) else 0)
    while True:
        try:
            return await find(run_id, key_name=key_name)
        except RunNotFound:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_young(run_id: str) -> bool:
    age = age_s(run_id)
    return age is not None and -YOUNG_S < age < YOUNG_S
