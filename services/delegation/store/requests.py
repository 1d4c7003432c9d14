"""Requests that were made before, and whose turn it is, in PostgreSQL: the same for all replicas."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import ERRORS, Sessions, refusal
from chassis.idempotency import RequestIdReused
from services.delegation.store.tables import RequestRow, TaskRow, TurnRow

# Rounds after which the count begins anew.
ROUND = 100_000


class PostgresRequests:
    """Requests by the names that callers gave them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> bool:
        """Whether the caller is to answer the request; False while somebody else does, or when somebody has.

        A request whose lease has run out without an answer was lost, and is taken over.

        Raises:
            RequestIdReused: When the identifier belongs to another request.
            DatabaseUnavailable: When the database is away.
        """
        now = datetime.now(UTC)
        row = {
            "key_name": key_name,
            "request_id": request_id,
            "digest": digest,
            "expires_at": now + timedelta(seconds=lease_s),
            "task_id": "",
        }
        lost = (RequestRow.task_id == "") & (RequestRow.expires_at < now) & (RequestRow.digest == digest)
        taking = (
            insert(RequestRow)
            .values(row)
            .on_conflict_do_update(
                index_elements=[RequestRow.key_name, RequestRow.request_id],
                set_={"expires_at": row["expires_at"]},
                where=lost,
            )
            .returning(RequestRow.request_id)
        )
        try:
            async with self._sessions.begin() as session:
                if (await session.scalars(taking)).first() is not None:
                    return True
                held = await session.get(RequestRow, (key_name, request_id))
        except ERRORS as error:
            raise refusal(error) from error
        if held is not None and held.digest != digest:
            said = f"request_id {request_id!r} was used for another request; choose a new one"
            raise RequestIdReused(said, request_id=request_id)
        return False

    async def answered(self, key_name: str, request_id: str) -> dict[str, Any] | None:
        """Document of the task that answered a request; None while there is none.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        wanted = (
            select(TaskRow.document)
            .join(RequestRow, RequestRow.task_id == TaskRow.task_id)
            .where(RequestRow.key_name == key_name, RequestRow.request_id == request_id)
        )
        try:
            async with self._sessions.begin() as session:
                return (await session.scalars(wanted)).first()
        except ERRORS as error:
            raise refusal(error) from error

    async def leave(self, key_name: str, request_id: str) -> None:
        """Leave a request that was not answered to the next attempt.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                await session.execute(delete(RequestRow).where(*_unanswered(key_name, request_id)))
        except ERRORS as error:
            raise refusal(error) from error


async def answer_request(session: AsyncSession, key_name: str, request_id: str, task_id: str) -> None:
    """Remember the task that answers a request, in the transaction that keeps the task."""
    answering = update(RequestRow).where(*_unanswered(key_name, request_id)).values(task_id=task_id)
    await session.execute(answering)


def _unanswered(key_name: str, request_id: str) -> tuple[ColumnElement[bool], ...]:
    return RequestRow.key_name == key_name, RequestRow.request_id == request_id, RequestRow.task_id == ""


class PostgresTurns:
    """Whose turn it is, counted once for all replicas."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def next(self, agents: "list[str]") -> int:
        """Place of the agent whose turn it is among `agents`.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        name = sha256("\x1f".join(agents).encode()).hexdigest()
        counting = (
            insert(TurnRow)
            .values(agents=name, number=0)
            .on_conflict_do_update(
                index_elements=[TurnRow.agents],
                set_={"number": (TurnRow.number + 1) % (len(agents) * ROUND)},
            )
            .returning(TurnRow.number)
        )
        try:
            async with self._sessions.begin() as session:
                number = (await session.scalars(counting)).one()
        except ERRORS as error:
            raise refusal(error) from error
        return number % len(agents)
