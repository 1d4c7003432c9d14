"""Feedback, the outbox by which it reaches those who learn, and what runs are filtered by."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXTS = ("outcome", "error_reason", "confidence_source", "assessor", "config_version", "reason")
NUMBERS = ("confidence", "confidence_raw")

# A run that ended in a refusal has no outcome.
BACKFILL = """
UPDATE router.runs SET
    outcome = CASE WHEN coalesce(document->>'error_reason', '') = '' THEN coalesce(document->>'outcome', '')
        ELSE '' END,
    error_reason = coalesce(document->>'error_reason', ''),
    confidence = (document->>'confidence')::float,
    confidence_raw = coalesce((document->>'confidence_raw')::float, (document->>'confidence')::float),
    confidence_source = coalesce(document->>'confidence_source', ''),
    assessor = coalesce(document->'route'->>'assessor', ''),
    config_version = coalesce(document->>'config_version', ''),
    reason = coalesce(document->'route'->>'reason', '')
"""

# Partial: what nearly all runs have in common needs no index, since pages go by name.
INDEXES = {
    "ix_runs_key": ("key_name, run_id", "key_name <> ''"),
    "ix_runs_outcome": ("outcome, run_id", "outcome NOT IN ('', 'ANSWERED')"),
    "ix_runs_error": ("error_reason, run_id", "error_reason <> ''"),
    "ix_runs_assessor": ("assessor, run_id", "assessor <> ''"),
    "ix_runs_asked": ("(document->>'request_id')", "document->>'request_id' <> ''"),
}


def upgrade() -> None:
    _widen_runs()
    _create_feedback()
    _create_outbox()


def _widen_runs() -> None:
    for name in TEXTS:
        op.add_column("runs", sa.Column(name, sa.String, nullable=False, server_default=""), schema="router")
    for name in NUMBERS:
        op.add_column("runs", sa.Column(name, sa.Float), schema="router")
    op.execute(BACKFILL)
    for name, (columns, condition) in INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON router.runs ({columns}) WHERE {condition}")


def _create_feedback() -> None:
    op.create_table(
        "feedback",
        sa.Column("key_name", sa.String, primary_key=True),
        sa.Column("feedback_id", sa.String(128), primary_key=True),
        sa.Column("run_id", sa.String(36), nullable=False, index=True),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("teaches", sa.Boolean, nullable=False),
        sa.Column("counts", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("reply", JSONB, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["router.runs.run_id"], ondelete="CASCADE"),
        schema="router",
    )
    op.create_index(
        "ix_feedback_counts",
        "feedback",
        ["run_id"],
        unique=True,
        schema="router",
        postgresql_where=sa.text("counts"),
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("run_id", sa.String(36), nullable=False, index=True),
        sa.Column("payload", JSONB, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True)),
        sa.Column("parked_at", sa.DateTime(timezone=True)),
        sa.Column("last_error", sa.String, nullable=False, server_default=""),
        schema="router",
    )
    op.create_index(
        "ix_outbox_due",
        "outbox",
        ["next_attempt_at"],
        schema="router",
        postgresql_where=sa.text("done_at IS NULL AND parked_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("outbox", schema="router")
    op.drop_table("feedback", schema="router")
    for name in INDEXES:
        op.execute(f"DROP INDEX router.{name}")
    for name in (*TEXTS, *NUMBERS):
        op.drop_column("runs", name, schema="router")
