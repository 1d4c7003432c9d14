"""This migration adds the labels that prove promises, and the indexes of drawn runs and of the newest labels."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005_sampled_runs"
down_revision = "0004_earlier_answers"
branch_labels = None
depends_on = None

SCHEMA = "router"


def upgrade() -> None:
    op.create_index(
        "ix_runs_sampled",
        "runs",
        ["run_id"],
        schema=SCHEMA,
        postgresql_where="document->>'sampled' = 'true'",
        if_not_exists=True,  # on a large table it can be built before, CONCURRENTLY
    )
    op.create_table(
        "promise_labels",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("agreement", JSONB),
        sa.Column("is_right", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
        if_not_exists=True,
    )
    op.create_index(
        "ix_promise_labels_question",
        "promise_labels",
        ["key_name", "question", "version", "model"],
        unique=True,
        schema=SCHEMA,
        if_not_exists=True,
    )
    op.create_index(
        "ix_feedback_newest", "feedback", ["created_at"], schema=SCHEMA, postgresql_where="counts", if_not_exists=True
    )


def downgrade() -> None:
    op.drop_index("ix_feedback_newest", "feedback", schema=SCHEMA)
    op.drop_table("promise_labels", schema=SCHEMA)
    op.drop_index("ix_runs_sampled", "runs", schema=SCHEMA)
