"""Labels of votes, by which promises are proved, are read from PostgreSQL."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.json_text import dumps
from chassis.serving.stored import from_stored, readable
from kernel.votes.agreement import VoteAgreement
from services.router.core.feedback import DRAWN_AT_RANDOM, RIGHT_FROM, LabelOrigin
from services.router.core.strategies import Strategy
from services.router.service.calibration.promises import StoredPromiseLabel
from services.router.service.runs.values import RunAgreement
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import IS_SERVED, RunRow

# Labels of votes of all owners and configurations that are read, and of single models [count].
MOST_LABELS_READ = 20_000

# What is labelled of single models on a question, by their name in the catalogue; by owner and question.
Singles = Mapping[tuple[str, str], Mapping[str, bool]]


async def promise_labels(session: AsyncSession) -> Sequence[StoredPromiseLabel]:
    """Return the newest labels of votes that were drawn at random, the oldest first.

    Where a stronger model gave the answer, its label says nothing of the winner of the votes.
    """
    document = RunRow.document
    agreement = document["agreement"]
    columns = (
        RunRow.key_name,
        func.coalesce(document["messages_digest"].astext, ""),
        RunFeedbackRow.origin,
        agreement,
        func.coalesce(document["route"]["kind"].astext, ""),
        func.coalesce(document["escalation"]["model"].astext, ""),
        func.coalesce(document["escalation"]["answered"].astext, "") == "true",
        RunFeedbackRow.score >= RIGHT_FROM,
    )
    rows = await _labelled(
        session,
        columns,
        RunRow.strategy.in_([Strategy.VOTE, Strategy.CASCADE]),
        func.jsonb_typeof(agreement) == "object",
    )
    name = func.coalesce(document["catalogue_name"].astext, "")
    question = (RunRow.key_name, document["messages_digest"].astext, name, RunFeedbackRow.score >= RIGHT_FROM)
    alone = await _labelled(session, question, RunRow.strategy == Strategy.SYSTEM_ONE, name != "")
    return await asyncio.to_thread(_stored, rows, alone)


async def _labelled(session: AsyncSession, columns: Sequence[Any], *where: Any) -> Sequence[Any]:  # noqa: ANN401
    query = (
        select(*columns)
        .select_from(RunRow)
        .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
        .where(IS_SERVED, RunFeedbackRow.counts, RunFeedbackRow.origin.in_(sorted(DRAWN_AT_RANDOM)), *where)
        .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
        .limit(MOST_LABELS_READ)
    )
    return (await session.execute(query)).all()[::-1]


def _stored(rows: Sequence[Any], alone: Sequence[Any]) -> Sequence[StoredPromiseLabel]:
    singles: dict[tuple[str, str], dict[str, bool]] = {}
    for owner, question, model, right in alone:  # the newest label counts
        singles.setdefault((owner, question), {})[model] = right
    return readable(rows, lambda row: _promise_label(row, singles))


def _promise_label(row: Any, singles: Singles) -> StoredPromiseLabel:  # noqa: ANN401 - a row of the query
    owner, question, origin, agreement, kind, model, escalated, right = row
    found = from_stored(agreement, RunAgreement, record="run_agreement", record_id=dumps(agreement).decode())
    stronger = singles.get((owner, question), {})
    return StoredPromiseLabel(
        owner=owner,
        origin=LabelOrigin(origin),
        version=found.version,
        kind=kind,
        agreement=VoteAgreement(
            first=found.first, first_stands=found.first_stands, last=found.last, went_on=found.went_on
        ),
        right=right and not escalated,
        stronger={**stronger, model: right} if escalated else stronger,
    )
