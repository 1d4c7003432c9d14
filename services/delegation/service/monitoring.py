"""Requests and results of watching how delegation does; field names are the contract's."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Protocol

from pydantic import Field

from chassis.page_tokens import InvalidPageToken, page, parts_of, token_of
from kernel.confidence.rules import Baseline, ConfidenceSource
from kernel.learning.trust import SelfAssessmentTrust, self_assessment_trust
from kernel.statistics.recalibration import Points
from kernel.statistics.reliability import ReliabilityBin, chance_calibration_error, reliability
from kernel.values import value
from services.delegation.core.flows import HandOvers, better_profile_share, delegation_precision, precision
from services.delegation.service.dimensions import Dimension, known_dimension
from services.delegation.service.profiles import PageSize
from services.delegation.service.task_context import Agents, TaskModelClients


@value
class Agent:
    """An agent as its configuration declares it."""

    id: str
    model: str
    capacity: int | None
    tags: Sequence[str]


@value
class AgentStatus:
    """An agent, as configured and as it has turned out."""

    configuration: Agent
    trust: SelfAssessmentTrust


@value
class ListAgentsRequest:
    """Asks for the agents."""

    page_size: PageSize = 100
    page_token: str = ""


@value
class ListAgentsResponse:
    """A page of agents."""

    agents: Sequence[AgentStatus]
    next_page_token: str


@value
class Flow:
    """Hand-overs from one agent to another."""

    from_agent: str
    to_agent: str
    tasks: int
    share: float
    judged: int
    correct: int
    precision: float | None
    precision_low: float | None
    precision_high: float | None


@value
class GetFlowsRequest:
    """Asks for flows."""

    page_size: PageSize = 100
    page_token: str = ""
    dimension: str = ""
    since: datetime | None = None
    until: datetime | None = None
    baseline: Baseline = Baseline.NONE


@value
class GetFlowsResponse:
    """A page of flows, and all flows taken together."""

    flows: Sequence[Flow]
    next_page_token: str
    tasks: int
    executed: int
    delegated: int
    collaborated: int
    delegated_share: float | None
    delegation_precision: float | None
    delegation_precision_low: float | None
    delegation_precision_high: float | None
    better_profile_share: float | None


@value
class ReliabilityRow:
    """How far one kind of confidence can be trusted."""

    agent: str
    dimension: str
    confidence_source: ConfidenceSource
    observations: int
    calibration_error: float | None
    chance_calibration_error: float | None
    brier_score: float | None
    bins: Sequence[ReliabilityBin]


@value
class GetReliabilityRequest:
    """Asks for reliability."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""
    confidence_source: ConfidenceSource | None = None
    since: datetime | None = None
    until: datetime | None = None
    bins: Annotated[int, Field(ge=1, le=100)] = 10


@value
class GetReliabilityResponse:
    """A page of reliability."""

    reliabilities: Sequence[ReliabilityRow]
    next_page_token: str


@value
class DriftEvent:
    """A detected change of an agent's competence in one dimension."""

    event_id: str
    agent: str
    dimension: str
    detected_at: datetime
    sequence: int
    competence_before: float
    competence_after: float
    observations_since: int
    detector: str
    statistic: float
    statistic_threshold: float
    memory_before: float
    memory_after: float


@value
class ListDriftEventsRequest:
    """Asks for drift events."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""
    since: datetime | None = None
    until: datetime | None = None


@value
class ListDriftEventsResponse:
    """A page of drift events."""

    events: Sequence[DriftEvent]
    next_page_token: str


# Newest judged self-assessments of an agent that its trust rests on [count].
MOST_RATED = 10_000


@value
class LabelledTask:
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
class SelfRating:
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


class MonitoringStore(Protocol):
    """What was recorded. Every method may raise `DatabaseUnavailable`."""

    async def modes(self, ask: GetFlowsRequest) -> Modes:
        """How many tasks were solved in each way."""

    async def hand_overs(self, ask: GetFlowsRequest) -> Sequence[HandOvers]:
        """Hand-overs by pair of agents."""

    async def judged(self, ask: GetReliabilityRequest) -> Sequence[LabelledTask]:
        """Judged confidences, newest first."""

    async def newest_rated(self, agent: str, most: int) -> Sequence[SelfRating]:
        """The newest judged self-assessments of an agent."""

    async def drift_events(self, ask: ListDriftEventsRequest) -> Sequence[DriftEvent]:
        """A page of detected changes and one more, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The use cases of watching.

    Attributes:
        records: What was recorded.
        agents: The configured agents.
        dimensions: The configured dimensions.
        voices: Who speaks for whom.
        maps: Recalibrations in force, by agent.
    """

    records: MonitoringStore
    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    voices: TaskModelClients
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
    judged: Iterable[LabelledTask], *, agent: str = "", dimension: str = ""
) -> dict[tuple[str, str, str], list[LabelledTask]]:
    """Judged confidences by agent, dimension and source; under an empty name, those of all."""
    groups: dict[tuple[str, str, str], list[LabelledTask]] = {}
    for one in judged:
        agents = [agent] if agent else list(dict.fromkeys(["", one.agent]))
        dimensions = [dimension] if dimension else ["", *one.dimensions]
        for by_agent in agents:
            for by_dimension in dimensions:
                groups.setdefault((by_agent, by_dimension, one.source.value), []).append(one)
    return groups


def _row(name: tuple[str, str, str], judged: Sequence[LabelledTask], bins: int) -> ReliabilityRow:
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
