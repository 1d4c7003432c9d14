"""Messages of feedback in PostgreSQL: taken by one replica at a time, for as long as its lease lasts."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from chassis.db import ERRORS, Sessions, refusal
from services.router.service.outbox import Letter, Told, Waiting
from services.router.store.feedback_tables import OutboxRow
from services.router.store.tables import without_nul

MAX_ERROR = 500


class PostgresOutbox:
    """Messages in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[Letter]:
        """Messages that are due, oldest attempt first; nobody else gets them while the lease lasts.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        due = (
            select(OutboxRow.id)
            .where(*_pending(kinds), OutboxRow.next_attempt_at <= func.now())
            .order_by(OutboxRow.next_attempt_at)
            .limit(most)
            .with_for_update(skip_locked=True)
            .cte("due")  # evaluated once, whatever the plan
        )
        taking = (
            update(OutboxRow)
            .where(OutboxRow.id.in_(select(due.c.id)))
            .values(attempts=OutboxRow.attempts + 1, next_attempt_at=func.now() + timedelta(seconds=lease_s))
            .returning(OutboxRow.id, OutboxRow.kind, OutboxRow.run_id, OutboxRow.payload, OutboxRow.attempts)
        )
        try:
            async with self._sessions.begin() as session:
                rows = (await session.execute(taking)).all()
        except ERRORS as error:
            raise refusal(error) from error
        return [Letter(**row._mapping) for row in rows]

    async def note(self, told: Sequence[Told]) -> None:
        """Remember how telling them went.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                for one in told:
                    await session.execute(update(OutboxRow).where(OutboxRow.id == one.id).values(_noted(one)))
        except ERRORS as error:
            raise refusal(error) from error

    async def waiting(self, kinds: Sequence[str]) -> Waiting:
        """What waits to be told.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        counting = select(func.count(), func.min(OutboxRow.created_at)).where(*_pending(kinds))
        try:
            async with self._sessions.begin() as session:
                count, oldest = (await session.execute(counting)).one()
        except ERRORS as error:
            raise refusal(error) from error
        return Waiting(count=count, oldest=oldest)


def _pending(kinds: Sequence[str]) -> list[Any]:
    return [OutboxRow.done_at.is_(None), OutboxRow.parked_at.is_(None), OutboxRow.kind.in_(kinds)]


def _noted(told: Told) -> dict[str, Any]:
    error = {"last_error": without_nul(told.error)[:MAX_ERROR]}
    if told.parked:
        return {"parked_at": func.now(), **error}
    if told.pause_s is None:
        return {"done_at": func.now(), **error}
    return {"next_attempt_at": func.now() + timedelta(seconds=told.pause_s), **error}
