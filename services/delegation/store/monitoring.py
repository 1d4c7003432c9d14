"""This store reads flows, reliability and drift, and keeps recalibration maps, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, Integer, case, cast, func, select
from sqlalchemy.dialects.postgresql import distinct_on, insert

from chassis.database import Sessions, transaction, utc, without_nul
from chassis.serving.stored import enum_from_stored, from_stored, readable
from kernel.confidence.rules import ConfidenceSource, TaskMode
from kernel.statistics.recalibration import Point
from services.delegation.core.flows import DelegationCounts
from services.delegation.service.monitoring import (
    DriftEvent,
    GetFlowsRequest,
    GetReliabilityRequest,
    LabelledConfidence,
    ListDriftEventsRequest,
    ModeCounts,
    RecalibrationMap,
    SelfRating,
)
from services.delegation.store.tables import DriftRow, LabelledConfidenceRow, RecalibrationRow, TaskRow

# Newest labelled confidences that reliability is computed from [count].
MAX_LABELLED = 200_000


class PostgresMonitoring:
    """This store reads recorded tasks and labels, and keeps recalibration maps.

    Every method may raise `DatabaseUnavailable`.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def mode_counts(self, request: GetFlowsRequest) -> ModeCounts:
        """Return how many tasks were solved in each way."""
        counting = select(TaskRow.mode, func.count()).where(*_of_flows(request)).group_by(TaskRow.mode)
        counts: dict[str, int] = {mode: count for mode, count in await self._rows(counting)}
        return ModeCounts(
            tasks=sum(counts.values()),
            executed=counts.get(TaskMode.EXECUTED, 0),
            delegated=counts.get(TaskMode.DELEGATED, 0),
            collaborated=counts.get(TaskMode.COLLABORATED, 0),
        )

    async def delegations(self, request: GetFlowsRequest) -> Sequence[DelegationCounts]:
        """Return delegations by pair of agents."""
        right = func.coalesce(func.sum(cast(TaskRow.correct, Integer)), 0)
        better = func.coalesce(func.sum(case((TaskRow.better_profile, 1), else_=0)), 0)
        counting = (
            select(TaskRow.first_agent, TaskRow.executor, func.count(), func.count(TaskRow.correct), right, better)
            .where(TaskRow.mode == TaskMode.DELEGATED, *_of_flows(request))
            .group_by(TaskRow.first_agent, TaskRow.executor)
        )
        names = ("from_agent", "to_agent", "tasks", "labelled", "correct", "better")
        return [DelegationCounts(**dict(zip(names, row, strict=True))) for row in await self._rows(counting)]

    async def labelled(self, request: GetReliabilityRequest) -> Sequence[LabelledConfidence]:
        """Return labelled confidences, newest first."""
        columns = (
            LabelledConfidenceRow.agent,
            LabelledConfidenceRow.source,
            LabelledConfidenceRow.dimensions,
            LabelledConfidenceRow.confidence,
            LabelledConfidenceRow.raw,
            LabelledConfidenceRow.correct,
        )
        wanted = select(*columns).where(*_of_reliability(request)).order_by(LabelledConfidenceRow.created_at.desc())
        return [_labelled(*row) for row in await self._rows(wanted.limit(MAX_LABELLED))]

    async def rating_counts(self) -> Mapping[str, int]:
        """Return how many labelled self-assessments there are of each agent [count]."""
        is_verbalized = LabelledConfidenceRow.source == ConfidenceSource.VERBALIZED
        counting = (
            select(LabelledConfidenceRow.agent, func.count()).where(is_verbalized).group_by(LabelledConfidenceRow.agent)
        )
        return {agent: count for agent, count in await self._rows(counting)}

    async def newest_ratings(self, agent: str, limit: int) -> Sequence[SelfRating]:
        """Return the newest labelled self-assessments of an agent."""
        own = (LabelledConfidenceRow.agent == agent, LabelledConfidenceRow.source == ConfidenceSource.VERBALIZED)
        wanted = (
            select(LabelledConfidenceRow.raw, LabelledConfidenceRow.correct)
            .where(*own)
            .order_by(LabelledConfidenceRow.created_at.desc())
        )
        return [SelfRating(raw=raw, correct=correct) for raw, correct in await self._rows(wanted.limit(limit))]

    async def drift_events(self, request: ListDriftEventsRequest, *, before: str, limit: int) -> Sequence[DriftEvent]:
        """Return drift events, newest first, from the one after the event `before` on; empty: from the newest on."""
        names = [column.key for column in DriftRow.__table__.columns]
        wanted = select(DriftRow).where(*_of_drift(request, before)).order_by(DriftRow.event_id.desc()).limit(limit)
        rows = [row for (row,) in await self._rows(wanted)]
        return [DriftEvent(**{name: getattr(row, name) for name in names}) for row in rows]

    async def maps(self) -> Mapping[str, RecalibrationMap]:
        """Return the newest map of each agent; one without points means that none is in force."""
        newest = (
            select(RecalibrationRow)
            .ext(distinct_on(RecalibrationRow.agent))
            .order_by(RecalibrationRow.agent, RecalibrationRow.fitted_at.desc())
        )
        return {each.agent: each for each in readable(await self._rows(newest), lambda row: _map(row[0]))}

    async def add_map(self, fitted: RecalibrationMap) -> None:
        """Store a map; it is in force from now on, also when it was stored before."""
        row = {
            **asdict(fitted),
            "points": [asdict(point) for point in fitted.points],
            "fitted_at": func.clock_timestamp(),
        }
        adding = insert(RecalibrationRow).values(row)
        adding = adding.on_conflict_do_update(
            index_elements=[RecalibrationRow.agent, RecalibrationRow.version],
            set_={"fitted_at": adding.excluded.fitted_at, "observations": adding.excluded.observations},
        )
        async with transaction(self._sessions) as session:
            await session.execute(adding)

    async def _rows(self, statement: Executable) -> Sequence[Any]:
        async with transaction(self._sessions) as session:
            return list((await session.execute(statement)).all())


def _labelled(
    agent: str, source: str, dimensions: Sequence[str], confidence: float, raw: float, correct: bool
) -> LabelledConfidence:  # fmt: skip
    return LabelledConfidence(
        agent=agent,
        source=enum_from_stored(source, ConfidenceSource),
        dimensions=tuple(dimensions),
        confidence=confidence,
        raw=raw,
        correct=correct,
    )


def _map(row: RecalibrationRow) -> RecalibrationMap:
    return RecalibrationMap(
        agent=row.agent,
        version=row.version,
        method=row.method,
        points=[from_stored(point, Point, record="recalibration", record_id=row.version) for point in row.points],
        observations=row.observations,
        brier_before=row.brier_before,
        brier_after=row.brier_after,
    )


def _of_flows(request: GetFlowsRequest) -> list[Any]:
    matching = [TaskRow.dimensions.any_() == request.dimension] if request.dimension else []
    return [
        TaskRow.baseline == request.baseline,
        *matching,
        *_between(TaskRow.created_at, request.since, request.until),
    ]


def _of_reliability(request: GetReliabilityRequest) -> list[Any]:
    wanted: list[Any] = [LabelledConfidenceRow.agent == without_nul(request.agent)] if request.agent else []
    if request.dimension:
        wanted.append(LabelledConfidenceRow.dimensions.any_() == without_nul(request.dimension))
    if request.confidence_source:
        wanted.append(LabelledConfidenceRow.source == request.confidence_source)
    return [*wanted, *_between(LabelledConfidenceRow.created_at, request.since, request.until)]


def _of_drift(request: ListDriftEventsRequest, before: str) -> list[Any]:
    named = [(DriftRow.agent, request.agent), (DriftRow.dimension, request.dimension)]
    earlier = [DriftRow.event_id < without_nul(before)] if before else []
    return [
        *(column == without_nul(name) for column, name in named if name),
        *earlier,
        *_between(DriftRow.detected_at, request.since, request.until),
    ]


def _between(column: Any, since: datetime | None, until: datetime | None) -> list[Any]:  # noqa: ANN401 - a column
    start = [column >= utc(since)] if since else []
    return [*start, *([column < utc(until)] if until else [])]
