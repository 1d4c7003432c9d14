"""Requests, results and events of the router; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from chassis.wire import Count, RequestId, Seed
from kernel.answers import AnswerType, Outcome
from kernel.envelope import Envelope, Usage
from kernel.msv import MSV
from kernel.values import value
from services.router.core.activation import Activation, Route

AssignmentKind = Literal["OPTIMAL", "GREEDY", "RANDOM", "FIXED"]
ArbitrationMode = Literal["PAPER", "ADAPTIVE"]
ArbitrationVariant = Literal["FULL", "MAJORITY_VOTE", "REFLECTIONS", "SINGLE_ARBITER", "SELF_CONSISTENCY"]
Temperature = Annotated[float, Field(ge=0, le=2)]


@value
class Turn:
    """One turn of a conversation."""

    role: str
    content: str


@value
class AssessRequest:
    """Asks for the state of `query`, or of the last turn of `messages`."""

    query: str = ""
    messages: Sequence[Turn] = ()
    envelope: Envelope | None = None
    seed: Seed | None = None
    assessor: str = ""


@value
class AssessResponse:
    """The state of a query."""

    msv: MSV
    assessor: str
    prompt_digests: Mapping[str, str]
    usage: Usage
    duration_ms: float
    draft: str = ""
    samples: Sequence[str] = ()


@value
class RouteRequest:
    """Asks for the choice of system; with a ready state no model is called."""

    msv: MSV | None = None
    query: str = ""
    messages: Sequence[Turn] = ()
    strategy: str = ""
    envelope: Envelope | None = None
    seed: Seed | None = None
    assessor: str = ""


@value
class RouteResponse:
    """The choice of system, and why."""

    system: Route
    strategy: str
    activation: Activation | None
    msv: MSV | None
    because: str
    config_version: str
    assessor: str
    usage: Usage
    duration_ms: float
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    policy_row: str = ""
    kept_from: str = ""
    draft: str = ""
    samples: Sequence[str] = ()


@value
class Routed(RouteResponse):
    """The query is assessed and the system chosen."""


@value
class AdaptiveOptions:
    """When the arbiter's adaptive mode stops; None takes its default."""

    agreement_entropy: Annotated[float, Field(ge=0, le=1e9)] | None = None
    stopping_probability: Annotated[float, Field(ge=0.5, le=1)] | None = None
    first_batch_samples: Count | None = None
    stepwise_solving: bool | None = None


@value
class ArbitrationOptions:
    """How the arbiter settles a question; None takes its default."""

    mode: ArbitrationMode | None = None
    variant: ArbitrationVariant | None = None
    solvers: Count | None = None
    solver_samples: Count | None = None
    arbitration_samples: Count | None = None
    self_consistency_samples: Count | None = None
    solver_temperature: Temperature | None = None
    critique_temperature: Temperature | None = None
    arbitration_temperature: Temperature | None = None
    solver_agents: Sequence[str] = ()
    critic_agent: str = ""
    arbiter_agent: str = ""
    solver_max_tokens: Count | None = None
    critique_max_tokens: Count | None = None
    arbitration_max_tokens: Count | None = None
    adaptive: AdaptiveOptions | None = None
    embedding_measures: bool | None = None


@value
class AnswerRequest:
    """Asks for an answer to `query`, or to the last turn of `messages`."""

    query: str = ""
    messages: Sequence[Turn] = ()
    strategy: str = ""
    msv: MSV | None = None
    answer_type: AnswerType | None = None
    envelope: Envelope | None = None
    seed: Seed | None = None
    temperature: Temperature | None = None
    max_tokens: Count | None = None
    fallback: bool = True
    request_id: RequestId = ""
    assignment_kind: AssignmentKind | None = None
    assignment_seed: Seed | None = None
    fixed_assignment: Mapping[str, str] = field(default_factory=dict)
    stage_max_tokens: Count | None = None
    assessor: str = ""
    stop: Annotated[Sequence[Annotated[str, Field(min_length=1)]], Field(max_length=4)] = ()
    arbitration: ArbitrationOptions | None = None


@value
class RunStarted:
    """The run begins."""

    run_id: str


@value
class AnswerToken:
    """Text of the answer, as it is generated; text before a `FellBack`, or another choice of agent, is void."""

    text: str


@value
class FellBack:
    """A strategy failed, and another one stands in."""

    from_strategy: str
    to_strategy: str
    reason: str
    message: str


@value
class Relayed:
    """An event of a strategy's own service, passed on as it came.

    Attributes:
        name: Its name in the contract.
        data: Its content, as REST spells it.
    """

    name: str
    data: Mapping[str, Any]


@value
class Passed:
    """A piece of the backend's own answer, passed on as it came.

    Attributes:
        raw: The bytes of one server-sent event; empty for a whole answer.
        document: The piece parsed, where that was needed.
    """

    raw: bytes = b""
    document: Mapping[str, Any] | None = None


@value
class RunFeedback:
    """A verdict on a run's answer."""

    feedback_id: str
    score: float
    note: str
    key_name: str
    teaches: bool
    created_at: datetime


@value
class Run:
    """A run: what was asked, decided, done and spent."""

    run_id: str
    created_at: datetime
    messages: Sequence[Turn]
    messages_digest: str
    envelope: Envelope
    request_digest: str = ""
    request_id: str = ""
    key_name: str = ""
    route: RouteResponse | None = None
    strategy: str = ""
    answer: str = ""
    outcome: Outcome = Outcome.ABSTAINED
    confidence: float | None = None
    confidence_source: str = ""
    deliberation: Mapping[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)
    degraded: bool = False
    degraded_reasons: Sequence[str] = ()
    fallbacks: Sequence[FellBack] = ()
    budget_exhausted: bool = False
    finish_reason: str = ""
    error_reason: str = ""
    duration_ms: float = 0.0
    first_token_ms: float | None = None
    config_version: str = ""
    model: str = ""
    confidence_raw: float | None = None
    calibration_version: str = ""
    feedback: Sequence[RunFeedback] = ()


@value
class RunFinished:
    """The run has ended."""

    run: Run


@value
class GetRunResponse:
    """One run."""

    run: Run


@value
class ListRunsRequest:
    """Asks for a page of runs, newest first."""

    page_size: int = 50
    page_token: str = ""
    system: Route | None = None
    strategy: str = ""
    degraded: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    outcome: Outcome | None = None
    judged: bool | None = None
    assessor: str = ""
    error_reason: str = ""
    request_id: str = ""


@value
class ListRunsResponse:
    """A page of runs."""

    runs: Sequence[Run]
    next_page_token: str


Event = RunStarted | Routed | Relayed | AnswerToken | FellBack | RunFinished
