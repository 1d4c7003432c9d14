"""This store keeps tasks and feedback in PostgreSQL; a label and its lessons are one transaction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, utc, without_nul
from chassis.idempotency import check_digest
from chassis.json_text import dumps
from chassis.page_tokens import checked_page_size, fitting, id_in
from chassis.serving.stored import enum_from_stored, from_stored, readable
from kernel.confidence.rules import Checker, NotLearnedReason
from kernel.errors import FeedbackConflict
from kernel.learning.drift import DriftLimits
from services.delegation.errors import TaskNotFound
from services.delegation.metrics import LABELS
from services.delegation.service.task_records import (
    ListTasksRequest,
    ListTasksResponse,
    MakeDocument,
    StoredTask,
    TaskConfidence,
    TaskRecord,
)
from services.delegation.service.values import AnswerLabel, ProfileUpdate, TaskFeedbackRequest, TaskFeedbackResponse
from services.delegation.store.experience import add_experience
from services.delegation.store.learning import LessonBatch, apply_lessons
from services.delegation.store.requests import answer_request
from services.delegation.store.tables import LabelledConfidenceRow, TaskFeedbackRow, TaskRow


class _FeedbackExists(Exception):
    """The same feedback about another task was stored first; the transaction is rolled back."""


class PostgresTasks:
    """This store keeps tasks in the delegation service's schema.

    Args:
        sessions: Sessions of the database.
        drift: When a change of competence counts as one.
        keep_contents: Whether notes are stored, and the experience of agents, which is made of questions.
    """

    def __init__(self, sessions: Sessions, drift: DriftLimits, *, keep_contents: bool = True) -> None:
        self._sessions = sessions
        self._drift = drift
        self._keeps = keep_contents

    async def add(
        self,
        record: TaskRecord,
        document: MakeDocument,
        label: AnswerLabel | None,
        *,
        may_teach: bool,
        request_id: str,
        claim: str,
    ) -> Sequence[ProfileUpdate]:
        """Store a task as the answer to a request, and learn from its label, if there is one; all or nothing.

        Raises:
            RequestTakenOver: When the claim on the request has been taken over; nothing is stored.
            DatabaseUnavailable: When the database cannot be reached.
        """
        known = label is not None and label.correct is not None
        learns = known and may_teach and not record.not_learned_reason
        row = {
            **asdict(record),
            "not_learned_reason": record.not_learned_reason or "",
            "correct": label.correct if label else None,
            "checker": label.checker if label and known else "",
            "detail": without_nul(label.detail) if label and known else "",
            "judged_at": label.judged_at if label and known else None,
            "learned": learns,
        }
        async with transaction(self._sessions) as session:
            updates: list[ProfileUpdate] = []
            if label is not None and label.correct is not None and may_teach:
                await _label_confidences(session, record, label.correct)
                updates = await self._learn(session, record, label.correct, "") if learns else []
            stored = without_nul(dict(document(updates)))
            await session.execute(insert(TaskRow).values({**row, "document": stored}))
            if self._keeps:
                await add_experience(session, record, updates)
            if request_id:
                await answer_request(session, record.key_name, request_id, claim, record.task_id)
        return updates

    async def get(self, task_id: str, *, key_name: str = "") -> StoredTask:
        """Return the task `task_id`, if its request had the key of that name; an empty name finds those of all keys.

        Raises:
            TaskNotFound: When there is none.
            RecordUnreadable: When another version stored it in a form that this one cannot read.
            DatabaseUnavailable: When the database cannot be reached.
        """
        async with transaction(self._sessions) as session:
            row = await session.get(TaskRow, without_nul(task_id))
        if row is None or (key_name and row.key_name != key_name):
            raise TaskNotFound(f"there is no task {task_id!r}", task_id=task_id)
        return _task(row)

    async def page(self, request: ListTasksRequest, *, key_name: str = "") -> ListTasksResponse:
        """Return a page of the tasks of a key, newest first; an empty name finds the tasks of all keys.

        Tasks that this version cannot read are left out and counted.

        Raises:
            MalformedRequest: For a page size out of range.
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database cannot be reached.
        """
        checked_page_size(request.page_size)
        newest_first = TaskRow.task_id.desc()
        conditions = _conditions(request, key_name)
        sizes = select(TaskRow.task_id, func.pg_column_size(TaskRow.document)).where(*conditions).order_by(newest_first)
        async with transaction(self._sessions) as session:
            sized = [(row[0], row[1]) for row in await session.execute(sizes.limit(request.page_size + 1))]
            names = fitting(sized, request.page_size)
            query = select(TaskRow).where(TaskRow.task_id.in_(names)).order_by(newest_first)
            wanted = (await session.scalars(query)).all()
        shown = readable(wanted, _task)
        return ListTasksResponse(
            tasks=shown,
            next_page_token=names[-1] if len(sized) > len(names) else "",
            unreadable=len(wanted) - len(shown),
        )

    async def add_feedback(
        self, request: TaskFeedbackRequest, *, key_name: str, may_teach: bool, digest: str, on_any: bool = False
    ) -> TaskFeedbackResponse:
        """Store feedback and learn from it, both or neither; a repetition returns the first response.

        With `on_any` the task may be another key's.

        Raises:
            TaskNotFound: When there is no such task for the key.
            RequestIdReused: When the identifier belongs to other feedback.
            FeedbackConflict: When the task has a different label already.
            DatabaseUnavailable: When the database cannot be reached.
        """
        kept = request if self._keeps else replace(request, note="")
        for _ in range(2):
            with suppress(_FeedbackExists):
                async with transaction(self._sessions) as session:
                    return await self._add_feedback(session, kept, key_name, may_teach, digest, on_any)
        raise AssertionError("the feedback that was stored first is there")

    async def _add_feedback(
        self,
        session: AsyncSession,
        request: TaskFeedbackRequest,
        key_name: str,
        may_teach: bool,
        digest: str,
        on_any: bool,
    ) -> TaskFeedbackResponse:
        """Store feedback while the row of its task is locked, so that feedback on a task is stored in sequence."""
        wanted = select(TaskRow).where(TaskRow.task_id == without_nul(request.task_id))
        if not on_any:
            wanted = wanted.where(TaskRow.key_name == key_name)
        task = (await session.scalars(wanted.with_for_update())).first()
        earlier = await _earlier(session, key_name, request.feedback_id, digest)
        if earlier is not None:
            return earlier
        if task is None:
            raise TaskNotFound(f"there is no task {request.task_id!r}", task_id=request.task_id)
        if task.correct is not None and task.correct != request.correct:
            message = f"task {task.task_id!r} has a different label already, from {task.checker}"
            raise FeedbackConflict(message, task_id=task.task_id, correct=str(task.correct).lower())
        response = await self._apply(session, task, request, may_teach)
        row = {"key_name": key_name, "may_teach": may_teach, "request_digest": digest, "response": _document(response)}
        if not await _inserted(session, request, row):
            raise _FeedbackExists
        LABELS.labels(Checker.FEEDBACK, str(request.correct).lower()).inc()
        return response

    async def _apply(
        self, session: AsyncSession, task: TaskRow, request: TaskFeedbackRequest, may_teach: bool
    ) -> TaskFeedbackResponse:
        record = _record(task)
        if task.correct is None:
            task.correct, task.checker, task.judged_at = request.correct, Checker.FEEDBACK, datetime.now(UTC)
            task.detail = without_nul(request.note)
            if may_teach:
                await _label_confidences(session, record, request.correct)
        reason = record.not_learned_reason or _not_learned_reason(task, may_teach)
        updates: list[ProfileUpdate] = []
        if not reason:
            task.learned = True
            updates = await self._learn(session, record, request.correct, request.feedback_id)
            if self._keeps:
                await add_experience(session, record, updates)
            reason = None if updates else NotLearnedReason.FROZEN
        label = _label(task)
        assert label is not None
        return TaskFeedbackResponse(
            feedback_id=request.feedback_id,
            task_id=task.task_id,
            label=label,
            profile_updates=updates,
            not_learned_reason=reason,
        )

    async def _learn(
        self, session: AsyncSession, record: TaskRecord, correct: bool, feedback_id: str
    ) -> list[ProfileUpdate]:
        batch = LessonBatch(
            lessons=record.lessons(correct),
            dimensions=record.dimensions,
            learning_rate=record.learning_rate,
            task_id=record.task_id,
            feedback_id=feedback_id,
        )
        return await apply_lessons(session, batch, self._drift)


def _conditions(request: ListTasksRequest, key_name: str) -> list[ColumnElement[bool]]:
    return [
        *([TaskRow.key_name == key_name] if key_name else []),
        *([TaskRow.task_id < id_in(request.page_token)] if request.page_token else []),
        *([TaskRow.created_at >= utc(request.since)] if request.since else []),
        *([TaskRow.created_at < utc(request.until)] if request.until else []),
    ]


def _task(row: TaskRow) -> StoredTask:
    stored = from_stored(row.document, StoredTask, record="task", record_id=row.task_id)
    return replace(stored, label=_label(row) or stored.finished.label)


def _label(row: TaskRow) -> AnswerLabel | None:
    """Return the label of a task's answer; None while it is not known whether the answer is right."""
    if row.correct is None or row.judged_at is None:
        return None
    return AnswerLabel(
        correct=row.correct,
        checker=enum_from_stored(row.checker, Checker),
        detail=row.detail,
        judged_at=row.judged_at,
    )


def _not_learned_reason(task: TaskRow, may_teach: bool) -> NotLearnedReason | None:
    if not may_teach:
        return NotLearnedReason.MAY_NOT_TEACH
    return NotLearnedReason.ALREADY_JUDGED if task.learned else None


def _record(task: TaskRow) -> TaskRecord:
    names = [name for name in TaskRecord.__dataclass_fields__ if name != "confidences"]
    confidences = readable(
        task.confidences,
        lambda each: from_stored(each, TaskConfidence, record="task_confidence", record_id=task.task_id),
    )
    values = {name: getattr(task, name) for name in names}
    word = task.not_learned_reason
    values["not_learned_reason"] = enum_from_stored(word, NotLearnedReason) if word else None
    return TaskRecord(**values, confidences=confidences)


async def _earlier(session: AsyncSession, key_name: str, feedback_id: str, digest: str) -> TaskFeedbackResponse | None:
    row = await session.get(TaskFeedbackRow, (key_name, feedback_id))
    if row is None:
        return None
    check_digest(
        row.request_digest, digest, feedback_id, field="feedback_id", other="other feedback", task_id=row.task_id
    )
    return from_stored(row.response, TaskFeedbackResponse, record="task_feedback", record_id=feedback_id)


async def _inserted(session: AsyncSession, request: TaskFeedbackRequest, given: Mapping[str, Any]) -> bool:
    row = {
        **given,
        "feedback_id": request.feedback_id,
        "task_id": request.task_id,
        "correct": request.correct,
        "note": without_nul(request.note),
        "created_at": datetime.now(UTC),
    }
    adding = insert(TaskFeedbackRow).values(row).on_conflict_do_nothing().returning(TaskFeedbackRow.feedback_id)
    return (await session.scalars(adding)).first() is not None


async def _label_confidences(session: AsyncSession, record: TaskRecord, correct: bool) -> None:
    """Store each confidence with its label: a voter's with its lesson, that of a vote with the answer's label."""
    outcomes = {lesson.agent: bool(lesson.outcome) for lesson in record.lessons(correct)} | {"": correct}
    rows = [
        {
            "task_id": record.task_id,
            "agent": each.agent,
            "source": each.source,
            "dimensions": list(record.dimensions),
            "confidence": each.confidence,
            "raw": each.raw,
            "correct": outcomes[each.agent],
            "created_at": record.created_at,
        }
        for each in record.confidences
        if each.agent in outcomes
    ]
    if rows:
        await session.execute(insert(LabelledConfidenceRow).values(rows).on_conflict_do_nothing())


def _document(response: TaskFeedbackResponse) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(dumps(response))
    return document
