"""Runs are stored in PostgreSQL; every method is one short transaction."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Float,
    Index,
    ScalarSelect,
    Select,
    String,
    case,
    cast,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from chassis.database import BACKGROUND_WITHIN_S, Sessions, StatementRejected, transaction, utc, without_nul
from chassis.json_text import dumps
from chassis.page_tokens import ID_LENGTH, checked_page_size, invalid_token
from chassis.serving.stored import from_stored, readable
from kernel.errors import RunNotFound
from services.router.service.answering.idempotency import LOOKUP_WITHIN_S
from services.router.service.answering.measured_state import EARLIER_WITHIN_S, MOST_EARLIER, AskedQuestion
from services.router.service.runs.redaction import without_contents
from services.router.service.runs.values import ListRunsRequest, ListRunsResponse, Run
from services.router.store.feedback_tables import OutboxRow, RunFeedbackRow
from services.router.store.knowledge_tables import ExperienceRow
from services.router.store.tables import RouterTable

UNIQUE_VIOLATION = "23505"
# The caller's identifier of the request, also of a run that ended in an error; spelled as its index is.
CALLER_REQUEST_ID = literal_column("router.runs.document->>'request_id'", String)
# Of the runs whose answer votes gave, spelled as their index is.
MESSAGES_DIGEST: Any = literal_column("router.runs.document->>'messages_digest'", String)
WINNER_DIGEST = literal_column("router.runs.document->>'winner_digest'", String)
HAS_WINNER = text("router.runs.document->>'winner_digest' <> '' AND router.runs.shadow_of = ''")
# Runs that were drawn at random to be labelled, spelled as their index is.
IS_SAMPLED = text("router.runs.document->>'sampled' = 'true'")
IS_NOT_SAMPLED = text("router.runs.document->>'sampled' IS DISTINCT FROM 'true'")
# What was called; nothing in runs of earlier versions.
CALL = literal_column("router.runs.document->>'call'", String)
FEEDBACK_FIELDS = ("feedback_id", "score", "note", "key_name", "teaches", "created_at", "origin")


class RunRow(RouterTable):
    """A run has the columns that it is searched by, and all of it as a document."""

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
        Index("ix_runs_shadow", "run_id", postgresql_where="shadow_of <> ''"),
        Index("ix_runs_sampled", "run_id", postgresql_where="document->>'sampled' = 'true'"),
        Index(
            "ix_runs_question",
            "key_name",
            text("(document->>'messages_digest')"),
            "config_version",
            "run_id",
            postgresql_where="document->>'winner_digest' <> '' AND shadow_of = ''",
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
    shadow_of: Mapped[str] = mapped_column(String(36), server_default="")
    document: Mapped[dict[str, Any]] = mapped_column(JSONB)


# Everything but shadow runs, which count and teach nothing.
IS_SERVED: ColumnElement[bool] = RunRow.shadow_of == ""
IS_SHADOW: ColumnElement[bool] = RunRow.shadow_of != ""


class PostgresRuns:
    """This store keeps runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store runs, given as JSON; those that are stored already stay as they are.

        Returns:
            The documents that PostgreSQL rejects, and always will.

        Raises:
            DatabaseUnavailable: When the database is away, or its schema is not there yet.
        """
        if not documents:
            return ()
        try:
            async with transaction(self._sessions) as session:
                await insert_runs(session, documents)
        except StatementRejected as rejected:
            if len(documents) > 1:
                return [bad for document in documents for bad in await self.add([document])]
            return await self._add_repetition(documents[0]) if rejected.state == UNIQUE_VIOLATION else documents
        return ()

    async def _add_repetition(self, document: bytes) -> Sequence[bytes]:
        """Store a run without the identifier of its request, which another replica answered at the same time."""
        run = orjson.loads(document)
        if not run["request_id"]:
            return [document]
        return await self.add([orjson.dumps({**run, "request_id": ""})])

    async def get(self, run_id: str, *, key_name: str = "") -> Run:
        """Return the run `run_id`, if its request had the key of that name; an empty name finds the runs of all keys.

        Raises:
            RunNotFound: When there is none.
            RecordUnreadable: When another version stored it in a form that this one cannot read.
            DatabaseUnavailable: When the database is away.
        """
        query = _runs_with_feedback().where(RunRow.run_id == without_nul(run_id))
        async with transaction(self._sessions) as session:
            found = (await session.execute(query)).first()
        if found is None or (key_name and found[0].key_name != key_name):
            raise RunNotFound(f"there is no run {run_id!r}", run_id=run_id)
        return _run(found[0].run_id, found[0].document, found[1])

    async def by_request(self, key_name: str, request_id: str) -> Run | None:
        """Return the run that answered a request of a key, if there is one.

        Raises:
            RecordUnreadable: When another version stored it in a form that this one cannot read.
            DatabaseUnavailable: When the database is away.
        """
        query = select(RunRow).where(RunRow.key_name == key_name, RunRow.request_id == without_nul(request_id))
        async with transaction(self._sessions.within(LOOKUP_WITHIN_S)) as session:
            row = (await session.scalars(query)).first()
        return None if row is None else from_stored(row.document, Run, record="run", record_id=row.run_id)

    async def earlier_winners(self, asked: AskedQuestion) -> Sequence[str]:
        """Return the digests of the winning answers of earlier served runs of a question, the newest 50.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        query = (
            select(WINNER_DIGEST)
            .select_from(RunRow)
            .where(
                RunRow.key_name == asked.key_name,
                asked.messages_digest == MESSAGES_DIGEST,
                RunRow.config_version == asked.config_version,
                HAS_WINNER,
            )
            .order_by(RunRow.run_id.desc())
            .limit(MOST_EARLIER)
        )
        async with transaction(self._sessions.within(EARLIER_WITHIN_S)) as session:
            return (await session.scalars(query)).all()

    async def forget(self, run_id: str) -> None:
        """Delete what a run and its shadows say, the notes on them, and the experience made of them; numbers stay.

        Raises:
            RecordUnreadable: When another version stored one in a form that this one cannot read.
            DatabaseUnavailable: When the database is away; then nothing was deleted.
        """
        wanted = or_(RunRow.run_id == run_id, RunRow.shadow_of == run_id)
        async with transaction(self._sessions) as session:
            rows = (await session.scalars(select(RunRow).where(wanted).with_for_update())).all()
            for row in rows:
                run = from_stored(row.document, Run, record="run", record_id=row.run_id)
                row.document = orjson.loads(dumps(without_contents(run)))
            names = [row.run_id for row in rows]
            await session.execute(update(RunFeedbackRow).where(RunFeedbackRow.run_id.in_(names)).values(note=""))
            await session.execute(delete(ExperienceRow).where(ExperienceRow.run_id.in_(names)))

    async def page(self, request: ListRunsRequest, *, key_name: str = "") -> ListRunsResponse:
        """Return a page of the runs of a key, newest first; an empty name finds the runs of all keys.

        Runs that this version cannot read are left out and counted; none has its `continuation` or `response_request`.

        Raises:
            MalformedRequest: For a page size out of range.
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database is away.
        """
        checked_page_size(request.page_size)
        query = _listed_runs().where(*_conditions(request, key_name)).order_by(RunRow.run_id.desc())
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query.limit(request.page_size + 1))).all()
        wanted = rows[: request.page_size]
        shown = readable(wanted, lambda row: _run(row.run_id, row.listed, row.feedback))
        return ListRunsResponse(
            runs=shown,
            next_page_token=wanted[-1].run_id if len(rows) > request.page_size else "",
            unreadable=len(wanted) - len(shown),
        )


def _runs_with_feedback() -> Select[tuple[RunRow, Any]]:
    """Select runs, each with the feedback on it, oldest first."""
    return select(RunRow, _feedback())


def _listed_runs() -> Select[tuple[str, Any, Any]]:
    """Select runs as they are listed: without the conversations, of which one can have megabytes."""
    # A document that is no object, which another version may have left, has no field to leave out.
    shorter = RunRow.document.op("-", return_type=JSONB())(cast(["continuation", "response_request"], ARRAY(String)))
    listed = case((func.jsonb_typeof(RunRow.document) == "object", shorter), else_=RunRow.document)
    return select(RunRow.run_id, listed.label("listed"), _feedback().label("feedback"))


def _feedback() -> ScalarSelect[Any]:
    feedback = func.jsonb_build_object(
        *(part for name in FEEDBACK_FIELDS for part in (literal(name), getattr(RunFeedbackRow, name)))
    )
    ordered = aggregate_order_by(feedback, RunFeedbackRow.created_at, RunFeedbackRow.feedback_id)
    return select(func.jsonb_agg(ordered)).where(RunFeedbackRow.run_id == RunRow.run_id).scalar_subquery()


def _run(run_id: str, document: object, feedback: list[Any] | None) -> Run:
    if isinstance(document, Mapping):
        document = {**document, "feedback": feedback or []}
    return from_stored(document, Run, record="run", record_id=run_id)


def _conditions(request: ListRunsRequest, key_name: str) -> list[Any]:
    conditions: list[Any] = [IS_SHADOW if request.shadow else IS_SERVED]
    if key_name:
        conditions.append(RunRow.key_name == key_name)
    if request.page_token:
        if len(request.page_token) != ID_LENGTH:
            raise invalid_token(request.page_token)
        conditions.append(RunRow.run_id < without_nul(request.page_token))
    if request.degraded is not None:
        conditions.append(RunRow.degraded == request.degraded)
    if request.judged is not None:
        has_feedback = select(RunFeedbackRow.run_id).where(RunFeedbackRow.run_id == RunRow.run_id).exists()
        conditions.append(has_feedback if request.judged else ~has_feedback)
    if request.sampled is not None:
        conditions.append(IS_SAMPLED if request.sampled else IS_NOT_SAMPLED)
    return [*conditions, *_equalities(request), *began_within(request.since, request.until)]


def _equalities(request: ListRunsRequest) -> list[Any]:
    equal: list[tuple[Any, str | None]] = [
        (RunRow.system, request.system),
        (RunRow.strategy, request.strategy),
        (RunRow.outcome, request.outcome),
        (RunRow.assessor, request.assessor),
        (RunRow.error_reason, request.error_reason),
        (CALLER_REQUEST_ID, request.request_id),
        (CALL, request.call),
    ]
    return [column == without_nul(item) for column, item in equal if item]


def began_within(since: datetime | None, until: datetime | None) -> list[ColumnElement[bool]]:
    """Return the conditions for runs that began from `since` on and before `until`, as far as they are given."""
    from_then_on = [RunRow.created_at >= utc(since)] if since else []
    return [*from_then_on, *([RunRow.created_at < utc(until)] if until else [])]


def number_in(item: Any) -> ColumnElement[float | None]:  # noqa: ANN401 - a part of a document
    """Return the number at a place of a document; NULL where another version stored something else, or nothing."""
    return case((func.jsonb_typeof(item) == "number", cast(item, Float)))


# The value of each column from a run's document `d`. A run that ended in an error answers no request, and leaves the
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
    "outcome": "CASE WHEN d->>'error_reason' IN ('', 'CANCELLED') THEN d->>'outcome' ELSE '' END",
    "error_reason": "d->>'error_reason'",
    "confidence": "(d->>'confidence')::float",
    "confidence_raw": "coalesce(d->>'confidence_raw', d->>'confidence')::float",
    "confidence_source": "d->>'confidence_source'",
    "assessor": "coalesce(d#>>'{route,assessor}', '')",
    "config_version": "d->>'config_version'",
    "reason": "coalesce(d#>>'{route,reason}', '')",
    "shadow_of": "coalesce(d#>>'{shadow,shadow_of}', '')",
    "document": "d",
}

INSERT = text(
    f"INSERT INTO router.runs ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS.values())} "
    "FROM jsonb_array_elements(CAST(:documents AS jsonb)) AS d ON CONFLICT (run_id) DO NOTHING"
)

_NUL = b"\\u0000"


async def insert_runs(session: AsyncSession, documents: Sequence[bytes]) -> None:
    """Store runs, given as JSON; those that are stored already stay as they are."""
    accepted = b",".join(_without_nul(document) for document in documents)
    await session.execute(INSERT, {"documents": f"[{accepted.decode()}]"})


def _without_nul(document: bytes) -> bytes:
    """Return `document` without the one character that PostgreSQL cannot store."""
    return orjson.dumps(without_nul(orjson.loads(document))) if _NUL in document else document


# One replica at a time deletes old runs; any number that is not used for another lock.
LOCK = 0x6D63_666F_7267


class PostgresOldRuns:
    """This store deletes runs that are too old from the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[bool]:
        """Lock deletion for all other replicas until the block ends; False when another one holds the lock.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions.within(None)) as session:
            await session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield bool(await session.scalar(select(func.pg_try_advisory_xact_lock(LOCK))))

    async def clock(self) -> datetime:
        """Return the time of the database's clock.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return (await session.scalars(select(func.clock_timestamp(type_=DateTime(timezone=True))))).one()

    async def older(self, age: timedelta, most: int) -> Sequence[str]:
        """Return identifiers of at most `most` runs older than an age by the database's clock, oldest first.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        is_older = RunRow.created_at < func.now() - age
        query = select(RunRow.run_id).where(is_older).order_by(RunRow.created_at).limit(most)
        async with transaction(self._sessions.within(BACKGROUND_WITHIN_S)) as session:
            return (await session.scalars(query)).all()

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, the feedback on them (by its foreign key), and their messages that are delivered or parked.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        ended = or_(OutboxRow.delivered_at.is_not(None), OutboxRow.parked_at.is_not(None))
        async with transaction(self._sessions.within(BACKGROUND_WITHIN_S)) as session:
            await session.execute(delete(OutboxRow).where(OutboxRow.run_id.in_(run_ids), ended))
            await session.execute(delete(RunRow).where(RunRow.run_id.in_(run_ids)))
