"""This migration adds the index by which earlier runs of the same question are found, with their winning answers."""

import sqlalchemy as sa
from alembic import op

revision = "0004_earlier_answers"
down_revision = "0003_shadow"
branch_labels = None
depends_on = None

SCHEMA = "router"


def upgrade() -> None:
    op.create_index(
        "ix_runs_question",
        "runs",
        ["key_name", sa.text("(document->>'messages_digest')"), "config_version", "run_id"],
        schema=SCHEMA,
        postgresql_where="document->>'winner_digest' <> '' AND shadow_of = ''",
        if_not_exists=True,  # on a large table it can be built before, CONCURRENTLY
    )


def downgrade() -> None:
    op.drop_index("ix_runs_question", "runs", schema=SCHEMA)
