"""Votes with a stronger model behind them are counted in PostgreSQL."""

from collections.abc import Sequence

from sqlalchemy import case, func, select

from chassis.database import Sessions, transaction
from kernel.policy import Strategy
from services.router.core.feedback import RIGHT_FROM
from services.router.service.answering.voting import ESCALATION
from services.router.service.calibration.cascades import CascadeCount
from services.router.service.calibration.values import GetCascadesRequest
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import IS_SERVED, RunRow, began_within, number_in

# Newest runs that are counted [count].
MOST_RUNS = 100_000


class PostgresCascades:
    """This store counts the runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def counts(self, request: GetCascadesRequest) -> Sequence[CascadeCount]:
        """Return the counts by stronger model, reason, and whether it answered.

        Of the labels of one run the newest that counts is taken.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        document = RunRow.document
        escalation, usage = document["escalation"], document["usage"]
        newest = (
            select(
                RunRow.run_id,
                escalation["model"].astext.label("model"),
                func.coalesce(escalation["reason"].astext, "").label("reason"),
                (escalation["answered"].astext == "true").label("answered"),
                number_in(usage["cost"]).label("cost"),
                number_in(usage["stages"][ESCALATION]["cost"]).label("own"),
            )
            .where(
                IS_SERVED,
                RunRow.strategy.in_([Strategy.VOTE, Strategy.CASCADE]),
                escalation["model"].astext.is_not(None),
                *began_within(request.since, request.until),
            )
            .order_by(RunRow.run_id.desc())
            .limit(MOST_RUNS)
            .subquery()
        )
        label = (
            select(RunFeedbackRow.score)
            .where(RunFeedbackRow.run_id == newest.c.run_id, RunFeedbackRow.counts)
            .order_by(RunFeedbackRow.created_at.desc())
            .limit(1)
            .scalar_subquery()
        )
        labelled = select(newest, label.label("score")).subquery()
        own_answer = labelled.c.answered & labelled.c.own.is_not(None)
        query = select(
            labelled.c.model,
            labelled.c.reason,
            labelled.c.answered,
            func.count(),
            func.count(labelled.c.cost),
            func.coalesce(func.sum(labelled.c.cost), 0.0),
            func.count().filter(own_answer),
            func.coalesce(func.sum(case((own_answer, labelled.c.own))), 0.0),
            func.count(labelled.c.score),
            func.count().filter(labelled.c.score >= RIGHT_FROM),
        ).group_by(labelled.c.model, labelled.c.reason, labelled.c.answered)
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        return [
            CascadeCount(
                model=row[0],
                reason=row[1],
                answered=bool(row[2]),
                runs=row[3],
                priced=row[4],
                cost=row[5],
                answers=row[6],
                answers_cost=row[7],
                labelled=row[8],
                right=row[9],
            )
            for row in rows
        ]
