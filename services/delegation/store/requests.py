"""These stores keep request identifiers and the round-robin counter in PostgreSQL, shared by all replicas."""

import asyncio
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction
from chassis.idempotency import RequestTakenOver, check_digest
from services.delegation.service.task_records import TaskDocument
from services.delegation.store.tables import RequestRow, RoundRobinRow, TaskRow

# Time between two checks of whether another replica has answered a request [s].
POLL_S = 0.1
# Rounds after which the count starts again.
MAX_ROUNDS = 100_000


class PostgresRequests:
    """This store keeps requests by their identifiers."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> str | None:
        """Return a claim where the caller shall answer the request; None while another does, or when it is answered.

        A request whose lease has expired without an answer was lost; the caller shall answer it. The claim is the end
        of the lease, which no other claim of the request has: each begins after the one before has ended.

        Raises:
            RequestIdReused: When the identifier belongs to another request.
            DatabaseUnavailable: When the database cannot be reached.
        """
        now = func.clock_timestamp()
        row = {
            "key_name": key_name,
            "request_id": request_id,
            "digest": digest,
            "expires_at": now + timedelta(seconds=lease_s),
            "task_id": "",
        }
        lost = (RequestRow.task_id == "") & (RequestRow.expires_at < now) & (RequestRow.digest == digest)
        claiming = (
            insert(RequestRow)
            .values(row)
            .on_conflict_do_update(
                index_elements=[RequestRow.key_name, RequestRow.request_id],
                set_={"expires_at": row["expires_at"]},
                where=lost,
            )
            .returning(RequestRow.expires_at)
        )
        async with transaction(self._sessions) as session:
            expires_at = (await session.scalars(claiming)).first()
            if expires_at is not None:
                return expires_at.isoformat()
            stored = await session.get(RequestRow, (key_name, request_id))
        if stored is not None:
            check_digest(stored.digest, digest, request_id)
        return None

    async def answered(self, key_name: str, request_id: str) -> TaskDocument | None:
        """Return the document of the task that answered a request; None while there is none.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        wanted = (
            select(TaskRow.document)
            .join(RequestRow, RequestRow.task_id == TaskRow.task_id)
            .where(RequestRow.key_name == key_name, RequestRow.request_id == request_id)
        )
        async with transaction(self._sessions) as session:
            return (await session.scalars(wanted)).first()

    async def leave(self, key_name: str, request_id: str, claim: str) -> None:
        """Let the next attempt answer a request that was not answered, unless another one has taken it over.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        async with transaction(self._sessions) as session:
            await session.execute(delete(RequestRow).where(*_claimed(key_name, request_id, claim)))

    async def wait(self, key_name: str, request_id: str, *, at_most_s: float) -> None:
        """Wait a short while, since another replica may be answering the request."""
        await asyncio.sleep(min(POLL_S, at_most_s))


async def answer_request(session: AsyncSession, key_name: str, request_id: str, claim: str, task_id: str) -> None:
    """Store the task that answers a request, in the transaction that stores the task.

    Raises:
        RequestTakenOver: When the claim has been taken over; the transaction is not to be committed.
    """
    answering = update(RequestRow).where(*_claimed(key_name, request_id, claim)).values(task_id=task_id)
    if not (await session.scalars(answering.returning(RequestRow.request_id))).first():
        message = f"another attempt answers the request with request_id {request_id!r}, since this one was held up"
        raise RequestTakenOver(message, request_id=request_id)


def _claimed(key_name: str, request_id: str, claim: str) -> tuple[ColumnElement[bool], ...]:
    return (
        RequestRow.key_name == key_name,
        RequestRow.request_id == request_id,
        RequestRow.task_id == "",
        RequestRow.expires_at == datetime.fromisoformat(claim),
    )


class PostgresRoundRobin:
    """This store gives tasks to agents in turn, with one counter for all replicas."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def next(self, agents: list[str]) -> int:
        """Return the index in `agents` of the agent that is next.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        digest = sha256("\x1f".join(agents).encode()).hexdigest()
        counting = (
            insert(RoundRobinRow)
            .values(agents_digest=digest, position=0)
            .on_conflict_do_update(
                index_elements=[RoundRobinRow.agents_digest],
                set_={"position": (RoundRobinRow.position + 1) % (len(agents) * MAX_ROUNDS)},
            )
            .returning(RoundRobinRow.position)
        )
        async with transaction(self._sessions) as session:
            position = (await session.scalars(counting)).one()
        return position % len(agents)
