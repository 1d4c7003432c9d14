"""These values are the requests, results and events of the assigner; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from chassis.serving.wire import Count, Seed
from kernel.answers import AnswerType
from kernel.conversation import Turn
from kernel.envelope import Envelope, StageUsage, Usage
from kernel.msv import MSV
from kernel.outcomes import Outcome
from kernel.roles import Role, Stage
from kernel.values import value

# Agents whose experience a request may state [count].
MAX_AGENTS = 1000
# Why the experience of an agent is unknown that the caller leaves out.
NOT_STATED = "the experience of this agent was not stated"


@value
class Candidate:
    """A candidate is an agent that may hold roles."""

    id: str
    msv: MSV | None = None
    capacity: int | None = None


@value
class ForbiddenPair:
    """This agent must not hold this role."""

    role: Role
    agent: str


@value
class RolePair:
    """These are two roles that different agents should hold."""

    first: Role
    second: Role


@value
class AssignRequest:
    """This request asks for the best assignment of roles, from states or from given fitness."""

    agents: Sequence[Candidate]
    fitness: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)
    weights: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)
    pins: Mapping[Role, str] = field(default_factory=dict)
    forbidden: Sequence[ForbiddenPair] = ()
    brief: bool = False
    keep_apart: bool = False


@value
class PartialFitness:
    """A partial fitness has components that are unknown."""

    role: Role
    agent: str
    unknown: Sequence[str]


@value
class RoleAssignment:
    """A role assignment is a complete set of roles with its total."""

    assignment: Mapping[Role, str]
    total_fitness: float | None


@value
class AssignResponse:
    """This response holds the best assignment, with the numbers that explain it."""

    assignment: Mapping[Role, str]
    total_fitness: float
    fitness: Mapping[Role, Mapping[str, float | None]]
    terms: Mapping[Role, Mapping[str, Mapping[str, float]]]
    margins: Mapping[Role, float | None]
    greedy: RoleAssignment | None
    partial: Sequence[PartialFitness]
    weights: Mapping[Role, Mapping[str, float]]
    weights_version: str = ""
    tie: bool = False
    kept_apart: Sequence[RolePair] = ()
    released: Sequence[RolePair] = ()


class AssignmentKind(StrEnum):
    """A deliberation has one of these kinds of assignment; all but OPTIMAL exist as controls."""

    OPTIMAL = "OPTIMAL"
    GREEDY = "GREEDY"
    RANDOM = "RANDOM"
    FIXED = "FIXED"


@value
class KnownAgentExperience:
    """This value states how far an agent has experience with the question [0..1]; None where that is unknown."""

    agent: str
    experience: Annotated[float, Field(ge=0, le=1)] | None = None
    unknown_reason: str = ""
    questions: int = 0


@value
class KnownExperience:
    """This value holds what is known of the agents' experience, and why that of the others is unknown."""

    agents: Annotated[Sequence[KnownAgentExperience], Field(max_length=MAX_AGENTS)] = ()
    unknown_reason: str = ""

    def of(self, agent: str) -> KnownAgentExperience:
        """Return the experience of an agent; unknown, with a reason, where it is not stated."""
        stated = next((each for each in self.agents if each.agent == agent), None)
        if stated is None:
            reason = self.unknown_reason or NOT_STATED
            return KnownAgentExperience(agent=agent, unknown_reason=reason)
        if stated.experience is None and not stated.unknown_reason:
            return KnownAgentExperience(agent=agent, unknown_reason=NOT_STATED)
        return stated

    def largest(self) -> KnownAgentExperience:
        """Return the largest experience that any agent has; unknown, with every reason, where none is known."""
        known = [each for each in self.agents if each.experience is not None]
        if known:
            return max(known, key=lambda each: each.experience or 0.0)
        reasons = dict.fromkeys(each.unknown_reason for each in self.agents if each.unknown_reason)
        return KnownAgentExperience(agent="", unknown_reason="; ".join(reasons) or self.unknown_reason or NOT_STATED)


@value
class DeliberateRequest:
    """This request asks for a deliberation on `question`, or on the conversation in `messages`."""

    question: str = ""
    messages: Sequence[Turn] = ()
    msv: MSV | None = None
    answer_type: AnswerType | None = None
    agents: Sequence[str] = ()
    assignment_kind: AssignmentKind | None = None
    assignment_seed: Seed | None = None
    fixed_assignment: Mapping[Role, str] = field(default_factory=dict)
    envelope: Envelope | None = None
    seed: Seed | None = None
    stage_max_tokens: Count | None = None
    answer_max_tokens: Count | None = None
    measure_stages: bool = True
    run_id: str = ""
    draft: str = ""
    keep_apart: bool | None = None
    experience: KnownExperience | None = None


@value
class DeliberationStarted:
    """This event reports that a deliberation begins."""

    run_id: str
    agents: Sequence[str]


@value
class AgentAssessed:
    """This event reports that an agent has assessed itself."""

    agent: str
    model: str
    msv: MSV
    prompt_digest: str = ""
    usage: StageUsage | None = None
    duration_ms: float = 0.0


@value
class RolesAssigned:
    """This event reports that roles are assigned, or assigned again because an agent failed."""

    assignment_kind: AssignmentKind
    assignment: Mapping[Role, str]
    total_fitness: float | None
    propensity: float
    optimum: AssignResponse
    reason: str = ""
    explored: bool = False
    capacities: Mapping[str, int] = field(default_factory=dict)


@value
class StageStarted:
    """This event reports that a stage begins; it makes the text of an earlier attempt void."""

    stage: Stage
    role: Role
    agent: str
    model: str
    attempt: int


@value
class StageToken:
    """This event reports that a model has generated a piece of a stage's text."""

    stage: Stage
    text: str


@value
class StageFinished:
    """This event reports that a stage is complete, or given up."""

    stage: Stage
    role: Role
    agent: str
    model: str
    text: str
    prompt: str
    prompt_digest: str
    usage: StageUsage
    duration_ms: float
    truncated: bool
    shortened_inputs: Sequence[str]
    attempts: int
    succeeded: bool
    failure: str = ""


@value
class StageMeasured:
    """This event reports that an assessor, which does not know the stage, has rated the state after it."""

    stage: Stage
    msv: MSV
    model: str = ""
    prompt: str = ""
    prompt_digest: str = ""
    usage: StageUsage | None = None
    duration_ms: float = 0.0
    beside: Sequence[Stage] = ()
    shortened_inputs: Sequence[str] = ()


@value
class DeliberationFinished:
    """This event reports that a deliberation has ended, with everything that explains its answer."""

    answer: str
    outcome: Outcome
    note: str
    note_reason: str
    stages: Sequence[StageFinished]
    measurements: Sequence[StageMeasured]
    assessments: Sequence[AgentAssessed]
    roles: RolesAssigned
    usage: Usage
    degraded: bool
    degraded_reasons: Sequence[str]
    budget_exhausted: bool
    duration_ms: float
    run_id: str = ""
    note_stage: StageFinished | None = None


Event = (
    DeliberationStarted
    | AgentAssessed
    | RolesAssigned
    | StageStarted
    | StageToken
    | StageFinished
    | StageMeasured
    | DeliberationFinished
)


@value
class StoredDeliberation:
    """A deliberation is stored with its question and its last event."""

    created_at: datetime
    question: str = ""
    finished: DeliberationFinished


@value
class GetDeliberationResponse:
    """This response holds one deliberation."""

    deliberation: StoredDeliberation


@value
class ListDeliberationsResponse:
    """This response is a page of deliberations."""

    deliberations: Sequence[StoredDeliberation]
    next_page_token: str
    unreadable: int = 0
