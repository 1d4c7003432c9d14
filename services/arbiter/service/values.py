"""Requests of the arbiter, and what samples are; field names are the contract's."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from chassis.wire import Count, Seed
from kernel.answers import AnswerType
from kernel.envelope import Envelope, StageUsage
from kernel.values import value
from services.arbiter.core.kinds import Mode, Variant

MOST_QUESTIONS = 10_000
MOST_SOLVERS = 2**31 - 1

Temperature = Annotated[float, Field(ge=0, le=2)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Nats = Annotated[float, Field(ge=0, le=1e9)]
Index = Annotated[int, Field(ge=0, le=MOST_SOLVERS)]


@value
class Turn:
    """One turn of a conversation."""

    role: str
    content: str


@value
class AdaptiveOptions:
    """When the adaptive mode stops; None takes the service's default."""

    agreement_entropy: Nats | None = None
    stopping_probability: Annotated[float, Field(ge=0.5, le=1)] | None = None
    first_batch_samples: Count | None = None
    stepwise_solving: bool | None = None


@value
class ArbitrateRequest:
    """Asks for an arbitration of `question`, or of the last turn of `messages`."""

    question: str = ""
    messages: Sequence[Turn] = ()
    answer_type: AnswerType | None = None
    mode: Mode = Mode.ADAPTIVE
    variant: Variant = Variant.FULL
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
    novelty_threshold: Cosine | None = None
    overconfidence_threshold: Share | None = None
    truth: str | None = None
    truth_aliases: Sequence[str] = ()
    return_samples: bool = False
    envelope: Envelope | None = None
    seed: Seed | None = None
    run_id: str = ""


@value
class Sample:
    """One sample of a solver or of the arbiter, with its answer in canonical form; without one it is invalid."""

    solver: Index | None = None
    text: str = ""
    answer: str | None = None
    completion_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    truncated: bool = False


@value
class Critique:
    """Strengths and errors of one solver's representative trace, without the choice of an answer."""

    solver: Index
    agent: str = ""
    model: str = ""
    text: str = ""
    usage: StageUsage | None = None
    duration_ms: float = 0.0
    truncated: bool = False
    succeeded: bool = False
    failure: str = ""


@value
class SampledQuestion:
    """Samples of one question that are to be measured."""

    id: str = ""
    answer_type: AnswerType | None = None
    solver_answers: Sequence[str] = ()
    solver_indices: Sequence[Index] = ()
    arbiter_answers: Sequence[str] = ()
    truth: str | None = None
    truth_aliases: Sequence[str] = ()
    solver_traces: Sequence[str] = ()
    critiques: Sequence[str] = ()
    arbiter_texts: Sequence[str] = ()


@value
class MeasureRequest:
    """Asks for the measures of samples that exist: of the question spelled out here, or of those in `batch`."""

    answer_type: AnswerType | None = None
    solver_answers: Sequence[str] = ()
    solver_indices: Sequence[Index] = ()
    arbiter_answers: Sequence[str] = ()
    truth: str | None = None
    truth_aliases: Sequence[str] = ()
    solver_traces: Sequence[str] = ()
    critiques: Sequence[str] = ()
    arbiter_texts: Sequence[str] = ()
    batch: Sequence[SampledQuestion] = ()
    embedding_measures: bool | None = None
    novelty_threshold: Cosine | None = None
    overconfidence_threshold: Share | None = None


@value
class ReplayRequest:
    """Asks for a recorded question to be run again."""

    id: str = ""
    question: str = ""
    answer_type: AnswerType | None = None
    recorded_solver_samples: Sequence[Sample] = ()
    recorded_critiques: Sequence[Critique] = ()
    recorded_arbitration_samples: Sequence[Sample] = ()
    mode: Mode = Mode.ADAPTIVE
    variant: Variant = Variant.FULL
    solver_samples: Count | None = None
    arbitration_samples: Count | None = None
    self_consistency_samples: Count | None = None
    adaptive: AdaptiveOptions | None = None
    embedding_measures: bool = False
    novelty_threshold: Cosine | None = None
    overconfidence_threshold: Share | None = None
    truth: str | None = None
    truth_aliases: Sequence[str] = ()
    envelope: Envelope | None = None
    seed: Seed | None = None
