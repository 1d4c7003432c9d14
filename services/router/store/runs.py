"""Runs in PostgreSQL; every method is one short transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Boolean, DateTime, Float, Index, String, Table, select
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, mapped_column

from chassis.db import ERRORS, Sessions, StatementRejected, refusal
from chassis.wire import from_plain
from kernel.errors import Code, MetacogError
from services.router.service.values import ListRunsRequest, ListRunsResponse, Run
from services.router.store.tables import Base, InvalidPageToken, checked_page_size, utc, without_nul

UNIQUE_VIOLATION = "23505"


class RunNotFound(MetacogError):
    """There is no such run."""

    code = Code.NOT_FOUND
    reason = "RUN_NOT_FOUND"


class RunRow(Base):
    """One run: what it is searched by, and all of it as a document."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_request", "key_name", "request_id", unique=True, postgresql_where="request_id <> ''"),
    )

    run_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    request_id: Mapped[str] = mapped_column(String, default="")
    key_name: Mapped[str] = mapped_column(String, default="")
    system: Mapped[str] = mapped_column(String(16), default="")
    strategy: Mapped[str] = mapped_column(String(16), default="")
    degraded: Mapped[bool] = mapped_column(Boolean, default=False)
    activation: Mapped[float | None] = mapped_column(Float)
    document: Mapped[dict[str, Any]] = mapped_column(JSONB)


class PostgresRuns:
    """Runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Keep runs, given as JSON; those that are there already stay as they are.

        Returns:
            The documents that PostgreSQL refuses, and always will.

        Raises:
            DatabaseUnavailable: When the database is away, or its schema is not there yet.
        """
        rows = {document: _row_of(document) for document in documents}
        strange = [document for document, row in rows.items() if row is None]
        if strange:
            return [*strange, *(await self.add([document for document in documents if document not in strange]))]
        if not rows:
            return ()
        try:
            await self._insert([row for row in rows.values() if row is not None])
        except StatementRejected as rejected:
            if len(documents) > 1:
                return [bad for document in documents for bad in await self.add([document])]
            return await self._add_repetition(documents[0]) if rejected.state == UNIQUE_VIOLATION else documents
        return ()

    async def _add_repetition(self, document: bytes) -> Sequence[bytes]:
        """Keep a run whose request another replica answered at the same time; it gives up the request's name."""
        run = orjson.loads(document)
        if not run["request_id"]:
            return [document]
        return await self.add([orjson.dumps({**run, "request_id": ""})])

    async def _insert(self, rows: Sequence[dict[str, Any]]) -> None:
        table = RunRow.__table__
        assert isinstance(table, Table)
        try:
            async with self._sessions.begin() as session:
                await session.execute(insert(table).on_conflict_do_nothing(index_elements=[table.c.run_id]), rows)
        except ERRORS as error:
            raise refusal(error) from error

    async def get(self, run_id: str, *, key_name: str = "") -> Run:
        """The run called `run_id`, if it came in with the key of that name; without keys everybody sees all.

        Raises:
            RunNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                row = await session.get(RunRow, without_nul(run_id))
        except ERRORS as error:
            raise refusal(error) from error
        if row is None or (key_name and row.key_name != key_name):
            raise RunNotFound(f"there is no run {run_id!r}", run_id=run_id)
        return from_plain(row.document, Run)

    async def by_request(self, key_name: str, request_id: str) -> Run | None:
        """The run that answered a request of a key, if there is one.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        wanted = select(RunRow).where(RunRow.key_name == key_name, RunRow.request_id == without_nul(request_id))
        try:
            async with self._sessions.begin() as session:
                row = (await session.scalars(wanted)).first()
        except ERRORS as error:
            raise refusal(error) from error
        return None if row is None else from_plain(row.document, Run)

    async def page(self, ask: ListRunsRequest, *, key_name: str = "") -> ListRunsResponse:
        """A page of the runs that came in with a key, newest first; without keys everybody sees all.

        Raises:
            MalformedRequest: For a page size out of range.
            InvalidPageToken: For a token that is no run's name.
            DatabaseUnavailable: When the database is away.
        """
        checked_page_size(ask.page_size)
        wanted = (
            select(RunRow).where(*_conditions(ask, key_name)).order_by(RunRow.run_id.desc()).limit(ask.page_size + 1)
        )
        try:
            async with self._sessions.begin() as session:
                rows = (await session.scalars(wanted)).all()
        except ERRORS as error:
            raise refusal(error) from error
        shown = rows[: ask.page_size]
        return ListRunsResponse(
            runs=[from_plain(row.document, Run) for row in shown],
            next_page_token=shown[-1].run_id if len(rows) > ask.page_size else "",
        )


def _row_of(document: bytes) -> dict[str, Any] | None:
    """Row of a run given as JSON; None for what is no run of this version."""
    try:
        return _row(orjson.loads(document))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _row(given: dict[str, Any]) -> dict[str, Any]:
    """Row of a run; one that ended in a refusal answers no request, and leaves its identifier to the next attempt."""
    document = without_nul(given)
    route = document["route"] or {}
    return {
        "run_id": document["run_id"],
        "created_at": datetime.fromisoformat(document["created_at"]),
        "request_id": "" if document["error_reason"] else document["request_id"],
        "key_name": document["key_name"],
        "system": route.get("system", ""),
        "strategy": document["strategy"],
        "degraded": document["degraded"],
        "activation": (route.get("activation") or {}).get("value"),
        "document": document,
    }


def _conditions(ask: ListRunsRequest, key_name: str) -> list[Any]:
    conditions: list[Any] = [RunRow.key_name == key_name] if key_name else []
    if ask.page_token:
        if len(ask.page_token) != 36:
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        conditions.append(RunRow.run_id < without_nul(ask.page_token))
    if ask.system:
        conditions.append(RunRow.system == ask.system)
    if ask.strategy:
        conditions.append(RunRow.strategy == without_nul(ask.strategy))
    if ask.degraded is not None:
        conditions.append(RunRow.degraded == ask.degraded)
    if ask.since:
        conditions.append(RunRow.created_at >= utc(ask.since))
    if ask.until:
        conditions.append(RunRow.created_at < utc(ask.until))
    return conditions
