"""This module defines the settings of the delegation service."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import ApiSettings
from kernel.confidence.rules import DEFAULT_RULES, Exploration, HandOverRule
from kernel.learning.drift import DEFAULT_LIMITS
from kernel.msv.experience import DEFAULT_CALIBRATION
from kernel.statistics.recalibration import MINIMUM_LABELS
from services.delegation.core.routine import DEFAULT_ROUTINE
from services.delegation.service.experience.recording import QUESTIONS_PER_AGENT
from services.delegation.service.values import DimensionClassifier


class Settings(ApiSettings):
    """The settings are read from environment variables `METACOG_DELEGATION_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_DELEGATION_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8083, ge=0, le=65535, description="Port of the REST API")
    grpc_port: int = Field(50054, ge=0, le=65535, description="Port of the gRPC API")
    max_in_flight: int = Field(64, ge=1, description="Tasks and self-assessments at a time; more get a 429")
    agents_file: Path | None = Field(None, description="The agents; empty: those of the suite, as everywhere")
    dimensions_file: Path | None = Field(None, description="The dimensions; empty: the paper's five")
    keep_contents: bool | None = Field(
        None,
        description="Whether questions, answers and notes are stored; empty: as METACOG_ROUTER_KEEP_CONTENTS says",
    )
    retention_days: int | None = Field(
        None,
        ge=0,
        le=36_500,
        description="Age from which tasks, their feedback and experience are deleted [days], 0: never; empty: as"
        " METACOG_ROUTER_RETENTION_DAYS says",
    )
    config_version: str = Field("", description="Name recorded with each task; empty: `paper`, or a digest")
    max_generations: int = Field(24, ge=1, description="Default envelope of a task: samples")
    max_generated_tokens: int = Field(6144, ge=1, description="Default envelope of a task: tokens")
    timeout_ms: int = Field(120_000, ge=1, description="Default envelope of a task: time [ms]")
    answer_max_tokens: int = Field(512, ge=1, description="Tokens of one answer")
    task_characters: int = Field(100_000, ge=1, description="Longest task")
    classifier: DimensionClassifier = Field(
        DimensionClassifier.MODEL, description="How dimensions are found: MODEL or EMBEDDING"
    )
    confidence_threshold: float = Field(
        DEFAULT_RULES.confidence_threshold,
        ge=0,
        le=1,
        description="Confidence from which an agent executes a task, theta",
    )
    verbalized_weight: float = Field(
        DEFAULT_RULES.verbalized_weight, ge=0, le=1, description="Weight of the verbalized confidence, lambda"
    )
    disagreement_threshold: float = Field(
        DEFAULT_RULES.disagreement_threshold,
        ge=0,
        le=1,
        description="Disagreement above which the threshold rises, theta_delta",
    )
    disagreement_gain: float = Field(
        DEFAULT_RULES.disagreement_gain, ge=0, description="Rise of the threshold by disagreement, gamma"
    )
    learning_rate: float = Field(
        DEFAULT_RULES.learning_rate, gt=0, le=1, description="Step of a profile toward an outcome, alpha"
    )
    minimum_observations: int = Field(
        DEFAULT_RULES.minimum_observations,
        ge=0,
        description="Observations from which on a profile replaces a missing rating",
    )
    hand_over_rule: HandOverRule = Field(DEFAULT_RULES.hand_over_rule, description="BETTER, or PAPER")
    short_list_size: int = Field(
        DEFAULT_RULES.short_list_size, ge=1, description="Other agents that are assessed at most"
    )
    exploration: Exploration = Field(DEFAULT_RULES.exploration, description="THOMPSON, UPPER_BOUND or NONE")
    skip_routine: bool = Field(DEFAULT_RULES.skip_routine, description="Whether routine tasks skip self-assessment")
    routine_certainty: float = Field(
        DEFAULT_ROUTINE.certainty, ge=0, le=1, description="Certainty of the dimension of a routine task"
    )
    routine_competence: float = Field(
        DEFAULT_ROUTINE.competence, ge=0, le=1, description="Competence that makes a task routine"
    )
    routine_observations: int = Field(
        DEFAULT_ROUTINE.observations, ge=0, description="Observations that make a task routine"
    )
    recalibrate: bool = Field(DEFAULT_RULES.recalibrate, description="Whether verbalized confidences are recalibrated")
    recalibration_minimum: int = Field(
        MINIMUM_LABELS, ge=20, description="Labels from which on an agent is recalibrated"
    )
    drift_threshold: float = Field(
        DEFAULT_LIMITS.threshold,
        gt=0,
        description="Statistic from which on a change of competence is detected [nats]",
    )
    drift_window: int = Field(
        DEFAULT_LIMITS.window, ge=20, le=2000, description="Recent outcomes that the detector reads"
    )
    experience_questions: int = Field(
        QUESTIONS_PER_AGENT, ge=1, le=100_000, description="Questions an agent answered right that are kept, by API key"
    )
    experience_covers: bool = Field(
        False, description="Whether these cover your questions, so that nothing near means no experience, not unknown"
    )
    experience_timeout_ms: int = Field(1000, ge=1, description="Time a match with them may take [ms]")
    similarity_floor: float = Field(
        DEFAULT_CALIBRATION.floor, ge=-1, le=1, description="Cosine that is a similarity of 0 in that match"
    )
    similarity_ceiling: float = Field(
        DEFAULT_CALIBRATION.ceiling, ge=-1, le=1, description="Cosine that is a similarity of 1 in it"
    )
    similarity_encoder: str = Field(
        DEFAULT_CALIBRATION.encoder,
        description="Encoder that both were measured on; with another in use experience is unknown",
    )
    sandbox: bool = Field(True, description="Whether unit tests may be run, in a sandbox")
    test_timeout_ms: int = Field(5000, ge=100, le=60_000, description="Time limit of code and its tests [ms]")
    test_max_timeout_ms: int = Field(
        60_000, ge=100, description="Time that a request may give them at most [ms]; it lowers the time before, too"
    )
    judge_agent: str = Field("", description="Agent that judges where the request names none; empty: the default model")
