"""Calls are stored in one table of a service's schema; every method is one short transaction."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, TypeVar

import orjson
from sqlalchemy import Column, DateTime, Index, MetaData, String, Table, delete, func, select, text
from sqlalchemy.dialects.postgresql import JSONB

from chassis.calls.values import CallPage, ListCallsRequest
from chassis.database import Sessions, StatementRejected, transaction, utc, without_nul
from chassis.page_tokens import checked_page_size, fitting, id_in
from chassis.serving.stored import readable
from kernel.errors import RunNotFound

T = TypeVar("T")

# Makes what is shown of a document; raises `RecordUnreadable`.
ReadDocument = Callable[[str, Any], T]

_NUL = b"\\u0000"


def calls_table(schema: str) -> Table:
    """Return the table of the calls of a service, in its schema."""
    return Table(
        "calls",
        MetaData(schema=schema),
        Column("run_id", String(36), primary_key=True),
        Column("kind", String(16), nullable=False),
        Column("key_name", String, nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False, index=True),
        Column("document", JSONB, nullable=False),
        Index("ix_calls_kind", "kind", "run_id"),
        Index("ix_calls_key", "kind", "key_name", "run_id", postgresql_where=text("key_name <> ''")),
    )


class PostgresCalls:
    """This store keeps calls.

    Args:
        sessions: Sessions of the database.
        table: The table that `calls_table` made.
    """

    def __init__(self, sessions: Sessions, table: Table) -> None:
        self._sessions = sessions
        self._table = table
        self._insert = text(
            f"INSERT INTO {table.fullname} (run_id, kind, key_name, created_at, document)"
            " SELECT d->>'run_id', d->>'kind', d->>'key_name', (d->>'created_at')::timestamptz, d->'document'"
            " FROM jsonb_array_elements(CAST(:documents AS jsonb)) AS d ON CONFLICT (run_id) DO NOTHING"
        )

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store calls, given as JSON; those that are stored already stay as they are.

        Returns:
            The documents that PostgreSQL rejects, and always will.

        Raises:
            DatabaseUnavailable: When the database is away, or its schema is not there yet.
        """
        if not documents:
            return ()
        accepted = b",".join(map(_without_nul, documents))
        try:
            async with transaction(self._sessions) as session:
                await session.execute(self._insert, {"documents": f"[{accepted.decode()}]"})
        except StatementRejected:
            if len(documents) > 1:
                return [bad for document in documents for bad in await self.add([document])]
            return documents
        return ()

    async def get(self, kind: str, run_id: str, read: ReadDocument[T], *, key_name: str = "") -> T:
        """Return a call, if its request had the key of that name; an empty name finds the calls of all keys.

        Raises:
            RunNotFound: When there is none.
            RecordUnreadable: When another version stored it in a form that this one cannot read.
            DatabaseUnavailable: When the database is away.
        """
        calls = self._table.c
        named = (calls.run_id == without_nul(run_id), calls.kind == kind)
        async with transaction(self._sessions) as session:
            found = (await session.execute(select(calls.key_name, calls.document).where(*named))).first()
        if found is None or (key_name and found.key_name != key_name):
            raise RunNotFound(f"there is no {kind} {run_id!r}", run_id=run_id)
        return read(run_id, found.document)

    async def page(
        self, kind: str, request: ListCallsRequest, read: ReadDocument[T], *, key_name: str = ""
    ) -> CallPage[T]:
        """Return a page of the calls of a key, newest first; an empty name finds the calls of all keys.

        Calls that this version cannot read are left out and counted.

        Raises:
            MalformedRequest: For a page size out of range.
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database is away.
        """
        size, calls = checked_page_size(request.page_size), self._table.c
        conditions = [
            calls.kind == kind,
            *([calls.key_name == key_name] if key_name else []),
            *([calls.run_id < id_in(request.page_token)] if request.page_token else []),
            *([calls.created_at >= utc(request.since)] if request.since else []),
            *([calls.created_at < utc(request.until)] if request.until else []),
        ]
        newest_first = calls.run_id.desc()
        sizes = select(calls.run_id, func.pg_column_size(calls.document)).where(*conditions).order_by(newest_first)
        async with transaction(self._sessions) as session:
            sized = [(row[0], row[1]) for row in await session.execute(sizes.limit(size + 1))]
            names = fitting(sized, size)
            query = select(calls.run_id, calls.document).where(calls.run_id.in_(names)).order_by(newest_first)
            wanted = (await session.execute(query)).all()
        shown = readable(wanted, lambda row: read(row.run_id, row.document))
        return CallPage(
            calls=shown,
            next_page_token=names[-1] if len(sized) > len(names) else "",
            unreadable=len(wanted) - len(shown),
        )


class PostgresOldCalls:
    """This store deletes calls that are too old. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, sessions: Sessions, table: Table) -> None:
        self._sessions = sessions
        self._table = table

    def lock(self) -> AbstractAsyncContextManager[bool]:
        """Lock nothing: replicas may delete at the same time."""
        return nullcontext(True)

    async def clock(self) -> datetime:
        """Return the time of the database's clock."""
        async with transaction(self._sessions) as session:
            return (await session.scalars(select(func.clock_timestamp(type_=DateTime(timezone=True))))).one()

    async def delete_older(self, days: int, most: int) -> int:
        """Delete at most `most` calls older than `days`, oldest first; return how many."""
        calls = self._table.c
        is_old = calls.created_at < func.now() - func.make_interval(0, 0, 0, days)
        old = (
            select(calls.run_id).where(is_old).order_by(calls.created_at).limit(most).with_for_update(skip_locked=True)
        )
        async with transaction(self._sessions) as session:
            connection = await session.connection()
            return (await connection.execute(delete(self._table).where(calls.run_id.in_(old)))).rowcount

    async def forget_older(self, days: int) -> None:
        """Do nothing: all that is there belongs to a call."""


def _without_nul(document: bytes) -> bytes:
    """Return `document` without the one character that PostgreSQL cannot store."""
    return orjson.dumps(without_nul(orjson.loads(document))) if _NUL in document else document
