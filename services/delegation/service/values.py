"""These values are the requests, results and events of processing tasks; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from chassis.serving.wire import MAX_COUNT, Count, RequestId, Seed
from kernel.answers import AnswerType
from kernel.confidence.panels import PanelStop
from kernel.confidence.rules import (
    Ablation,
    Baseline,
    Checker,
    ConfidenceSource,
    Dispatch,
    Exploration,
    HandOverRule,
    ModeReason,
    NotLearnedReason,
    Rules,
    TaskMode,
)
from kernel.conversation import Turn
from kernel.envelope import Envelope, StageUsage, Usage
from kernel.learning.profiles import ProfileChange
from kernel.outcomes import Outcome
from kernel.values import value
from kernel.votes.states import ProbabilityState
from services.delegation.core.short_list import ShortListed

MAX_AGENTS = 1000
MAX_ALIASES = 100
MAX_NOTE = 10_000

Unit = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(max_length=128)]


class DimensionClassifier(StrEnum):
    """A classifier finds the dimensions of a task."""

    MODEL = "MODEL"
    EMBEDDING = "EMBEDDING"


@value
class Parameters:
    """These numbers decide; one that is left out takes the service's default."""

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
    """The answer is compared with this right answer."""

    answer: Annotated[str, Field(min_length=1)]
    answer_type: AnswerType | None = None
    aliases: Annotated[Sequence[str], Field(max_length=MAX_ALIASES)] = ()


@value
class UnitTests:
    """Right code passes these unit tests."""

    code: Annotated[str, Field(min_length=1)]
    timeout_ms: Count | None = None


@value
class Judge:
    """A judge model checks the answer."""

    agent: str = ""
    criteria: str = ""


@value
class ProcessRequest:
    """This request has a task processed."""

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
    """This request has agents assess themselves."""

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
    """A task has this dimension; its certainty is None when the caller named it."""

    dimension: str
    certainty: float | None = None


@value
class AgentAssessed:
    """This event reports the assessment of one agent before the task."""

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
    verbalized_state: ProbabilityState | None = None
    verbalized_labels: int = 0
    confidence_state: ProbabilityState = ProbabilityState.UNCALIBRATED


@value
class TaskStarted:
    """This event reports that the task is accepted."""

    task_id: str
    run_id: str
    agents: Sequence[str]


@value
class TaskDispatched:
    """This event reports the task's dimensions and its first agent."""

    dimensions: Sequence[TaskDimension]
    first_agent: str
    dispatch: Dispatch


@value
class ModeChosen:
    """This event reports who solves the task, and why."""

    mode: TaskMode
    first_agent: str
    executor: str
    reason: ModeReason
    short_list: Sequence[ShortListed] = ()
    panel: Sequence[str] = ()


@value
class AnswerToken:
    """This event is a piece of the executor's answer; text before another `ModeChosen` is void."""

    agent: str
    text: str


@value
class AgentAnswered:
    """This event reports the answer or the failure of one agent."""

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
    written: str | None = None
    unit_assumed: str = ""


@value
class AnswerLabel:
    """A label states whether the answer is right; None when the check could not decide."""

    correct: bool | None
    checker: Checker
    detail: str
    judged_at: datetime


@value
class AnswerJudged(AnswerLabel):
    """This event reports the label of the answer."""


@value
class ProfileUpdate:
    """An update is a change of one profile."""

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
    """This event ends the task with its answer."""

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
    panel_stop: PanelStop | None = None
    confidence_state: ProbabilityState | None = None


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
    """This response holds the self-assessments of agents."""

    assessments: Sequence[AgentAssessed]
    dimensions: Sequence[TaskDimension]
    parameters: Rules
    usage: Usage
    budget_exhausted: bool
    duration_ms: float


@value
class TaskFeedbackRequest:
    """This request submits feedback on a task's answer."""

    feedback_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    task_id: Annotated[str, Field(min_length=1, max_length=128)]
    correct: bool
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""


@value
class TaskFeedbackResponse:
    """This response states the effect of feedback."""

    feedback_id: str
    task_id: str
    label: AnswerLabel
    profile_updates: Sequence[ProfileUpdate]
    not_learned_reason: NotLearnedReason | None = None
