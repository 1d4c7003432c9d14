"""Tasks and verdicts in PostgreSQL; a verdict and what is learned from it are one transaction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import ERRORS, Sessions, refusal, without_nul
from chassis.errors import FeedbackConflict
from chassis.idempotency import RequestIdReused
from chassis.json_text import dumps
from chassis.serving.wire import from_plain
from kernel.confidence.rules import Checker
from kernel.learning.drift import DriftLimits
from services.delegation.errors import TaskNotFound
from services.delegation.metrics import JUDGED
from services.delegation.service.task_records import Belief, Document, TaskRecord
from services.delegation.service.values import AnswerLabel, ProfileUpdate, TaskFeedbackRequest, TaskFeedbackResponse
from services.delegation.store.learning import Teaching, teach
from services.delegation.store.requests import answer_request
from services.delegation.store.tables import JudgementRow, TaskFeedbackRow, TaskRow


class _Overtaken(Exception):
    """The same feedback about another task came first; everything done for this one is undone."""


class PostgresTasks:
    """Tasks in the delegation service's schema.

    Args:
        sessions: Sessions of the database.
        drift: When a change of competence counts as one.
    """

    def __init__(self, sessions: Sessions, drift: DriftLimits) -> None:
        self._sessions = sessions
        self._drift = drift

    async def keep(
        self, record: TaskRecord, document: Document, label: AnswerLabel | None, *, teaches: bool, request_id: str
    ) -> Sequence[ProfileUpdate]:
        """Keep a task as the answer to a request, and learn from the verdict on it, if there is one; all or nothing.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        known = label is not None and label.correct is not None
        counts = known and teaches and not record.untaught_reason
        row = {
            **asdict(record),
            "correct": label.correct if label else None,
            "checker": label.checker if label and known else "",
            "detail": without_nul(label.detail) if label and known else "",
            "judged_at": label.judged_at if label and known else None,
            "taught": counts,
        }
        try:
            async with self._sessions.begin() as session:
                updates: list[ProfileUpdate] = []
                if label is not None and label.correct is not None and teaches:
                    await _hold_against(session, record, label.correct)
                    updates = await self._teach(session, record, label.correct, "") if counts else []
                told = without_nul(dict(document(updates)))
                await session.execute(insert(TaskRow).values({**row, "document": told}))
                if request_id:
                    await answer_request(session, record.key_name, request_id, record.task_id)
        except ERRORS as error:
            raise refusal(error) from error
        return updates

    async def judge(
        self, ask: TaskFeedbackRequest, *, key_name: str, teaches: bool, digest: str
    ) -> TaskFeedbackResponse:
        """Keep a verdict from outside and learn from it, both or neither; a repetition repeats the first reply.

        Raises:
            TaskNotFound: When there is no such task for the key.
            RequestIdReused: When the identifier belongs to another verdict.
            FeedbackConflict: When the task has a different label already.
            DatabaseUnavailable: When the database is away.
        """
        try:
            for _ in range(2):
                with suppress(_Overtaken):
                    async with self._sessions.begin() as session:
                        return await self._judged(session, ask, key_name, teaches, digest)
        except ERRORS as error:
            raise refusal(error) from error
        raise AssertionError("what stood in the way of a verdict is there")

    async def _judged(
        self, session: AsyncSession, ask: TaskFeedbackRequest, key_name: str, teaches: bool, digest: str
    ) -> TaskFeedbackResponse:
        """One verdict after another on each task: its row is locked."""
        wanted = select(TaskRow).where(TaskRow.task_id == without_nul(ask.task_id), TaskRow.key_name == key_name)
        task = (await session.scalars(wanted.with_for_update())).first()
        told = await _earlier(session, key_name, ask.feedback_id, digest)
        if told is not None:
            return told
        if task is None:
            raise TaskNotFound(f"there is no task {ask.task_id!r}", task_id=ask.task_id)
        if task.correct is not None and task.correct != ask.correct:
            said = f"task {task.task_id!r} has a different label already, from {task.checker}"
            raise FeedbackConflict(said, task_id=task.task_id, correct=str(task.correct).lower())
        reply = await self._applied(session, task, ask, teaches)
        row = {"key_name": key_name, "teaches": teaches, "request_digest": digest, "reply": _plain(reply)}
        if not await _inserted(session, ask, row):
            raise _Overtaken
        JUDGED.labels(Checker.FEEDBACK, str(ask.correct).lower()).inc()
        return reply

    async def _applied(
        self, session: AsyncSession, task: TaskRow, ask: TaskFeedbackRequest, teaches: bool
    ) -> TaskFeedbackResponse:
        record = _record(task)
        if task.correct is None:
            task.correct, task.checker, task.judged_at = ask.correct, Checker.FEEDBACK, datetime.now(UTC)
            task.detail = without_nul(ask.note)
            if teaches:
                await _hold_against(session, record, ask.correct)
        reason = record.untaught_reason or _reason(task, teaches)
        updates: list[ProfileUpdate] = []
        if not reason:
            task.taught = True
            updates = await self._teach(session, record, ask.correct, ask.feedback_id)
            reason = "" if updates else "frozen"
        assert task.judged_at is not None
        label = AnswerLabel(
            correct=task.correct, checker=Checker(task.checker), detail=task.detail, judged_at=task.judged_at
        )
        return TaskFeedbackResponse(
            feedback_id=ask.feedback_id,
            task_id=task.task_id,
            label=label,
            profile_updates=updates,
            not_learned_reason=reason,
        )

    async def _teach(
        self, session: AsyncSession, record: TaskRecord, correct: bool, feedback_id: str
    ) -> list[ProfileUpdate]:
        teaching = Teaching(
            lessons=record.lessons(correct),
            dimensions=record.dimensions,
            learning_rate=record.learning_rate,
            task_id=record.task_id,
            feedback_id=feedback_id,
        )
        return await teach(session, teaching, self._drift)


def _reason(task: TaskRow, teaches: bool) -> str:
    if not teaches:
        return "may_not_teach"
    return "already_judged" if task.taught else ""


def _record(task: TaskRow) -> TaskRecord:
    names = [name for name in TaskRecord.__dataclass_fields__ if name != "beliefs"]
    beliefs = [from_plain(belief, Belief) for belief in task.beliefs]
    return TaskRecord(**{name: getattr(task, name) for name in names}, beliefs=beliefs)


async def _earlier(session: AsyncSession, key_name: str, feedback_id: str, digest: str) -> TaskFeedbackResponse | None:
    row = await session.get(TaskFeedbackRow, (key_name, feedback_id))
    if row is None:
        return None
    if row.request_digest != digest:
        said = f"feedback_id {feedback_id!r} was used for other feedback; choose a new one"
        raise RequestIdReused(said, feedback_id=feedback_id, task_id=row.task_id)
    return from_plain(row.reply, TaskFeedbackResponse)


async def _inserted(session: AsyncSession, ask: TaskFeedbackRequest, given: Mapping[str, Any]) -> bool:
    row = {
        **given,
        "feedback_id": ask.feedback_id,
        "task_id": ask.task_id,
        "correct": ask.correct,
        "note": without_nul(ask.note),
        "created_at": datetime.now(UTC),
    }
    adding = insert(TaskFeedbackRow).values(row).on_conflict_do_nothing().returning(TaskFeedbackRow.feedback_id)
    return (await session.scalars(adding)).first() is not None


async def _hold_against(session: AsyncSession, record: TaskRecord, correct: bool) -> None:
    """Hold each confidence against how it turned out: a voter's against what it learns, others against the verdict."""
    outcomes = {lesson.agent: bool(lesson.outcome) for lesson in record.lessons(correct)} | {"": correct}
    rows = [
        {
            "task_id": record.task_id,
            "agent": belief.agent,
            "source": belief.source,
            "dimensions": list(record.dimensions),
            "confidence": belief.confidence,
            "raw": belief.raw,
            "correct": outcomes[belief.agent],
            "created_at": record.created_at,
        }
        for belief in record.beliefs
        if belief.agent in outcomes
    ]
    if rows:
        await session.execute(insert(JudgementRow).values(rows).on_conflict_do_nothing())


def _plain(reply: TaskFeedbackResponse) -> dict[str, Any]:
    plain: dict[str, Any] = orjson.loads(dumps(reply))
    return plain
