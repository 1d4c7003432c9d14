"""Questions that are labelled for both systems are read from PostgreSQL."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from kernel.learning.gains import LabelledPair
from kernel.policy import Strategy
from services.router.core.feedback import DRAWN_AT_RANDOM
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import IS_SERVED, RunRow

# Labels of either system that are looked at for questions labelled for both [count].
MOST_PAIRED_LABELS = 10_000


def is_system_one(model: str) -> ColumnElement[bool]:
    """Return whether the usual System 1 answered: the model of that name in the catalogue, or the one of no catalogue.

    Answers of other models that were asked by name are single calls too, and say nothing of this one.
    """
    name = func.coalesce(RunRow.document["catalogue_name"].astext, "")
    return (RunRow.strategy == Strategy.SYSTEM_ONE) & (name == model)


async def labelled_pairs(session: AsyncSession, system_two: Sequence[str], model: str) -> Sequence[LabelledPair]:
    """Return the questions labelled for System 1 and for one of the strategies `system_two`, of the newest labels.

    Both answers are of one owner and to the same conversation. Labels count only where they were drawn at random: in an
    exam, or from served requests. The newest answer of each system is taken; the kind is that of System 2's run, or of
    System 1's where that has none.
    """
    labelled = (
        select(
            RunRow.key_name.label("owner"),
            RunRow.document["messages_digest"].astext.label("question"),
            func.coalesce(RunRow.document["route"]["kind"].astext, "").label("kind"),
            (RunRow.strategy != Strategy.SYSTEM_ONE).label("is_two"),
            RunFeedbackRow.score.label("score"),
            RunRow.run_id.label("run_id"),
        )
        .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
        .where(
            IS_SERVED,
            RunFeedbackRow.counts,
            RunFeedbackRow.origin.in_(sorted(DRAWN_AT_RANDOM)),
            (RunRow.strategy.in_(system_two)) | is_system_one(model),
        )
        .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
        .limit(MOST_PAIRED_LABELS)
        .cte("labelled")
    )
    by = (labelled.c.owner, labelled.c.question, labelled.c.is_two)
    newest = select(labelled).ext(distinct_on(*by)).order_by(*by, labelled.c.run_id.desc()).cte("newest")
    one, two = newest.alias("one"), newest.alias("two")
    is_pair = (one.c.owner == two.c.owner) & (one.c.question == two.c.question) & ~one.c.is_two & two.c.is_two
    kind = func.coalesce(func.nullif(two.c.kind, ""), one.c.kind)
    query = select(kind, one.c.score, two.c.score).select_from(one.join(two, is_pair))
    rows = (await session.execute(query)).all()
    return [
        LabelledPair(kind=kind, system_one=score_of_one, system_two=score_of_two)
        for kind, score_of_one, score_of_two in rows
    ]
