"""Verdicts in PostgreSQL; a verdict and what is to be told of it are one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import ERRORS, Sessions, refusal, without_nul
from chassis.errors import FeedbackConflict
from chassis.idempotency import RequestIdReused
from chassis.serving.wire import from_plain
from services.router.core.feedback import is_right
from services.router.service.feedback.feedback import (
    FeedbackEffects,
    FeedbackLabel,
    FeedbackMessage,
    SubmitFeedbackResponse,
)
from services.router.service.feedback.outbox import DeliveryResult, OutboxBacklog, OutboxMessage
from services.router.service.runs.lookup import RunNotFound
from services.router.store.feedback_tables import OutboxRow, RunFeedbackRow
from services.router.store.runs import RunRow


class PostgresFeedback:
    """Verdicts in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def earlier(self, key_name: str, feedback_id: str, digest: str) -> SubmitFeedbackResponse | None:
        """What was said to the same verdict before.

        Raises:
            RequestIdReused: When the identifier belongs to another one.
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                return await _earlier(session, key_name, feedback_id, digest)
        except ERRORS as error:
            raise refusal(error) from error

    async def keep(self, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]) -> SubmitFeedbackResponse:
        """Keep `label` and what is to be told, both or neither; a repetition repeats the first reply.

        Args:
            label: The verdict.
            effects: What it does, given whether it counts: it may teach, and none on its run did before.

        Raises:
            RunNotFound: When the run is gone.
            RequestIdReused: When the identifier belongs to another verdict.
            FeedbackConflict: When the run has a different label already.
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                return await _kept(session, label, effects)
        except ERRORS as error:
            raise refusal(error) from error


async def _kept(
    session: AsyncSession, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]
) -> SubmitFeedbackResponse:
    """One verdict after another on each run: its row is locked."""
    locked = select(RunRow.run_id).where(RunRow.run_id == label.run_id).with_for_update()
    if (await session.scalars(locked)).first() is None:
        raise RunNotFound(f"there is no run {label.run_id!r}", run_id=label.run_id)
    told = await _earlier(session, label.key_name, label.feedback_id, label.request_digest)
    if told is not None:
        return told
    counts = await _counts(session, label)
    made = effects(counts)
    if not await _inserted(session, label, made, counts=counts):
        told = await _earlier(session, label.key_name, label.feedback_id, label.request_digest)
        assert told is not None, "what stood in the way of a verdict is there"
        return told
    await _enqueue(session, label.run_id, made.messages)
    return made.reply


async def _earlier(
    session: AsyncSession, key_name: str, feedback_id: str, digest: str
) -> SubmitFeedbackResponse | None:
    row = await session.get(RunFeedbackRow, (key_name, feedback_id))
    if row is None:
        return None
    if row.request_digest != digest:
        said = f"feedback_id {feedback_id!r} was used for another verdict; choose a new one"
        raise RequestIdReused(said, feedback_id=feedback_id, run_id=row.run_id)
    return from_plain(row.reply, SubmitFeedbackResponse)


async def _counts(session: AsyncSession, label: FeedbackLabel) -> bool:
    """Whether `label` is the one on its run that teaches."""
    others = (await session.scalars(select(RunFeedbackRow).where(RunFeedbackRow.run_id == label.run_id))).all()
    for other in others:
        if is_right(other.score) != is_right(label.score):
            raise FeedbackConflict(
                f"run {label.run_id!r} has a different label already, {other.score:g}",
                run_id=label.run_id,
                score=f"{other.score:g}",
            )
    return label.teaches and not any(other.counts for other in others)


async def _inserted(session: AsyncSession, label: FeedbackLabel, made: FeedbackEffects, *, counts: bool) -> bool:
    row = {**asdict(label), "note": without_nul(label.note), "counts": counts, "reply": asdict(made.reply)}
    adding = insert(RunFeedbackRow).values(row).on_conflict_do_nothing().returning(RunFeedbackRow.feedback_id)
    return (await session.scalars(adding)).first() is not None


async def _enqueue(session: AsyncSession, run_id: str, messages: Sequence[FeedbackMessage]) -> None:
    if messages:
        due = {"run_id": run_id, "created_at": func.now(), "next_attempt_at": func.now()}
        session.add_all(OutboxRow(kind=told.kind, payload=dict(told.payload), **due) for told in messages)


MAX_ERROR = 500


class PostgresOutbox:
    """Messages in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        """Return messages that are due, longest due first; no other replica gets them while the lease lasts.

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
        return [OutboxMessage(**row._mapping) for row in rows]

    async def record(self, results: Sequence[DeliveryResult]) -> None:
        """Record the results of deliveries.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                for result in results:
                    await session.execute(update(OutboxRow).where(OutboxRow.id == result.id).values(_after(result)))
        except ERRORS as error:
            raise refusal(error) from error

    async def backlog(self, kinds: Sequence[str]) -> OutboxBacklog:
        """Return the messages that wait.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        counting = select(func.count(), func.min(OutboxRow.created_at)).where(*_pending(kinds))
        try:
            async with self._sessions.begin() as session:
                count, oldest = (await session.execute(counting)).one()
        except ERRORS as error:
            raise refusal(error) from error
        return OutboxBacklog(count=count, oldest=oldest)


def _pending(kinds: Sequence[str]) -> list[Any]:
    return [OutboxRow.delivered_at.is_(None), OutboxRow.parked_at.is_(None), OutboxRow.kind.in_(kinds)]


def _after(result: DeliveryResult) -> dict[str, Any]:
    error = {"last_error": without_nul(result.error)[:MAX_ERROR]}
    if result.parked:
        return {"parked_at": func.now(), **error}
    if result.pause_s is None:
        return {"delivered_at": func.now(), **error}
    return {"next_attempt_at": func.now() + timedelta(seconds=result.pause_s), **error}
