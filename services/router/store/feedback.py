"""Feedback and its messages are stored in PostgreSQL, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, without_nul
from chassis.idempotency import check_digest
from chassis.serving.stored import from_stored
from kernel.errors import FeedbackConflict, RunNotFound
from services.router.core.feedback import is_right
from services.router.service.feedback.feedback import (
    FeedbackEffects,
    FeedbackLabel,
    FeedbackMessage,
    SubmitFeedbackResponse,
)
from services.router.service.feedback.outbox import DeliveryResult, OutboxBacklog, OutboxMessage
from services.router.store.feedback_tables import OutboxRow, RunFeedbackRow
from services.router.store.promise_labels import add_evidence
from services.router.store.runs import RunRow


class PostgresFeedback:
    """This store keeps feedback in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def earlier(self, key_name: str, feedback_id: str, digest: str) -> SubmitFeedbackResponse | None:
        """Return the response to the same feedback before, if there was one.

        Raises:
            RequestIdReused: When the identifier belongs to other feedback.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await _earlier(session, key_name, feedback_id, digest)

    async def keep(self, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]) -> SubmitFeedbackResponse:
        """Store `label` and its messages, both or neither; a repetition gets the first response.

        Args:
            label: The feedback.
            effects: Its effects, given whether it counts: it may teach, and is the first on its run that may.

        Raises:
            RunNotFound: When the run is gone.
            RequestIdReused: When the identifier belongs to other feedback.
            FeedbackConflict: When the run has a different label already.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await _store(session, label, effects)


async def _store(
    session: AsyncSession, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]
) -> SubmitFeedbackResponse:
    """Store feedback while the row of its run is locked, so that a run gets one after another."""
    locked = select(RunRow.run_id).where(RunRow.run_id == label.run_id).with_for_update()
    if (await session.scalars(locked)).first() is None:
        raise RunNotFound(f"there is no run {label.run_id!r}", run_id=label.run_id)
    identity = (label.key_name, label.feedback_id, label.request_digest)
    if (earlier := await _earlier(session, *identity)) is not None:
        return earlier
    counts = await _counts(session, label)
    result = effects(counts)
    if not await _insert(session, label, result, counts=counts):
        earlier = await _earlier(session, *identity)
        assert earlier is not None, "an insert that conflicts has found a row"
        return earlier
    await _enqueue(session, label.run_id, result.messages)
    await add_evidence(session, result.evidence, label.created_at)
    return result.reply


async def _earlier(
    session: AsyncSession, key_name: str, feedback_id: str, digest: str
) -> SubmitFeedbackResponse | None:
    row = await session.get(RunFeedbackRow, (key_name, feedback_id))
    if row is None:
        return None
    check_digest(
        row.request_digest, digest, feedback_id, field="feedback_id", other="other feedback", run_id=row.run_id
    )
    return from_stored(row.reply, SubmitFeedbackResponse, record="feedback", record_id=feedback_id)


async def _counts(session: AsyncSession, label: FeedbackLabel) -> bool:
    """Return whether `label` is the one on its run that teaches.

    Raises:
        FeedbackConflict: When the run has a different label already.
    """
    others = (await session.scalars(select(RunFeedbackRow).where(RunFeedbackRow.run_id == label.run_id))).all()
    for other in others:
        if is_right(other.score) != is_right(label.score):
            raise FeedbackConflict(
                f"run {label.run_id!r} has a different label already, {other.score:g}",
                run_id=label.run_id,
                score=f"{other.score:g}",
            )
    return label.teaches and not any(other.counts for other in others)


async def _insert(session: AsyncSession, label: FeedbackLabel, result: FeedbackEffects, *, counts: bool) -> bool:
    row = {**asdict(label), "note": without_nul(label.note), "counts": counts, "reply": asdict(result.reply)}
    adding = insert(RunFeedbackRow).values(row).on_conflict_do_nothing().returning(RunFeedbackRow.feedback_id)
    return (await session.scalars(adding)).first() is not None


async def _enqueue(session: AsyncSession, run_id: str, messages: Sequence[FeedbackMessage]) -> None:
    if messages:
        due = {"run_id": run_id, "created_at": func.now(), "next_attempt_at": func.now()}
        session.add_all(OutboxRow(kind=message.kind, payload=dict(message.payload), **due) for message in messages)


MAX_ERROR = 500


class PostgresOutbox:
    """This store keeps messages in the router's schema."""

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
        async with transaction(self._sessions) as session:
            rows = (await session.execute(taking)).all()
        return [OutboxMessage(**row._mapping) for row in rows]

    async def record(self, results: Sequence[DeliveryResult]) -> None:
        """Record the results of deliveries.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            for result in results:
                await session.execute(update(OutboxRow).where(OutboxRow.id == result.id).values(_after(result)))

    async def backlog(self, kinds: Sequence[str]) -> OutboxBacklog:
        """Return the messages that wait.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        counting = select(func.count(), func.min(OutboxRow.created_at)).where(*_pending(kinds))
        async with transaction(self._sessions) as session:
            count, oldest = (await session.execute(counting)).one()
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
