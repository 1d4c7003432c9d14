"""Requests and results of watching how delegation does; field names are the contract's."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from kernel.statistics.reliability import ReliabilityBin
from kernel.values import value
from services.delegation.core.rules import Baseline, ConfidenceSource
from services.delegation.core.trust import SelfAssessmentTrust
from services.delegation.service.profile_values import PageSize


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
