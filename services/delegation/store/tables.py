"""The delegation service has these tables."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, DateTime, Float, ForeignKey, Index, Integer, MetaData, String, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from chassis.schema.vectors import VectorOfAnyLength

SCHEMA = "delegation"


class DelegationTable(DeclarativeBase):
    """All tables of the delegation service have this base."""

    metadata = MetaData(schema=SCHEMA)


class ProfileRow(DelegationTable):
    """A profile is one agent's competence in one dimension.

    `weight` is the sum of the weights of all outcomes in the competence, `squares` the sum of their squares.
    `since_change` counts the observations since a recently detected change; the detector reads the outcomes after
    `change_point`.
    """

    __tablename__ = "profiles"

    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    dimension: Mapped[str] = mapped_column(String(128), primary_key=True)
    competence: Mapped[float] = mapped_column(Float)
    previous_competence: Mapped[float] = mapped_column(Float)
    observations: Mapped[int] = mapped_column(Integer)
    sequence: Mapped[int] = mapped_column(Integer)
    weight: Mapped[float] = mapped_column(Float)
    squares: Mapped[float] = mapped_column(Float)
    learning_rate: Mapped[float] = mapped_column(Float)
    since_change: Mapped[int | None] = mapped_column(Integer)
    change_point: Mapped[int] = mapped_column(Integer)
    frozen: Mapped[bool] = mapped_column(Boolean)
    updated_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class ProfileUpdateRow(DelegationTable):
    """An update is a change of a profile; `sequence` is the order of application."""

    __tablename__ = "profile_updates"
    __table_args__ = (
        Index(
            "ix_profile_updates_task",
            "task_id",
            "agent",
            "dimension",
            unique=True,
            postgresql_where=text("task_id <> ''"),
        ),
    )

    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    dimension: Mapped[str] = mapped_column(String(128), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    change: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[int | None] = mapped_column(Integer)
    learning_rate: Mapped[float | None] = mapped_column(Float)
    competence_before: Mapped[float] = mapped_column(Float)
    competence_after: Mapped[float] = mapped_column(Float)
    observations: Mapped[int] = mapped_column(Integer)
    memory: Mapped[float] = mapped_column(Float)
    task_id: Mapped[str] = mapped_column(String(36))
    feedback_id: Mapped[str] = mapped_column(String(128))
    applied_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class FreezeRuleRow(DelegationTable):
    """A freeze rule states whether new profiles are frozen; an empty name stands for all."""

    __tablename__ = "freeze_rules"

    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    dimension: Mapped[str] = mapped_column(String(128), primary_key=True)
    frozen: Mapped[bool] = mapped_column(Boolean)
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class TaskRow(DelegationTable):
    """A task has the columns that a label needs, and all of it as a document."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index("ix_tasks_flows", "baseline", "created_at"),
        Index("ix_tasks_key", "key_name", "task_id", postgresql_where=text("key_name <> ''")),
    )

    task_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True)
    baseline: Mapped[str] = mapped_column(String(16))
    mode: Mapped[str] = mapped_column(String(16))
    first_agent: Mapped[str] = mapped_column(String(128))
    executor: Mapped[str] = mapped_column(String(128))
    better_profile: Mapped[bool] = mapped_column(Boolean)
    dimensions: Mapped[list[str]] = mapped_column(ARRAY(String))
    voters: Mapped[list[str]] = mapped_column(ARRAY(String))
    winners: Mapped[list[str]] = mapped_column(ARRAY(String))
    confidences: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    learning_rate: Mapped[float] = mapped_column(Float)
    not_learned_reason: Mapped[str] = mapped_column(String(16))
    correct: Mapped[bool | None] = mapped_column(Boolean)
    checker: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str] = mapped_column(String)
    judged_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    learned: Mapped[bool] = mapped_column(Boolean)
    document: Mapped[dict[str, Any]] = mapped_column(JSONB)


class TaskFeedbackRow(DelegationTable):
    """Feedback on a task is stored with its response."""

    __tablename__ = "feedback"

    key_name: Mapped[str] = mapped_column(String, primary_key=True)
    feedback_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    task_id: Mapped[str] = mapped_column(String(36), index=True)
    correct: Mapped[bool] = mapped_column(Boolean)
    note: Mapped[str] = mapped_column(String)
    may_teach: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    request_digest: Mapped[str] = mapped_column(String(64))
    response: Mapped[dict[str, Any]] = mapped_column(JSONB)


class LabelledConfidenceRow(DelegationTable):
    """A confidence of an agent, or of a vote, is stored with the label of the answer; `raw` is before recalibration."""

    __tablename__ = "labelled_confidences"
    __table_args__ = (Index("ix_labelled_confidences_agent", "agent", "source", "created_at"),)

    task_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    source: Mapped[str] = mapped_column(String(16), primary_key=True)
    dimensions: Mapped[list[str]] = mapped_column(ARRAY(String))
    confidence: Mapped[float] = mapped_column(Float)
    raw: Mapped[float] = mapped_column(Float)
    correct: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class DriftRow(DelegationTable):
    """A drift event is a detected change of competence."""

    __tablename__ = "drift_events"
    __table_args__ = (Index("ix_drift_agent", "agent", "dimension", "event_id"),)

    event_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    agent: Mapped[str] = mapped_column(String(128))
    dimension: Mapped[str] = mapped_column(String(128))
    detected_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    sequence: Mapped[int] = mapped_column(Integer)
    competence_before: Mapped[float] = mapped_column(Float)
    competence_after: Mapped[float] = mapped_column(Float)
    observations_since: Mapped[int] = mapped_column(Integer)
    detector: Mapped[str] = mapped_column(String(32))
    statistic: Mapped[float] = mapped_column(Float)
    statistic_threshold: Mapped[float] = mapped_column(Float)
    memory_before: Mapped[float] = mapped_column(Float)
    memory_after: Mapped[float] = mapped_column(Float)


class RequestRow(DelegationTable):
    """A request identifier belongs to the task that answers it; without a task the request is running, or was lost."""

    __tablename__ = "requests"

    key_name: Mapped[str] = mapped_column(String, primary_key=True)
    request_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    task_id: Mapped[str] = mapped_column(String(36))


class RoundRobinRow(DelegationTable):
    """The position counts the tasks that were dispatched among one set of agents."""

    __tablename__ = "round_robin"

    agents_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int] = mapped_column(Integer)


class RecalibrationRow(DelegationTable):
    """The map takes an agent's verbalized confidence to its share of right answers."""

    __tablename__ = "recalibrations"
    __table_args__ = (Index("ix_recalibrations_newest", "agent", "fitted_at"),)

    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    version: Mapped[str] = mapped_column(String(32), primary_key=True)
    method: Mapped[str] = mapped_column(String(16))
    points: Mapped[list[dict[str, float]]] = mapped_column(JSONB)
    observations: Mapped[int] = mapped_column(Integer)
    brier_before: Mapped[float] = mapped_column(Float)
    brier_after: Mapped[float] = mapped_column(Float)
    fitted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class CategoryRow(DelegationTable):
    """A category was discovered among tasks; with `adopted_at` it is a dimension."""

    __tablename__ = "categories"
    __table_args__ = (Index("ix_categories_key", "key_name", "category_id"),)

    category_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    name: Mapped[str] = mapped_column(String(128))
    keywords: Mapped[list[str]] = mapped_column(ARRAY(String))
    examples: Mapped[list[str]] = mapped_column(ARRAY(String))
    tasks: Mapped[int] = mapped_column(Integer)
    cohesion: Mapped[float] = mapped_column(Float)
    nearest_dimension: Mapped[str] = mapped_column(String(128))
    nearest_similarity: Mapped[float | None] = mapped_column(Float)
    discovered_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    adopted_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class AgentExperienceRow(DelegationTable):
    """An agent answered the question of a task right; the row holds the vector of the question, never its text.

    It has no vector, and an empty encoder, until the question was embedded.
    """

    __tablename__ = "agent_experiences"
    __table_args__ = (
        Index("ix_agent_experiences_newest", "key_name", "agent", "learned_at"),
        Index("ix_agent_experiences_pending", "learned_at", postgresql_where=text("embedding IS NULL")),
    )

    task_id: Mapped[str] = mapped_column(
        String(36), ForeignKey(f"{SCHEMA}.tasks.task_id", ondelete="CASCADE"), primary_key=True
    )
    agent: Mapped[str] = mapped_column(String(128), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    dimensions: Mapped[list[str]] = mapped_column(ARRAY(String))
    encoder: Mapped[str] = mapped_column(String)
    vector_dimension: Mapped[int] = mapped_column(Integer)
    embedding: Mapped[Any] = mapped_column(VectorOfAnyLength, nullable=True)
    learned_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
