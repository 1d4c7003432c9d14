"""How delegation does: flows, reliability, drift, and which self-assessments deserve trust."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernel.statistics.recalibration import Points
from kernel.statistics.reliability import chance_calibration_error, reliability
from kernel.values import value
from services.delegation.core.flows import HandOvers, better_profile_share, delegation_precision, precision
from services.delegation.core.rules import ConfidenceSource
from services.delegation.core.trust import self_assessment_trust
from services.delegation.service.dimensions import Dimension, known_dimension
from services.delegation.service.monitoring_values import (
    Agent,
    AgentStatus,
    DriftEvent,
    Flow,
    GetFlowsRequest,
    GetFlowsResponse,
    GetReliabilityRequest,
    GetReliabilityResponse,
    ListAgentsRequest,
    ListAgentsResponse,
    ListDriftEventsRequest,
    ListDriftEventsResponse,
    ReliabilityRow,
)
from services.delegation.service.pages import InvalidPageToken, page, parts_of, token_of
from services.delegation.service.work import Agents, Voices

# Newest judged self-assessments of an agent that its trust rests on [count].
MOST_RATED = 10_000


@value
class Judged:
    """A confidence against how the answer turned out.

    Attributes:
        agent: Whose; empty for a vote.
        source: Where it comes from.
        dimensions: Dimensions of the task.
        confidence: The confidence [0..1].
        raw: The same before recalibration [0..1].
        correct: Whether the answer was right.
    """

    agent: str
    source: ConfidenceSource
    dimensions: Sequence[str]
    confidence: float
    raw: float
    correct: bool


@value
class Rated:
    """What an agent said of itself before a task, against how its answer turned out.

    Attributes:
        raw: What it said, before recalibration [0..1].
        correct: Whether the answer was right.
    """

    raw: float
    correct: bool


@value
class Modes:
    """How many tasks were solved in each way [count]."""

    tasks: int
    executed: int
    delegated: int
    collaborated: int


@value
class Map:
    """A map from what an agent says of itself to how it does; without points, none is in force.

    Attributes:
        agent: The agent.
        version: Its version.
        method: Its form; empty without points.
        points: Points of it.
        observations: Judged self-assessments behind it [count].
        brier_before: Brier score without it [0..1].
        brier_after: Cross-validated Brier score with it [0..1].
    """

    agent: str
    version: str
    method: str
    points: Points
    observations: int
    brier_before: float
    brier_after: float


class Records(Protocol):
    """What was recorded. Every method may raise `DatabaseUnavailable`."""

    async def modes(self, ask: GetFlowsRequest) -> Modes:
        """How many tasks were solved in each way."""

    async def hand_overs(self, ask: GetFlowsRequest) -> Sequence[HandOvers]:
        """Hand-overs by pair of agents."""

    async def judged(self, ask: GetReliabilityRequest) -> Sequence[Judged]:
        """Judged confidences, newest first."""

    async def newest_rated(self, agent: str, most: int) -> Sequence[Rated]:
        """The newest judged self-assessments of an agent."""

    async def drift_events(self, ask: ListDriftEventsRequest) -> Sequence[DriftEvent]:
        """A page of detected changes and one more, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The use cases of watching.

    Attributes:
        records: What was recorded.
        agents: The configured agents.
        dimensions: The configured dimensions.
        voices: Who speaks for whom.
        maps: Recalibrations in force, by agent.
    """

    records: Records
    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    voices: Voices
    maps: Callable[[], Mapping[str, Map]]

    async def list_agents(self, ask: ListAgentsRequest) -> ListAgentsResponse:
        """The configured agents, and how far the self-assessment of each deserves trust.

        Raises:
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        agents = list(self.agents())
        first = _place(agents, ask.page_token)
        shown = agents[first : first + ask.page_size]
        maps = self.maps()
        statuses = []
        for agent in shown:
            own = await self.records.newest_rated(agent.id, MOST_RATED)
            made = maps.get(agent.id)
            version = made.version if made and made.points else ""
            trust = await asyncio.to_thread(
                self_assessment_trust, [one.raw for one in own], [float(one.correct) for one in own], version
            )
            model = self.voices.of(agent).model
            told = Agent(id=agent.id, model=model, capacity=agent.capacity, tags=agent.tags)
            statuses.append(AgentStatus(configuration=told, trust=trust))
        more = first + len(shown) < len(agents)
        return ListAgentsResponse(agents=statuses, next_page_token=token_of(shown[-1].id) if more else "")

    async def flows(self, ask: GetFlowsRequest) -> GetFlowsResponse:
        """Who hands tasks to whom, how often and how well.

        Raises:
            UnknownDimension: For one that is not configured.
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        if ask.dimension:
            known_dimension(ask.dimension, [one.id for one in self.dimensions()])
        modes, handed = await self.records.modes(ask), await self.records.hand_overs(ask)
        every = sum(one.tasks for one in handed)
        flows = [_flow(one, every) for one in handed]
        ordered = sorted(flows, key=_flow_name)
        shown, token = page(ordered, _flow_name, ask.page_token, ask.page_size, parts=3)
        total = delegation_precision(handed)
        return GetFlowsResponse(
            flows=shown,
            next_page_token=token,
            tasks=modes.tasks,
            executed=modes.executed,
            delegated=modes.delegated,
            collaborated=modes.collaborated,
            delegated_share=modes.delegated / modes.tasks if modes.tasks else None,
            delegation_precision=total.precision,
            delegation_precision_low=total.low,
            delegation_precision_high=total.high,
            better_profile_share=better_profile_share(handed),
        )

    async def reliability(self, ask: GetReliabilityRequest) -> GetReliabilityResponse:
        """How far confidence can be trusted, by agent, dimension and source.

        Raises:
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        groups = grouped(await self.records.judged(ask), agent=ask.agent, dimension=ask.dimension)
        names, token = page(sorted(groups), lambda name: name, ask.page_token, ask.page_size, parts=3)
        rows = await asyncio.to_thread(lambda: [_row(name, groups[name], ask.bins) for name in names])
        return GetReliabilityResponse(reliabilities=rows, next_page_token=token)

    async def drift(self, ask: ListDriftEventsRequest) -> ListDriftEventsResponse:
        """Detected changes, newest first.

        Raises:
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        if ask.page_token and len(ask.page_token) != 36:
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        found = await self.records.drift_events(ask)
        shown = found[: ask.page_size]
        token = shown[-1].event_id if len(found) > ask.page_size else ""
        return ListDriftEventsResponse(events=shown, next_page_token=token)


def grouped(
    judged: Iterable[Judged], *, agent: str = "", dimension: str = ""
) -> dict[tuple[str, str, str], list[Judged]]:
    """Judged confidences by agent, dimension and source; under an empty name, those of all."""
    groups: dict[tuple[str, str, str], list[Judged]] = {}
    for one in judged:
        agents = [agent] if agent else list(dict.fromkeys(["", one.agent]))
        dimensions = [dimension] if dimension else ["", *one.dimensions]
        for by_agent in agents:
            for by_dimension in dimensions:
                groups.setdefault((by_agent, by_dimension, one.source.value), []).append(one)
    return groups


def _row(name: tuple[str, str, str], judged: Sequence[Judged], bins: int) -> ReliabilityRow:
    confidences = [one.confidence for one in judged]
    told = reliability(confidences, [float(one.correct) for one in judged], bins)
    return ReliabilityRow(
        agent=name[0],
        dimension=name[1],
        confidence_source=ConfidenceSource(name[2]),
        observations=len(judged),
        calibration_error=told.calibration_error,
        chance_calibration_error=chance_calibration_error(confidences, bins),
        brier_score=told.brier_score,
        bins=told.bins,
    )


def _flow(one: HandOvers, every: int) -> Flow:
    share = precision(one.correct, one.judged)
    return Flow(
        from_agent=one.from_agent,
        to_agent=one.to_agent,
        tasks=one.tasks,
        share=one.tasks / every,
        judged=one.judged,
        correct=one.correct,
        precision=share.precision,
        precision_low=share.low,
        precision_high=share.high,
    )


def _flow_name(flow: Flow) -> tuple[str, ...]:
    """Name by which flows are ordered: the largest first, ties by agents."""
    return (f"{10**10 - flow.tasks:011d}", flow.from_agent, flow.to_agent)


def _place(agents: Sequence[object], token: str) -> int:
    if not token:
        return 0
    names = [getattr(agent, "id", "") for agent in agents]
    (last,) = parts_of(token, 1)
    if last not in names:
        raise InvalidPageToken(f"page_token {token!r} was not given by this service", field="page_token")
    return names.index(last) + 1
