"""Runs in PostgreSQL; every method is one short transaction."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import (
    Boolean,
    DateTime,
    Float,
    Index,
    Select,
    String,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from chassis.database import ERRORS, Sessions, StatementRejected, refusal, utc, without_nul
from chassis.page_tokens import InvalidPageToken
from chassis.serving.wire import from_plain
from services.router.service.runs.lookup import RunNotFound
from services.router.service.runs.values import ListRunsRequest, ListRunsResponse, Run
from services.router.store.feedback_tables import OutboxRow, RunFeedbackRow
from services.router.store.tables import RouterTable, checked_page_size

UNIQUE_VIOLATION = "23505"
# The caller's name for the request, also of a run that was refused; spelled as its index is.
ASKED_AS = literal_column("router.runs.document->>'request_id'", String)
OF_VERDICT = ("feedback_id", "score", "note", "key_name", "teaches", "created_at")


class RunRow(RouterTable):
    """One run: what it is searched by, and all of it as a document."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_request", "key_name", "request_id", unique=True, postgresql_where="request_id <> ''"),
        Index("ix_runs_key", "key_name", "run_id", postgresql_where="key_name <> ''"),
        Index("ix_runs_outcome", "outcome", "run_id", postgresql_where="outcome NOT IN ('', 'ANSWERED')"),
        Index("ix_runs_error", "error_reason", "run_id", postgresql_where="error_reason <> ''"),
        Index("ix_runs_assessor", "assessor", "run_id", postgresql_where="assessor <> ''"),
        Index(
            "ix_runs_caller_request",
            text("(document->>'request_id')"),
            postgresql_where="document->>'request_id' <> ''",
        ),
    )

    run_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    request_id: Mapped[str] = mapped_column(String, default="")
    key_name: Mapped[str] = mapped_column(String, default="")
    system: Mapped[str] = mapped_column(String(16), default="")
    strategy: Mapped[str] = mapped_column(String(16), default="")
    degraded: Mapped[bool] = mapped_column(Boolean, default=False)
    activation: Mapped[float | None] = mapped_column(Float)
    outcome: Mapped[str] = mapped_column(String, server_default="")
    error_reason: Mapped[str] = mapped_column(String, server_default="")
    confidence: Mapped[float | None] = mapped_column(Float)
    confidence_raw: Mapped[float | None] = mapped_column(Float)
    confidence_source: Mapped[str] = mapped_column(String, server_default="")
    assessor: Mapped[str] = mapped_column(String, server_default="")
    config_version: Mapped[str] = mapped_column(String, server_default="")
    reason: Mapped[str] = mapped_column(String, server_default="")
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
        if not documents:
            return ()
        try:
            async with self._sessions.begin() as session:
                await insert_runs(session, documents)
        except ERRORS as error:
            rejected = refusal(error)
            if not isinstance(rejected, StatementRejected):
                raise rejected from error
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

    async def get(self, run_id: str, *, key_name: str = "") -> Run:
        """The run called `run_id`, if it came in with the key of that name; without keys everybody sees all.

        Raises:
            RunNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """
        wanted = _judged_runs().where(RunRow.run_id == without_nul(run_id))
        try:
            async with self._sessions.begin() as session:
                found = (await session.execute(wanted)).first()
        except ERRORS as error:
            raise refusal(error) from error
        if found is None or (key_name and found[0].key_name != key_name):
            raise RunNotFound(f"there is no run {run_id!r}", run_id=run_id)
        return _judged(*found)

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
        wanted = _judged_runs().where(*_conditions(ask, key_name)).order_by(RunRow.run_id.desc())
        try:
            async with self._sessions.begin() as session:
                rows = (await session.execute(wanted.limit(ask.page_size + 1))).all()
        except ERRORS as error:
            raise refusal(error) from error
        shown = [_judged(*row) for row in rows[: ask.page_size]]
        return ListRunsResponse(runs=shown, next_page_token=shown[-1].run_id if len(rows) > ask.page_size else "")


def _judged_runs() -> Select[tuple[RunRow, Any]]:
    """Runs, each with the verdicts on it, oldest first."""
    label = func.jsonb_build_object(
        *(part for name in OF_VERDICT for part in (literal(name), getattr(RunFeedbackRow, name)))
    )
    ordered = aggregate_order_by(label, RunFeedbackRow.created_at, RunFeedbackRow.feedback_id)
    labels = select(func.jsonb_agg(ordered)).where(RunFeedbackRow.run_id == RunRow.run_id).scalar_subquery()
    return select(RunRow, labels)


def _judged(row: RunRow, labels: list[Any] | None) -> Run:
    return from_plain({**row.document, "feedback": labels or []}, Run)


def _conditions(ask: ListRunsRequest, key_name: str) -> list[Any]:
    conditions: list[Any] = [RunRow.key_name == key_name] if key_name else []
    if ask.page_token:
        if len(ask.page_token) != 36:
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        conditions.append(RunRow.run_id < without_nul(ask.page_token))
    if ask.degraded is not None:
        conditions.append(RunRow.degraded == ask.degraded)
    if ask.judged is not None:
        has_verdict = select(RunFeedbackRow.run_id).where(RunFeedbackRow.run_id == RunRow.run_id).exists()
        conditions.append(has_verdict if ask.judged else ~has_verdict)
    return [*conditions, *_equalities(ask), *_times(ask)]


def _equalities(ask: ListRunsRequest) -> list[Any]:
    wanted: list[tuple[Any, str | None]] = [
        (RunRow.system, ask.system),
        (RunRow.strategy, ask.strategy),
        (RunRow.outcome, ask.outcome),
        (RunRow.assessor, ask.assessor),
        (RunRow.error_reason, ask.error_reason),
        (ASKED_AS, ask.request_id),
    ]
    return [column == without_nul(item) for column, item in wanted if item]


def _times(ask: ListRunsRequest) -> list[Any]:
    since = [RunRow.created_at >= utc(ask.since)] if ask.since else []
    return [*since, *([RunRow.created_at < utc(ask.until)] if ask.until else [])]


# What each column holds of a run's document `d`. One that ended in a refusal answers no request, and leaves its
# identifier to the next attempt.
COLUMNS: Mapping[str, str] = {
    "run_id": "d->>'run_id'",
    "created_at": "(d->>'created_at')::timestamptz",
    "request_id": "CASE WHEN d->>'error_reason' = '' THEN d->>'request_id' ELSE '' END",
    "key_name": "d->>'key_name'",
    "system": "coalesce(d#>>'{route,system}', '')",
    "strategy": "d->>'strategy'",
    "degraded": "(d->>'degraded')::boolean",
    "activation": "(d#>>'{route,activation,value}')::float",
    "outcome": "CASE WHEN d->>'error_reason' = '' THEN d->>'outcome' ELSE '' END",
    "error_reason": "d->>'error_reason'",
    "confidence": "(d->>'confidence')::float",
    "confidence_raw": "coalesce(d->>'confidence_raw', d->>'confidence')::float",
    "confidence_source": "d->>'confidence_source'",
    "assessor": "coalesce(d#>>'{route,assessor}', '')",
    "config_version": "d->>'config_version'",
    "reason": "coalesce(d#>>'{route,reason}', '')",
    "document": "d",
}

INSERT = text(
    f"INSERT INTO router.runs ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS.values())} "
    "FROM jsonb_array_elements(CAST(:documents AS jsonb)) AS d ON CONFLICT (run_id) DO NOTHING"
)

_NUL = b"\\u0000"


async def insert_runs(session: AsyncSession, documents: Sequence[bytes]) -> None:
    """Keep runs, given as JSON; those that are there already stay as they are."""
    kept = b",".join(_without_nul(document) for document in documents)
    await session.execute(INSERT, {"documents": f"[{kept.decode()}]"})


def _without_nul(document: bytes) -> bytes:
    """`document` without the one character that PostgreSQL cannot keep."""
    return orjson.dumps(without_nul(orjson.loads(document))) if _NUL in document else document


# One replica at a time forgets; any number that nobody else locks by.
LOCK = 0x6D63_666F_7267


class PostgresOldRuns:
    """Runs in the router's schema that may be too old."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[bool]:
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
        over = or_(OutboxRow.delivered_at.is_not(None), OutboxRow.parked_at.is_not(None))
        try:
            async with self._sessions.begin() as session:
                await session.execute(delete(OutboxRow).where(OutboxRow.run_id.in_(run_ids), over))
                await session.execute(delete(RunRow).where(RunRow.run_id.in_(run_ids)))
        except ERRORS as error:
            raise refusal(error) from error
