"""Labels that prove promises have a narrow table of their own: digests and numbers, which outlive their runs.

What was tested once must not change when old runs are deleted, or each deletion would be another test.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Identity, Index, String, func, select
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from chassis.json_text import dumps
from chassis.serving.stored import from_stored, readable
from kernel.policy import Strategy
from services.router.core.feedback import LabelOrigin
from services.router.service.calibration.promises import PromiseCounts, PromiseEvidence, StoredPromiseLabel
from services.router.service.runs.values import RunAgreement
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import IS_SAMPLED, IS_SERVED, RunRow
from services.router.store.tables import RouterTable

# Labels that are read at a time [count].
MOST_READ = 20_000


class PromiseLabelRow(RouterTable):
    """A row is a label of a vote (`version`), or of a single model (`model`), on a question; the first one counts."""

    __tablename__ = "promise_labels"
    __table_args__ = (Index("ix_promise_labels_question", "key_name", "question", "version", "model", unique=True),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    question: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(64))
    model: Mapped[str] = mapped_column(String)
    kind: Mapped[str] = mapped_column(String)
    origin: Mapped[str] = mapped_column(String(16))
    agreement: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    is_right: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


async def add_evidence(session: AsyncSession, evidence: Sequence[PromiseEvidence], created_at: datetime) -> None:
    """Store what a label says; the first one on a question counts, so that a repeated exam proves nothing new."""
    rows = [
        {
            "key_name": one.owner,
            "question": one.question,
            "version": one.version,
            "model": one.model,
            "kind": one.kind,
            "origin": one.origin,
            "agreement": None if one.agreement is None else asdict(one.agreement),
            "is_right": one.is_right,
            "created_at": created_at,
        }
        for one in evidence
    ]
    if rows:
        await session.execute(insert(PromiseLabelRow).values(rows).on_conflict_do_nothing())


async def promise_labels(session: AsyncSession, after: int) -> Sequence[StoredPromiseLabel]:
    """Return the labels that were stored after the one of this number, the oldest first, at most 20,000."""
    query = select(PromiseLabelRow).where(PromiseLabelRow.id > after).order_by(PromiseLabelRow.id).limit(MOST_READ)
    return readable((await session.scalars(query)).all(), _label)


async def promise_counts(session: AsyncSession) -> PromiseCounts:
    """Return how many labels are stored, and how many drawn votes have none though a later one of their key has."""
    stored = (await session.execute(select(func.count()).select_from(PromiseLabelRow))).scalar_one()
    counted = select(RunFeedbackRow.run_id).where(RunFeedbackRow.run_id == RunRow.run_id, RunFeedbackRow.counts)
    drawn = (IS_SERVED, IS_SAMPLED, RunRow.strategy.in_([Strategy.VOTE, Strategy.CASCADE]))
    newest = (
        select(RunRow.key_name.label("owner"), func.max(RunRow.run_id).label("run_id"))
        .where(*drawn, counted.exists())
        .group_by(RunRow.key_name)
        .cte("newest")
    )
    version = RunRow.document["agreement"]["version"].astext
    query = (
        select(RunRow.key_name, version, func.count())
        .join(newest, (newest.c.owner == RunRow.key_name) & (RunRow.run_id < newest.c.run_id))
        .where(*drawn, ~counted.exists(), version.is_not(None))
        .group_by(RunRow.key_name, version)
    )
    unlabelled = {(owner, found): count for owner, found, count in (await session.execute(query)).all()}
    return PromiseCounts(labels=stored, unlabelled=unlabelled)


def _label(row: PromiseLabelRow) -> StoredPromiseLabel:
    agreement = None
    if row.agreement is not None:
        stored = dumps(row.agreement).decode()
        agreement = from_stored(row.agreement, RunAgreement, record="run_agreement", record_id=stored)
    return StoredPromiseLabel(
        number=row.id,
        owner=row.key_name,
        question=row.question,
        origin=LabelOrigin(row.origin),
        version=row.version,
        model=row.model,
        kind=row.kind,
        agreement=agreement,
        is_right=row.is_right,
    )
