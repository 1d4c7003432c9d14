"""Old runs in PostgreSQL, and their end."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from sqlalchemy import delete, func, or_, select

from chassis.db import ERRORS, Sessions, refusal
from services.router.store.feedback_tables import OutboxRow
from services.router.store.runs import RunRow

# One replica at a time forgets; any number that nobody else locks by.
LOCK = 0x6D63_666F_7267


class PostgresOldRuns:
    """Runs in the router's schema that may be too old."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Whether this replica may forget runs meanwhile; the lock ends with its transaction, whatever happens.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                yield bool(await session.scalar(select(func.pg_try_advisory_xact_lock(LOCK))))
        except ERRORS as error:
            raise refusal(error) from error

    async def older(self, than: datetime, most: int) -> Sequence[str]:
        """Names of runs that began before a moment, oldest first.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        wanted = select(RunRow.run_id).where(RunRow.created_at < than).order_by(RunRow.created_at).limit(most)
        try:
            async with self._sessions.begin() as session:
                return (await session.scalars(wanted)).all()
        except ERRORS as error:
            raise refusal(error) from error

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, the verdicts on them (by their key), and messages about them that nobody waits for.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        over = or_(OutboxRow.done_at.is_not(None), OutboxRow.parked_at.is_not(None))
        try:
            async with self._sessions.begin() as session:
                await session.execute(delete(OutboxRow).where(OutboxRow.run_id.in_(run_ids), over))
                await session.execute(delete(RunRow).where(RunRow.run_id.in_(run_ids)))
        except ERRORS as error:
            raise refusal(error) from error
