"""The requests, results and events of processing tasks; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from chassis.serving.wire import MAX_COUNT, Count, RequestId, Seed
from kernel.answers import AnswerType
from kernel.confidence.rules import (
    Ablation,
    Baseline,
    Checker,
    ConfidenceSource,
    Dispatch,
    Exploration,
    HandOverRule,
    Rules,
    TaskMode,
)
from kernel.conversation import Turn
from kernel.envelope import Envelope, StageUsage, Usage
from kernel.learning.profiles import ProfileChange
from kernel.outcomes import Outcome
from kernel.values import value
from services.delegation.core.short_list import ShortListed

MAX_AGENTS = 1000
MAX_ALIASES = 100
MAX_NOTE = 10_000

Unit = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(max_length=128)]


class DimensionClassifier(StrEnum):
    """The ways to find the dimensions of a task."""

    MODEL = "MODEL"
    EMBEDDING = "EMBEDDING"


@value
class Parameters:
    """The numbers that decide; a number that is left out takes the service's default."""

    confidence_threshold: Unit | None = None
    verbalized_weight: Unit | None = None
    disagreement_threshold: Unit | None = None
    disagreement_gain: Annotated[float, Field(ge=0, le=1000)] | None = None
    learning_rate: Annotated[float, Field(gt=0, le=1)] | None = None
    minimum_observations: Annotated[int, Field(ge=0, le=MAX_COUNT)] | None = None
    hand_over_rule: HandOverRule | None = None
    short_list_size: Count | None = None
    exploration: Exploration | None = None
    skip_routine: bool | None = None
    recalibrate: bool | None = None
    constant_verbalized: Unit | None = None


@value
class Expected:
    """The right answer to compare with."""

    answer: Annotated[str, Field(min_length=1)]
    answer_type: AnswerType | None = None
    aliases: Annotated[Sequence[str], Field(max_length=MAX_ALIASES)] = ()


@value
class UnitTests:
    """Unit tests that right code passes."""

    code: Annotated[str, Field(min_length=1)]
    timeout_ms: Count | None = None


@value
class Judge:
    """A check of the answer by a judge model."""

    agent: str = ""
    criteria: str = ""


@value
class ProcessRequest:
    """A request to process a task."""

    question: str = ""
    messages: Sequence[Turn] = ()
    dimension: str = ""
    dimensions: Sequence[str] = ()
    expected: Expected | None = None
    unit_tests: UnitTests | None = None
    judge: Judge | None = None
    answer_type: AnswerType | None = None
    envelope: Envelope | None = None
    seed: Seed | None = None
    request_id: RequestId = ""
    run_id: Name = ""
    agents: Annotated[Sequence[str], Field(max_length=MAX_AGENTS)] = ()
    dispatch: Dispatch = Dispatch.ROUND_ROBIN
    first_agent: str = ""
    classifier: DimensionClassifier | None = None
    parameters: Parameters | None = None
    baseline: Baseline = Baseline.NONE
    ablations: Sequence[Ablation | None] = ()
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    answer_max_tokens: Count | None = None


@value
class SelfAssessRequest:
    """A request for self-assessments of agents."""

    question: str = ""
    messages: Sequence[Turn] = ()
    dimension: str = ""
    dimensions: Sequence[str] = ()
    agents: Annotated[Sequence[str], Field(max_length=MAX_AGENTS)] = ()
    classifier: DimensionClassifier | None = None
    parameters: Parameters | None = None
    envelope: Envelope | None = None
    seed: Seed | None = None
    run_id: Name = ""


@value
class TaskDimension:
    """A dimension of a task; its certainty is None when the caller named it."""

    dimension: str
    certainty: float | None = None


@value
class AgentAssessed:
    """An event: one agent is assessed before the task."""

    agent: str
    model: str
    verbalized: float | None
    profile: float
    confidence: float
    disagreement: float | None
    threshold: float
    verbalized_raw: float | None = None
    ratings: Mapping[str, float] = field(default_factory=dict)
    limiting_dimension: str = ""
    observations: int = 0
    eligible: bool = True
    ineligible_reason: str = ""
    unknown_reason: str = ""
    attempts: int = 0
    prompt_digest: str = ""
    usage: StageUsage = StageUsage()
    duration_ms: float = 0.0


@value
class TaskStarted:
    """An event: the task is accepted."""

    task_id: str
    run_id: str
    agents: Sequence[str]


@value
class TaskDispatched:
    """An event: the task's dimensions are known, and it goes to its first agent."""

    dimensions: Sequence[TaskDimension]
    first_agent: str
    dispatch: Dispatch


@value
class ModeChosen:
    """An event: the executor of the task is decided."""

    mode: TaskMode
    first_agent: str
    executor: str
    reason: str
    short_list: Sequence[ShortListed] = ()


@value
class AnswerToken:
    """An event: a piece of the executor's answer; text before another `ModeChosen` is void."""

    agent: str
    text: str


@value
class AgentAnswered:
    """An event: one agent has answered or failed."""

    agent: str
    model: str
    answer: str | None
    weight: float
    text: str
    won: bool = False
    usage: StageUsage = StageUsage()
    duration_ms: float = 0.0
    truncated: bool = False
    failure: str = ""


@value
class AnswerLabel:
    """A label of the answer: whether it is right; None when the check could not decide."""

    correct: bool | None
    checker: Checker
    detail: str
    judged_at: datetime


@value
class AnswerJudged(AnswerLabel):
    """An event: the answer is checked."""


@value
class ProfileUpdate:
    """A change of one profile."""

    agent: str
    dimension: str
    sequence: int
    change: ProfileChange
    outcome: int | None
    learning_rate: float | None
    competence_before: float
    competence_after: float
    observations: int
    task_id: str = ""
    feedback_id: str = ""
    applied_at: datetime


@value
class TaskFinished:
    """An event: the task has ended."""

    task_id: str
    answer: str
    mode: TaskMode | None
    assessments: Sequence[AgentAssessed]
    executor: str
    outcome: Outcome
    answer_text: str
    answer_type: AnswerType
    confidence: float | None
    confidence_source: ConfidenceSource | None
    dimensions: Sequence[TaskDimension]
    decision: ModeChosen | None
    votes: Sequence[AgentAnswered]
    vote_weights: Mapping[str, float]
    label: AnswerLabel | None
    profile_updates: Sequence[ProfileUpdate]
    usage: Usage
    budget_exhausted: bool
    degraded: bool
    degraded_reasons: Sequence[str]
    parameters: Rules
    baseline: Baseline
    ablations: Sequence[Ablation]
    config_version: str
    prompt_digests: Mapping[str, str]
    run_id: str
    request_id: str
    created_at: datetime
    duration_ms: float


Event = (
    TaskStarted
    | TaskDispatched
    | AgentAssessed
    | ModeChosen
    | AnswerToken
    | AgentAnswered
    | AnswerJudged
    | TaskFinished
)


@value
class SelfAssessResponse:
    """The self-assessments of agents."""

    assessments: Sequence[AgentAssessed]
    dimensions: Sequence[TaskDimension]
    parameters: Rules
    usage: Usage
    budget_exhausted: bool
    duration_ms: float


@value
class TaskFeedbackRequest:
    """A request that submits feedback on a task's answer."""

    feedback_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    task_id: Annotated[str, Field(min_length=1, max_length=128)]
    correct: bool
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""


@value
class TaskFeedbackResponse:
    """The effect of feedback."""

    feedback_id: str
    task_id: str
    label: AnswerLabel
    profile_updates: Sequence[ProfileUpdate]
    not_learned_reason: str
