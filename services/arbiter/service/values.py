"""These values are the requests, results and events of the arbiter; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Annotated

from pydantic import Field

from chassis.serving.wire import Count, Seed
from kernel.answers import AnswerType
from kernel.arbitration.modes import AnswerSource, Mode, Phase, Regime, SolvingStop, Stopping, Variant
from kernel.conversation import Turn
from kernel.envelope import Envelope, StageUsage, Usage
from kernel.outcomes import Outcome
from kernel.values import value
from kernel.votes.states import ProbabilityState

MOST_QUESTIONS = 10_000
MOST_SOLVERS = 2**31 - 1

Temperature = Annotated[float, Field(ge=0, le=2)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Nats = Annotated[float, Field(ge=0, le=1e9)]
Index = Annotated[int, Field(ge=0, le=MOST_SOLVERS)]


@value
class AdaptiveOptions:
    """These options are those of the adaptive mode; None takes the service's default."""

    agreement_entropy: Nats | None = None
    stopping_probability: Annotated[float, Field(ge=0.5, le=1)] | None = None
    first_batch_samples: Count | None = None
    stop: SolvingStop | None = None
    agree: Count | None = None


@value
class ArbitrateRequest:
    """This request asks for an arbitration of `question`, or of the conversation in `messages`."""

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
    """A sample of a solver or of the arbiter has its answer in canonical form; without one it is invalid."""

    solver: Index | None = None
    text: str = ""
    answer: str | None = None
    completion_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    truncated: bool = False


@value
class Critique:
    """A critique states strengths and errors of one solver's representative trace, without the choice of an answer."""

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
    """This value holds the samples of one question to be measured."""

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
    """This request asks for the measures of samples that exist: of the question given here, or of those in `batch`."""

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
    """This request asks to arbitrate a recorded question again."""

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


@value
class SolverMeasures:
    """This value is the answer that one solver alone would have given, with its measures."""

    solver: int
    answer: str | None = None
    probability: float | None = None
    correct: bool | None = None
    overconfident_error: bool | None = None


@value
class Measures:
    """This value holds the measures of one question; None is undefined, and `undefined_reasons` names the reason."""

    entropy_solver: float | None = None
    entropy_arbiter: float | None = None
    entropy_reduction: float | None = None
    compression: float | None = None
    solver_invalid_share: float | None = None
    arbiter_invalid_share: float | None = None
    novelty: float | None = None
    novelty_threshold: float | None = None
    redundancy: float | None = None
    semantic_share: float | None = None
    symbolic_share: float | None = None
    untraced_share: float | None = None
    correct: bool | None = None
    overconfident_error: bool | None = None
    solvers: Sequence[SolverMeasures] = ()
    solver_divergence: float | None = None
    sampling_divergence: float | None = None
    structured_disagreement: bool | None = None
    failure_regimes: Sequence[Regime] = ()
    undefined_reasons: Mapping[str, str] = field(default_factory=dict)
    unit_assumed: str = ""


@value
class SolverResult:
    """This result holds the samples of one solver, counted by answer."""

    solver: int
    agent: str
    model: str
    counts: Mapping[str, int]
    invalid: int
    entropy: float | None
    representative: Sample | None


@value
class ArbitrationStarted:
    """This event reports that an arbitration begins."""

    run_id: str
    mode: Mode
    variant: Variant
    solver_agents: Sequence[str]
    critic_agent: str
    arbiter_agent: str
    planned_generations: int


@value
class SamplesDrawn:
    """This event reports that a batch of samples is drawn."""

    phase: Phase
    solver: int | None
    batch: int
    drawn: int
    planned: int
    counts: Mapping[str, int]
    invalid: int
    entropy: float | None
    leader: str | None
    leader_probability: float | None
    samples: Sequence[Sample] = ()


@value
class SolversFinished:
    """This event reports that all solver samples are drawn."""

    counts: Mapping[str, int]
    invalid: int
    entropy: float | None
    solver_results: Sequence[SolverResult]
    settled: bool


@value
class CritiqueFinished(Critique):
    """This event reports that a critique is complete, or given up."""


@value
class AnswerSettled:
    """This event reports that the answer is final; the measures may follow later."""

    answer: str
    outcome: Outcome
    answer_text: str
    answer_type: AnswerType
    confidence: float | None
    answer_source: AnswerSource | None
    confidence_state: ProbabilityState | None = None


@value
class ArbitrationFinished:
    """This event reports that an arbitration has ended, with everything that explains its answer."""

    answer: str
    outcome: Outcome
    budget_exhausted: bool
    solver: Mapping[str, int]
    arbiter: Mapping[str, int]
    solver_invalid: int
    arbiter_invalid: int
    solver_results: Sequence[SolverResult]
    critiques: Sequence[Critique]
    measures: Measures
    usage: Usage
    answer_type: AnswerType
    answer_text: str
    confidence: float | None
    answer_source: AnswerSource | None
    tied_answers: Sequence[str]
    mode: Mode
    variant: Variant
    stopping_reason: Stopping
    stopping_error: float | None
    planned_generations: int
    saved_generations: int
    arbiter_agent: str
    arbiter_model: str
    prompt_digests: Mapping[str, str]
    shortened_inputs: Sequence[str]
    degraded: bool
    degraded_reasons: Sequence[str]
    samples: Sequence[Sample]
    run_id: str
    duration_ms: float
    confidence_state: ProbabilityState | None = None
    spellings: Mapping[str, str] = field(default_factory=dict)


@value
class MeasuredQuestion:
    """This value holds the measures of one question of a batch."""

    id: str
    answer: str
    outcome: Outcome
    answer_source: AnswerSource | None
    confidence: float | None
    answer_type: AnswerType
    solver: Mapping[str, int]
    arbiter: Mapping[str, int]
    measures: Measures
    confidence_state: ProbabilityState | None = None


@value
class MeasureSummary:
    """This summary holds the measures of a whole batch."""

    questions: int
    answered: int
    judged: int
    accuracy: float | None
    overconfident_errors: int | None
    strongest_solver: int | None
    strongest_solver_accuracy: float | None
    strongest_solver_overconfident_errors: int | None
    means: Mapping[str, float]
    defined: Mapping[str, int]


@value
class MeasureResponse:
    """This response holds the measures; with a batch only `batch`, `summary` and `duration_ms` are filled."""

    answer: str = ""
    outcome: Outcome | None = None
    answer_source: AnswerSource | None = None
    confidence: float | None = None
    answer_type: AnswerType | None = None
    solver: Mapping[str, int] = field(default_factory=dict)
    arbiter: Mapping[str, int] = field(default_factory=dict)
    entropy_solver: float | None = None
    entropy_arbiter: float | None = None
    entropy_reduction: float | None = None
    compression: float | None = None
    solver_invalid_share: float | None = None
    arbiter_invalid_share: float | None = None
    novelty: float | None = None
    novelty_threshold: float | None = None
    redundancy: float | None = None
    semantic_share: float | None = None
    symbolic_share: float | None = None
    untraced_share: float | None = None
    correct: bool | None = None
    overconfident_error: bool | None = None
    solvers: Sequence[SolverMeasures] = ()
    solver_divergence: float | None = None
    sampling_divergence: float | None = None
    structured_disagreement: bool | None = None
    failure_regimes: Sequence[Regime] = ()
    undefined_reasons: Mapping[str, str] = field(default_factory=dict)
    batch: Sequence[MeasuredQuestion] = ()
    summary: MeasureSummary | None = None
    duration_ms: float = 0.0
    confidence_state: ProbabilityState | None = None
    unit_assumed: str = ""


@value
class ReplayResponse:
    """This response holds the result of a replay, compared with the whole recording."""

    id: str
    arbitration: ArbitrationFinished
    recorded_answer: str | None
    same_answer: bool | None
    recorded_generations: int


Event = ArbitrationStarted | SamplesDrawn | SolversFinished | CritiqueFinished | AnswerSettled | ArbitrationFinished


@value
class StoredArbitration:
    """An arbitration is stored with its question and its last event."""

    created_at: datetime
    question: str = ""
    finished: ArbitrationFinished


@value
class GetArbitrationResponse:
    """This response holds one arbitration."""

    arbitration: StoredArbitration


@value
class ListArbitrationsResponse:
    """This response is a page of arbitrations."""

    arbitrations: Sequence[StoredArbitration]
    next_page_token: str
    unreadable: int = 0
