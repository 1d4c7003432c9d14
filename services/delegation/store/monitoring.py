"""Flows, reliability, drift and recalibration in PostgreSQL."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, Integer, case, cast, func, select
from sqlalchemy.dialects.postgresql import distinct_on, insert

from chassis.database import ERRORS, Sessions, refusal, utc, without_nul
from chassis.serving.wire import from_plain
from kernel.confidence.rules import ConfidenceSource, TaskMode
from kernel.statistics.recalibration import Point
from services.delegation.core.flows import HandOvers
from services.delegation.service.monitoring import (
    DriftEvent,
    GetFlowsRequest,
    GetReliabilityRequest,
    LabelledTask,
    ListDriftEventsRequest,
    Map,
    Modes,
    SelfRating,
)
from services.delegation.store.tables import DriftRow, JudgementRow, RecalibrationRow, TaskRow

# Newest judged answers that figures and maps are made of [count].
MOST_JUDGED = 200_000


class PostgresMonitoring:
    """What was recorded, as those who watch need it. Every method may raise `DatabaseUnavailable`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def modes(self, ask: GetFlowsRequest) -> Modes:
        """How many tasks were solved in each way."""
        counting = select(TaskRow.mode, func.count()).where(*_of_flows(ask)).group_by(TaskRow.mode)
        counts: dict[str, int] = {mode: count for mode, count in await self._rows(counting)}
        return Modes(
            tasks=sum(counts.values()),
            executed=counts.get(TaskMode.EXECUTED, 0),
            delegated=counts.get(TaskMode.DELEGATED, 0),
            collaborated=counts.get(TaskMode.COLLABORATED, 0),
        )

    async def hand_overs(self, ask: GetFlowsRequest) -> Sequence[HandOvers]:
        """Hand-overs by pair of agents."""
        right = func.coalesce(func.sum(cast(TaskRow.correct, Integer)), 0)
        better = func.coalesce(func.sum(case((TaskRow.better_profile, 1), else_=0)), 0)
        counting = (
            select(TaskRow.first_agent, TaskRow.executor, func.count(), func.count(TaskRow.correct), right, better)
            .where(TaskRow.mode == TaskMode.DELEGATED, *_of_flows(ask))
            .group_by(TaskRow.first_agent, TaskRow.executor)
        )
        names = ("from_agent", "to_agent", "tasks", "judged", "correct", "better")
        return [HandOvers(**dict(zip(names, row, strict=True))) for row in await self._rows(counting)]

    async def judged(self, ask: GetReliabilityRequest) -> Sequence[LabelledTask]:
        """Judged confidences, newest first."""
        columns = (
            JudgementRow.agent,
            JudgementRow.source,
            JudgementRow.dimensions,
            JudgementRow.confidence,
            JudgementRow.raw,
            JudgementRow.correct,
        )
        wanted = select(*columns).where(*_of_reliability(ask)).order_by(JudgementRow.created_at.desc())
        return [_judged(*row) for row in await self._rows(wanted.limit(MOST_JUDGED))]

    async def rated(self) -> Mapping[str, int]:
        """How many judged self-assessments there are of each agent [count]."""
        said = JudgementRow.source == ConfidenceSource.VERBALIZED
        counting = select(JudgementRow.agent, func.count()).where(said).group_by(JudgementRow.agent)
        return {agent: count for agent, count in await self._rows(counting)}

    async def newest_rated(self, agent: str, most: int) -> Sequence[SelfRating]:
        """The newest judged self-assessments of an agent."""
        own = (JudgementRow.agent == agent, JudgementRow.source == ConfidenceSource.VERBALIZED)
        wanted = select(JudgementRow.raw, JudgementRow.correct).where(*own).order_by(JudgementRow.created_at.desc())
        return [SelfRating(raw=raw, correct=correct) for raw, correct in await self._rows(wanted.limit(most))]

    async def drift_events(self, ask: ListDriftEventsRequest) -> Sequence[DriftEvent]:
        """A page of detected changes and one more, newest first."""
        names = [column.key for column in DriftRow.__table__.columns]
        wanted = select(DriftRow).where(*_of_drift(ask)).order_by(DriftRow.event_id.desc()).limit(ask.page_size + 1)
        rows = [row for (row,) in await self._rows(wanted)]
        return [DriftEvent(**{name: getattr(row, name) for name in names}) for row in rows]

    async def maps(self) -> Mapping[str, Map]:
        """The newest recalibration of each agent; one without points says that none is in force."""
        newest = (
            select(RecalibrationRow)
            .ext(distinct_on(RecalibrationRow.agent))
            .order_by(RecalibrationRow.agent, RecalibrationRow.fitted_at.desc())
        )
        return {row.agent: _map(row) for (row,) in await self._rows(newest)}

    async def add_map(self, made: Map) -> None:
        """Keep a recalibration; it is in force from now on. The same one again is put in force anew."""
        row = {**asdict(made), "points": [asdict(point) for point in made.points], "fitted_at": func.clock_timestamp()}
        adding = insert(RecalibrationRow).values(row)
        adding = adding.on_conflict_do_update(
            index_elements=[RecalibrationRow.agent, RecalibrationRow.version],
            set_={"fitted_at": adding.excluded.fitted_at, "observations": adding.excluded.observations},
        )
        try:
            async with self._sessions.begin() as session:
                await session.execute(adding)
        except ERRORS as error:
            raise refusal(error) from error

    async def _rows(self, statement: Executable) -> Sequence[Any]:
        try:
            async with self._sessions.begin() as session:
                return list((await session.execute(statement)).all())
        except ERRORS as error:
            raise refusal(error) from error


def _judged(
    agent: str, source: str, dimensions: Sequence[str], confidence: float, raw: float, correct: bool
) -> LabelledTask:  # fmt: skip
    return LabelledTask(
        agent=agent,
        source=ConfidenceSource(source),
        dimensions=tuple(dimensions),
        confidence=confidence,
        raw=raw,
        correct=correct,
    )


def _map(row: RecalibrationRow) -> Map:
    return Map(
        agent=row.agent,
        version=row.version,
        method=row.method,
        points=[from_plain(point, Point) for point in row.points],
        observations=row.observations,
        brier_before=row.brier_before,
        brier_after=row.brier_after,
    )


def _of_flows(ask: GetFlowsRequest) -> list[Any]:
    inside = [TaskRow.dimensions.any_() == ask.dimension] if ask.dimension else []
    return [TaskRow.baseline == ask.baseline, *inside, *_between(TaskRow.created_at, ask.since, ask.until)]


def _of_reliability(ask: GetReliabilityRequest) -> list[Any]:
    wanted: list[Any] = [JudgementRow.agent == without_nul(ask.agent)] if ask.agent else []
    if ask.dimension:
        wanted.append(JudgementRow.dimensions.any_() == without_nul(ask.dimension))
    if ask.confidence_source:
        wanted.append(JudgementRow.source == ask.confidence_source)
    return [*wanted, *_between(JudgementRow.created_at, ask.since, ask.until)]


def _of_drift(ask: ListDriftEventsRequest) -> list[Any]:
    named = [(DriftRow.agent, ask.agent), (DriftRow.dimension, ask.dimension)]
    before = [DriftRow.event_id < without_nul(ask.page_token)] if ask.page_token else []
    return [
        *(column == without_nul(name) for column, name in named if name),
        *before,
        *_between(DriftRow.detected_at, ask.since, ask.until),
    ]


def _between(column: Any, since: datetime | None, until: datetime | None) -> list[Any]:  # noqa: ANN401 - a column
    began = [column >= utc(since)] if since else []
    return [*began, *([column < utc(until)] if until else [])]
