"""These use cases report agents, flows, reliability and drift; field names are the contract's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Protocol

from pydantic import Field

from chassis.page_tokens import id_in, invalid_token, page, parts_of, token_of
from chassis.shared_results import SharedResults, in_thread
from configuration.dimensions import Dimension
from inference import ModelClients
from kernel.confidence.rules import Baseline, ConfidenceSource
from kernel.learning.trust import SelfAssessmentTrust, self_assessment_trust
from kernel.statistics.recalibration import Points
from kernel.statistics.reliability import ReliabilityBin, chance_calibration_error, reliability
from kernel.values import value
from services.delegation.core.flows import DelegationCounts, better_profile_share, delegation_precision, precision
from services.delegation.service.dimensions import check_dimension
from services.delegation.service.profiles import PageSize
from services.delegation.service.task_context import Agents


@value
class Agent:
    """An agent is described as its configuration declares it."""

    id: str
    model: str
    capacity: int | None
    tags: Sequence[str]


@value
class AgentStatus:
    """An agent's status is its configuration and the trust in its self-assessments."""

    configuration: Agent
    trust: SelfAssessmentTrust


@value
class ListAgentsRequest:
    """This request asks for a page of agents."""

    page_size: PageSize = 100
    page_token: str = ""


@value
class ListAgentsResponse:
    """This response is a page of agents."""

    agents: Sequence[AgentStatus]
    next_page_token: str


@value
class Flow:
    """A flow summarizes the delegations from one agent to another."""

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
    """This request asks for a page of flows."""

    page_size: PageSize = 100
    page_token: str = ""
    dimension: str = ""
    since: datetime | None = None
    until: datetime | None = None
    baseline: Baseline = Baseline.NONE


@value
class GetFlowsResponse:
    """This response is a page of flows with totals of all flows."""

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
    """A row states the reliability of one kind of confidence."""

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
    """This request asks for a page of reliabilities."""

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
    """This response is a page of reliabilities."""

    reliabilities: Sequence[ReliabilityRow]
    next_page_token: str


@value
class DriftEvent:
    """A drift event is a detected change of an agent's competence in one dimension."""

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
    """This request asks for a page of drift events."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""
    since: datetime | None = None
    until: datetime | None = None


@value
class ListDriftEventsResponse:
    """This response is a page of drift events."""

    events: Sequence[DriftEvent]
    next_page_token: str


# Newest labelled self-assessments of an agent that its trust is computed from [count].
MAX_TRUST_RATINGS = 10_000


@value
class LabelledConfidence:
    """A labelled confidence has the label of its answer.

    Attributes:
        agent: The agent; empty for a vote.
        source: The kind of confidence.
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
    """A self-rating is an agent's verbalized confidence with the label of its answer.

    Attributes:
        raw: The confidence before recalibration [0..1].
        correct: Whether the answer was right.
    """

    raw: float
    correct: bool


@value
class ModeCounts:
    """Tasks are counted by how they were solved [count]."""

    tasks: int
    executed: int
    delegated: int
    collaborated: int


@value
class RecalibrationMap:
    """The map takes an agent's verbalized confidence to its share of right answers; without points it is not in force.

    Attributes:
        agent: The agent.
        version: Its version.
        method: How it was fitted; empty without points.
        points: Its points.
        observations: Labelled self-assessments that it was fitted to [count].
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
    """This store holds recorded tasks and labels. Every method may raise `DatabaseUnavailable`."""

    async def mode_counts(self, request: GetFlowsRequest) -> ModeCounts:
        """Return how many tasks were solved in each way."""

    async def delegations(self, request: GetFlowsRequest) -> Sequence[DelegationCounts]:
        """Return delegations by pair of agents."""

    async def labelled(self, request: GetReliabilityRequest) -> Sequence[LabelledConfidence]:
        """Return labelled confidences, newest first."""

    async def newest_ratings(self, agent: str, limit: int) -> Sequence[SelfRating]:
        """Return the newest labelled self-assessments of an agent."""

    async def drift_events(self, request: ListDriftEventsRequest, *, before: str, limit: int) -> Sequence[DriftEvent]:
        """Return drift events, newest first, from the one after the event `before` on; empty: from the newest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """This object serves the use cases of monitoring.

    Attributes:
        records: The store of recorded tasks and labels.
        agents: The configured agents.
        dimensions: The configured dimensions.
        model_clients: Model clients of the agents.
        maps: Recalibrations in force, by agent.
        trusts: Trust in agents, shared by those who ask for it.
        flows: Flows, shared in the same way.
        reliabilities: Reliabilities, shared in the same way.
    """

    records: MonitoringStore
    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    model_clients: ModelClients
    maps: Callable[[], Mapping[str, RecalibrationMap]]
    trusts: SharedResults[tuple[str, str], SelfAssessmentTrust] = field(default_factory=SharedResults)
    flows: SharedResults[GetFlowsRequest, GetFlowsResponse] = field(default_factory=SharedResults)
    reliabilities: SharedResults[GetReliabilityRequest, GetReliabilityResponse] = field(default_factory=SharedResults)

    async def list_agents(self, request: ListAgentsRequest) -> ListAgentsResponse:
        """Return a page of the configured agents, each with the trust in its self-assessments.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            DatabaseUnavailable: When the database cannot be reached.
        """
        agents = list(self.agents())
        first = _start_index(agents, request.page_token)
        shown = agents[first : first + request.page_size]
        maps = self.maps()
        statuses = []
        for agent in shown:
            current = maps.get(agent.id)
            version = current.version if current and current.points else ""
            trust = await self.trusts.get((agent.id, version), partial(self._trust, agent.id, version))
            model = self.model_clients.of(agent).model
            configuration = Agent(id=agent.id, model=model, capacity=agent.capacity, tags=agent.tags)
            statuses.append(AgentStatus(configuration=configuration, trust=trust))
        more = first + len(shown) < len(agents)
        return ListAgentsResponse(agents=statuses, next_page_token=token_of(shown[-1].id) if more else "")

    async def _trust(self, agent: str, version: str) -> SelfAssessmentTrust:
        ratings = await self.records.newest_ratings(agent, MAX_TRUST_RATINGS)
        raw, labels = [each.raw for each in ratings], [float(each.correct) for each in ratings]
        return await in_thread(self_assessment_trust, raw, labels, version)

    async def get_flows(self, request: GetFlowsRequest) -> GetFlowsResponse:
        """Return how often each agent delegates to each other, and the share of right answers.

        Raises:
            UnknownDimension: For one that is not configured.
            InvalidPageToken: For a token that this service did not issue.
            Overloaded: When as many figures are computed for the caller as may be.
            DatabaseUnavailable: When the database cannot be reached.
        """
        if request.dimension:
            check_dimension(request.dimension, [each.id for each in self.dimensions()])
        return await self.flows.get(request, lambda: self._flows(request))

    async def _flows(self, request: GetFlowsRequest) -> GetFlowsResponse:
        modes, delegations = await self.records.mode_counts(request), await self.records.delegations(request)
        all_tasks = sum(each.tasks for each in delegations)
        flows = [_flow(each, all_tasks) for each in delegations]
        ordered = sorted(flows, key=_flow_name)
        shown, token = page(ordered, _flow_name, request.page_token, request.page_size, parts=3)
        total = delegation_precision(delegations)
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
            better_profile_share=better_profile_share(delegations),
        )

    async def get_reliability(self, request: GetReliabilityRequest) -> GetReliabilityResponse:
        """Return the reliability of confidences by agent, dimension and source.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            Overloaded: When as many figures are computed for the caller as may be.
            DatabaseUnavailable: When the database cannot be reached.
        """

        async def compute() -> GetReliabilityResponse:
            return await in_thread(_reliabilities, request, await self.records.labelled(request))

        return await self.reliabilities.get(request, compute)

    async def list_drift_events(self, request: ListDriftEventsRequest) -> ListDriftEventsResponse:
        """Return a page of detected changes of competence, newest first.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            DatabaseUnavailable: When the database cannot be reached.
        """
        before = id_in(request.page_token) if request.page_token else ""
        found = await self.records.drift_events(request, before=before, limit=request.page_size + 1)
        shown = found[: request.page_size]
        token = shown[-1].event_id if len(found) > request.page_size else ""
        return ListDriftEventsResponse(events=shown, next_page_token=token)


def _reliabilities(request: GetReliabilityRequest, labelled: Sequence[LabelledConfidence]) -> GetReliabilityResponse:
    groups = grouped(labelled, agent=request.agent, dimension=request.dimension)
    names, token = page(sorted(groups), lambda name: name, request.page_token, request.page_size, parts=3)
    rows = [_row(name, groups[name], request.bins) for name in names]
    return GetReliabilityResponse(reliabilities=rows, next_page_token=token)


def grouped(
    labelled: Iterable[LabelledConfidence], *, agent: str = "", dimension: str = ""
) -> dict[tuple[str, str, ConfidenceSource], list[LabelledConfidence]]:
    """Return labelled confidences by agent, dimension and source; under an empty name, those of all."""
    groups: dict[tuple[str, str, ConfidenceSource], list[LabelledConfidence]] = {}
    for each in labelled:
        agents = [agent] if agent else list(dict.fromkeys(["", each.agent]))
        dimensions = [dimension] if dimension else ["", *each.dimensions]
        for by_agent in agents:
            for by_dimension in dimensions:
                groups.setdefault((by_agent, by_dimension, each.source), []).append(each)
    return groups


def _row(name: tuple[str, str, ConfidenceSource], labelled: Sequence[LabelledConfidence], bins: int) -> ReliabilityRow:
    confidences = [each.confidence for each in labelled]
    measured = reliability(confidences, [float(each.correct) for each in labelled], bins)
    return ReliabilityRow(
        agent=name[0],
        dimension=name[1],
        confidence_source=name[2],
        observations=len(labelled),
        calibration_error=measured.calibration_error,
        chance_calibration_error=chance_calibration_error(confidences, bins),
        brier_score=measured.brier_score,
        bins=measured.bins,
    )


def _flow(counts: DelegationCounts, all_tasks: int) -> Flow:
    share = precision(counts.correct, counts.labelled)
    return Flow(
        from_agent=counts.from_agent,
        to_agent=counts.to_agent,
        tasks=counts.tasks,
        share=counts.tasks / all_tasks,
        judged=counts.labelled,
        correct=counts.correct,
        precision=share.precision,
        precision_low=share.low,
        precision_high=share.high,
    )


def _flow_name(flow: Flow) -> tuple[str, ...]:
    """Return the name by which flows are ordered: the largest first, ties by agents."""
    return (f"{10**10 - flow.tasks:011d}", flow.from_agent, flow.to_agent)


def _start_index(agents: Sequence[object], token: str) -> int:
    if not token:
        return 0
    names = [getattr(agent, "id", "") for agent in agents]
    (last,) = parts_of(token, 1)
    if last not in names:
        raise invalid_token(token)
    return names.index(last) + 1
