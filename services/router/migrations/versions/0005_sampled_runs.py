"""This migration adds the indexes by which runs that were drawn to be labelled, and the newest labels, are found."""

from alembic import op

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
    )
    op.create_index("ix_feedback_newest", "feedback", ["created_at"], schema=SCHEMA, postgresql_where="counts")


def downgrade() -> None:
    op.drop_index("ix_feedback_newest", "feedback", schema=SCHEMA)
    op.drop_index("ix_runs_sampled", "runs", schema=SCHEMA)
