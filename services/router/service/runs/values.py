"""These values are a run and the requests for runs; their fields are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from kernel.activation import Route
from kernel.conversation import Turn
from kernel.envelope import Envelope, Usage
from kernel.msv import MSV
from kernel.outcomes import Outcome
from kernel.policy import Strategy
from kernel.values import value
from kernel.votes.agreement import VoteAgreement
from kernel.votes.plans import EscalationReason
from kernel.votes.promise import PromiseStage
from kernel.votes.states import ProbabilityState
from services.router.core.feedback import LabelOrigin
from services.router.core.shadow import UnknownAgreement
from services.router.service.assessment.values import RouteResponse

# Field of the contract's run that holds the account of each strategy; `Run` holds it as `deliberation`.
ACCOUNT_FIELDS: Mapping[str, str] = {
    Strategy.VOTE: "vote",
    Strategy.CASCADE: "vote",
    Strategy.DIALECTIC: "deliberation",
    Strategy.ARBITER: "arbitration",
    Strategy.DELEGATION: "task",
}


@value
class FellBack:
    """This event reports a fallback: one strategy failed, and another one answered in its place."""

    from_strategy: str
    to_strategy: str
    reason: str
    message: str


class Idempotency(StrEnum):
    """This is the guarantee that a request which is sent twice is answered once, where it is not given."""

    UNAVAILABLE = "UNAVAILABLE"


class CallKind(StrEnum):
    """A kind of call is what its client called."""

    ANSWER = "ANSWER"
    CHAT = "CHAT"
    COMPLETION = "COMPLETION"
    EMBEDDING = "EMBEDDING"
    TOKENIZE = "TOKENIZE"
    DETOKENIZE = "DETOKENIZE"
    RERANK = "RERANK"
    SCORE = "SCORE"
    MESSAGE = "MESSAGE"
    RESPONSE = "RESPONSE"


@value
class Escalation:
    """This value says what became of the stronger model that a vote may be escalated to."""

    model: str
    reason: EscalationReason | None = None
    answered: bool = False
    error: str = ""


@value
class Shadow:
    """This value says which served run a shadow run answers again, by which policy, and whether both agree."""

    shadow_of: str
    policy: str
    agrees: bool | None = None
    not_compared: UnknownAgreement | None = None


@value
class RunAgreement(VoteAgreement):
    """This value is the agreement of a vote, with the version of its configuration."""

    version: str


class PromiseState(StrEnum):
    """The state of a promise: it is proved, the answer is withheld, or the promise does not reach the request."""

    PROVED = "PROVED"
    WITHHELD = "WITHHELD"
    NOT_APPLIED = "NOT_APPLIED"


@value
class PromiseOutcome:
    """This value says what became of a promise."""

    error_at_most: float
    state: PromiseState
    stage: PromiseStage | None = None
    reason: str = ""
    labels: int = 0
    labels_needed: int | None = None
    kind: str = ""
    withheld: str = ""


@value
class CostGuardOutcome:
    """This value says what a cost guard allowed, and which strategy was therefore not started."""

    times_system1: float
    max_generated_tokens: int
    draft_tokens: int | None = None
    not_started: str = ""
    reason: str = ""


@value
class Citation:
    """A citation is a passage of a stored document that an answer could use, under the number by which it is cited."""

    number: int
    document_id: str
    title: str
    chunk: int | None
    passage: str


@value
class RunFeedback:
    """A run has this feedback on its answer."""

    feedback_id: str
    score: float
    note: str
    key_name: str
    teaches: bool
    created_at: datetime
    origin: LabelOrigin = LabelOrigin.VOLUNTEERED


@value
class Run:
    """A run is one request with its conversation, decision, answer and cost."""

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
    confidence_state: ProbabilityState | None = None
    confidence_labels: int = 0
    confidence_unknown_reason: str = ""
    idempotency: Idempotency | None = None
    escalation: Escalation | None = None
    shadow: Shadow | None = None
    catalogue_name: str = ""
    state: MSV | None = None
    winner_digest: str = ""
    agreement: RunAgreement | None = None
    promise: PromiseOutcome | None = None
    sampled: bool = False
    call: CallKind | None = None
    continuation: str = ""
    response_request: str = ""
    cost_guard: CostGuardOutcome | None = None
    citations: Sequence[Citation] | None = None
    citations_unknown_reason: str = ""
    feedback: Sequence[RunFeedback] = ()


@value
class GetRunResponse:
    """This response holds one run."""

    run: Run


@value
class ListRunsRequest:
    """This request asks for a page of runs, newest first."""

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
    shadow: bool | None = None
    sampled: bool | None = None
    call: CallKind | None = None


@value
class ListRunsResponse:
    """This response is a page of runs."""

    runs: Sequence[Run]
    next_page_token: str
    unreadable: int = 0
