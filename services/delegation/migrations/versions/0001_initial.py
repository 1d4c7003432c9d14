"""This migration creates the schema: profiles, tasks, feedback, monitoring, requests and categories."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA = "delegation"
TABLES = (
    "profiles",
    "profile_updates",
    "freeze_rules",
    "tasks",
    "feedback",
    "labelled_confidences",
    "drift_events",
    "requests",
    "round_robin",
    "recalibrations",
    "categories",
)


def text(name: str, length: int | None = None, **more: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(length) if length else sa.String, nullable=False, **more)


def number(name: str, **more: bool) -> sa.Column[float]:
    return sa.Column(name, sa.Float, **{"nullable": False, **more})


def count(name: str, **more: bool) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, **{"nullable": False, **more})


def moment(name: str, **more: bool) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), **{"nullable": False, **more})


def flag(name: str, **more: bool) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, **{"nullable": False, **more})


def upgrade() -> None:
    _create_profiles()
    _create_tasks()
    _create_feedback()
    _create_monitoring()
    _create_categories()


def _create_profiles() -> None:
    pair = (("agent", 128), ("dimension", 128))
    op.create_table(
        "profiles",
        *(text(name, length, primary_key=True) for name, length in pair),
        number("competence"),
        number("previous_competence"),
        count("observations"),
        count("sequence"),
        number("weight"),
        number("squares"),
        number("learning_rate"),
        count("since_change", nullable=True),
        count("change_point"),
        flag("frozen"),
        moment("updated_at", nullable=True),
        schema=SCHEMA,
    )
    op.create_table(
        "profile_updates",
        *(text(name, length, primary_key=True) for name, length in pair),
        count("sequence", primary_key=True),
        text("change", 16),
        count("outcome", nullable=True),
        number("learning_rate", nullable=True),
        number("competence_before"),
        number("competence_after"),
        count("observations"),
        number("memory"),
        text("task_id", 36),
        text("feedback_id", 128),
        moment("applied_at"),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_profile_updates_task",
        "profile_updates",
        ["task_id", "agent", "dimension"],
        unique=True,
        schema=SCHEMA,
        postgresql_where=sa.text("task_id <> ''"),
    )
    op.create_table(
        "freeze_rules",
        *(text(name, length, primary_key=True) for name, length in pair),
        flag("frozen"),
        moment("changed_at"),
        schema=SCHEMA,
    )


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        text("task_id", 36, primary_key=True),
        text("key_name"),
        moment("created_at", index=True),
        text("baseline", 16),
        text("mode", 16),
        text("first_agent", 128),
        text("executor", 128),
        flag("better_profile"),
        *(sa.Column(name, ARRAY(sa.String), nullable=False) for name in ("dimensions", "voters", "winners")),
        sa.Column("confidences", JSONB, nullable=False),
        number("learning_rate"),
        text("not_learned_reason", 16),
        flag("correct", nullable=True),
        text("checker", 16),
        text("detail"),
        moment("judged_at", nullable=True),
        flag("learned"),
        sa.Column("document", JSONB, nullable=False),
        schema=SCHEMA,
    )
    op.create_index("ix_tasks_flows", "tasks", ["baseline", "created_at"], schema=SCHEMA)
    op.create_table(
        "requests",
        text("key_name", primary_key=True),
        text("request_id", 128, primary_key=True),
        text("digest", 64),
        moment("expires_at"),
        text("task_id", 36),
        schema=SCHEMA,
    )


def _create_feedback() -> None:
    op.create_table(
        "feedback",
        text("key_name", primary_key=True),
        text("feedback_id", 128, primary_key=True),
        text("task_id", 36, index=True),
        flag("correct"),
        text("note"),
        flag("may_teach"),
        moment("created_at"),
        text("request_digest", 64),
        sa.Column("response", JSONB, nullable=False),
        schema=SCHEMA,
    )
    op.create_table(
        "labelled_confidences",
        text("task_id", 36, primary_key=True),
        text("agent", 128, primary_key=True),
        text("source", 16, primary_key=True),
        sa.Column("dimensions", ARRAY(sa.String), nullable=False),
        number("confidence"),
        number("raw"),
        flag("correct"),
        moment("created_at"),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_labelled_confidences_agent", "labelled_confidences", ["agent", "source", "created_at"], schema=SCHEMA
    )


def _create_monitoring() -> None:
    op.create_table(
        "drift_events",
        text("event_id", 36, primary_key=True),
        text("agent", 128),
        text("dimension", 128),
        moment("detected_at"),
        count("sequence"),
        number("competence_before"),
        number("competence_after"),
        count("observations_since"),
        text("detector", 32),
        number("statistic"),
        number("statistic_threshold"),
        number("memory_before"),
        number("memory_after"),
        schema=SCHEMA,
    )
    op.create_index("ix_drift_agent", "drift_events", ["agent", "dimension", "event_id"], schema=SCHEMA)
    op.create_table("round_robin", text("agents_digest", 64, primary_key=True), count("position"), schema=SCHEMA)
    op.create_table(
        "recalibrations",
        text("agent", 128, primary_key=True),
        text("version", 32, primary_key=True),
        text("method", 16),
        sa.Column("points", JSONB, nullable=False),
        count("observations"),
        number("brier_before"),
        number("brier_after"),
        moment("fitted_at"),
        schema=SCHEMA,
    )
    op.create_index("ix_recalibrations_newest", "recalibrations", ["agent", "fitted_at"], schema=SCHEMA)


def _create_categories() -> None:
    op.create_table(
        "categories",
        text("category_id", 36, primary_key=True),
        text("key_name"),
        text("name", 128),
        *(sa.Column(name, ARRAY(sa.String), nullable=False) for name in ("keywords", "examples")),
        count("tasks"),
        number("cohesion"),
        text("nearest_dimension", 128),
        number("nearest_similarity", nullable=True),
        moment("discovered_at"),
        moment("adopted_at", nullable=True),
        schema=SCHEMA,
    )
    op.create_index("ix_categories_key", "categories", ["key_name", "category_id"], schema=SCHEMA)


def downgrade() -> None:
    for name in reversed(TABLES):
        op.drop_table(name, schema=SCHEMA)
