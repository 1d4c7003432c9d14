"""Shadow runs are read from PostgreSQL with the served runs that they shadow."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ScalarSelect, select
from sqlalchemy.orm import aliased

from chassis.database import Sessions, transaction
from services.router.core.feedback import is_right
from services.router.service.shadow.values import GetShadowRequest, ShadowPair
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import IS_SHADOW, RunRow, began_within, number_in

# Newest shadow runs that are compared [count].
MOST_RUNS = 10_000


class PostgresShadows:
    """This store reads the runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def pairs(self, request: GetShadowRequest) -> Sequence[ShadowPair]:
        """Return the newest shadow runs, each with its served run as far as that is still there.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        newest = (
            select(
                RunRow.run_id,
                RunRow.shadow_of,
                RunRow.strategy,
                RunRow.outcome,
                RunRow.error_reason,
                RunRow.document["shadow"].label("shadow"),
                number_in(RunRow.document["usage"]["cost"]).label("cost"),
                number_in(RunRow.document["duration_ms"]).label("duration_ms"),
            )
            .where(IS_SHADOW, *began_within(request.since, request.until))
            .order_by(RunRow.run_id.desc())
            .limit(MOST_RUNS)
            .subquery()
        )
        served = aliased(RunRow)
        query = select(
            newest.c.strategy,
            newest.c.outcome,
            newest.c.error_reason,
            newest.c.shadow,
            newest.c.cost,
            newest.c.duration_ms,
            _score(newest.c.run_id),
            served.strategy,
            number_in(served.document["usage"]["cost"]),
            number_in(served.document["duration_ms"]),
            _score(newest.c.shadow_of),
        ).outerjoin(served, served.run_id == newest.c.shadow_of)
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        return [_pair(row) for row in rows]


def _score(run_id: Any) -> ScalarSelect[float]:  # noqa: ANN401 - a column
    """Select the score of the label of a run that counts; of the labels of one run at most one does."""
    return select(RunFeedbackRow.score).where(RunFeedbackRow.run_id == run_id, RunFeedbackRow.counts).scalar_subquery()


def _pair(row: Any) -> ShadowPair:  # noqa: ANN401 - a row
    strategy, outcome, error_reason, shadow, cost, duration_ms, score, *of_served = row
    served_strategy, served_cost, served_duration_ms, served_score = of_served
    shadow = shadow if isinstance(shadow, dict) else {}  # another version may store something else
    agrees = shadow.get("agrees")
    return ShadowPair(
        policy=str(shadow.get("policy", "")),
        strategy=strategy,
        answered=outcome == "ANSWERED",
        error_reason=error_reason,
        agrees=agrees if isinstance(agrees, bool) else None,
        not_compared=str(shadow.get("not_compared") or ""),
        cost=cost,
        duration_ms=duration_ms or 0.0,
        right=None if score is None else is_right(score),
        served_strategy=served_strategy or "",
        served_cost=served_cost,
        served_duration_ms=served_duration_ms,
        served_right=None if served_score is None else is_right(served_score),
    )
