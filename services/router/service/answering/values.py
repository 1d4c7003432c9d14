"""These values are the requests and events of an answer; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from chassis.serving.wire import Count, RequestId, Seed
from kernel.answers import AnswerType
from kernel.conversation import Turn
from kernel.envelope import Envelope
from kernel.errors import MalformedRequest
from kernel.msv import MSV
from kernel.values import value
from kernel.votes.promise import LEAST_ERROR, MOST_ERROR
from kernel.votes.votes import MOST_VOTES, VoteMode
from services.router.core.cost_guard import LEAST_TIMES, MOST_TIMES
from services.router.service.assessment.values import Routed
from services.router.service.runs.values import FellBack, Run

AssignmentKind = Literal["OPTIMAL", "GREEDY", "RANDOM", "FIXED"]


ArbitrationMode = Literal["PAPER", "ADAPTIVE"]


ArbitrationVariant = Literal["FULL", "MAJORITY_VOTE", "REFLECTIONS", "SINGLE_ARBITER", "SELF_CONSISTENCY"]


ModelName = Annotated[str, Field(max_length=200)]


# Agents or dimensions that a request may name, and other spellings of a right answer, as delegation has them [count].
MOST_NAMES, MOST_ALIASES = 1000, 100

Temperature = Annotated[float, Field(ge=0, le=2)]


@value
class AdaptiveOptions:
    """This rule says when the arbiter's adaptive mode stops; None is its default."""

    agreement_entropy: Annotated[float, Field(ge=0, le=1e9)] | None = None
    stopping_probability: Annotated[float, Field(ge=0.5, le=1)] | None = None
    first_batch_samples: Count | None = None
    stop: Literal["AGREE", "NONE"] | None = None
    agree: Count | None = None


@value
class ArbitrationOptions:
    """These options say how the arbiter answers a question; None is its default."""

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
class VoteOptionsSource:
    """This source of votes is an agent, or a model alone, in one mode; unnamed it is the default model."""

    agent: str = ""
    mode: VoteMode | None = None
    competence: Annotated[float, Field(ge=0, le=1)] | None = None
    model: ModelName = ""


Votes = Annotated[int, Field(ge=1, le=MOST_VOTES)]


@value
class VoteOptions:
    """These options say how votes are asked for; None is the default."""

    agree: Votes | None = None
    most: Votes | None = None
    ahead: Votes | None = None
    sources: Annotated[Sequence[VoteOptionsSource], Field(max_length=MOST_VOTES)] = ()
    tests: str = ""
    escalate: ModelName = ""
    ask_all: bool = False


@value
class Promise:
    """A promise bounds the share of errors among the answers that are given."""

    error_at_most: Annotated[float, Field(ge=LEAST_ERROR, le=MOST_ERROR)]


@value
class DialecticOptions:
    """These options say how the dialectic deliberates; None is its default."""

    agents: Annotated[Sequence[str], Field(max_length=MOST_NAMES)] = ()
    keep_apart: bool | None = None
    measure_stages: bool | None = None


@value
class CostGuard:
    """A cost guard bounds the tokens of a run by a multiple of its System 1 answer, which counts 64 at least."""

    times_system1: Annotated[float, Field(ge=LEAST_TIMES, le=MOST_TIMES)]


@value
class ExpectedAnswer:
    """The answer of a task is compared with this right answer."""

    answer: Annotated[str, Field(min_length=1)]
    answer_type: AnswerType | None = None
    aliases: Annotated[Sequence[str], Field(max_length=MOST_ALIASES)] = ()


@value
class TaskUnitTests:
    """Right code passes these unit tests."""

    code: Annotated[str, Field(min_length=1)]
    timeout_ms: Count | None = None


@value
class TaskJudge:
    """A judge model checks the answer of a task."""

    agent: str = ""
    criteria: str = ""


@value
class DelegationOptions:
    """These options say how the delegation service solves a task; the service checks them as those of its own request.

    Raises:
        MalformedRequest: On construction, for more than one check of the answer.
    """

    dimension: str = ""
    dimensions: Annotated[Sequence[str], Field(max_length=MOST_NAMES)] = ()
    agents: Annotated[Sequence[str], Field(max_length=MOST_NAMES)] = ()
    first_agent: str = ""
    expected: ExpectedAnswer | None = None
    unit_tests: TaskUnitTests | None = None
    judge: TaskJudge | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("expected", "unit_tests", "judge") if getattr(self, name) is not None]
        if len(given) > 1:
            field = f"delegation.{given[1]}"
            raise MalformedRequest(f"{field}: give one of {', '.join(given)}, not several", field=field)


@value
class AnswerRequest:
    """This request asks for an answer to `question`, or to the last turn of `messages`."""

    question: str = ""
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
    vote: VoteOptions | None = None
    model: ModelName = ""
    promise: Promise | None = None
    dialectic: DialecticOptions | None = None
    delegation: DelegationOptions | None = None
    at_most: CostGuard | None = None


@value
class ServedAnswer:
    """A served answer is what the answer of a shadow run is compared with.

    Attributes:
        run_id: The served run.
        text: Its answer.
        policy: Version of the policy by which the shadow run is answered.
    """

    run_id: str
    text: str
    policy: str


@value
class RunStarted:
    """This event reports that the run has started."""

    run_id: str


@value
class AnswerToken:
    """This event is a piece of the answer's text; text before a `FellBack`, or another choice of agent, is void."""

    text: str


@value
class RelayedEvent:
    """An event of a strategy's own service is relayed unchanged.

    Attributes:
        name: Its name in the contract.
        data: Its content, as REST spells it.
    """

    name: str
    data: Mapping[str, Any]


@value
class PassedThrough:
    """A piece of the backend's own answer is passed through unchanged.

    Attributes:
        raw: The bytes of one server-sent event; empty for a whole answer.
        document: The piece parsed, where that was needed.
    """

    raw: bytes = b""
    document: Mapping[str, Any] | None = None


@value
class RunFinished:
    """This event reports that the run has ended."""

    run: Run


Event = RunStarted | Routed | RelayedEvent | AnswerToken | FellBack | RunFinished
