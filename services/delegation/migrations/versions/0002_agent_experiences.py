"""This migration adds the questions that each agent answered right, as vectors."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from chassis.schema.vectors import VectorOfAnyLength

revision = "0002_agent_experiences"
down_revision = "0001_initial"
branch_labels = None
depends_on = None

SCHEMA, TABLE = "delegation", "agent_experiences"


def upgrade() -> None:
    task = sa.ForeignKey(f"{SCHEMA}.tasks.task_id", ondelete="CASCADE")
    op.create_table(
        TABLE,
        sa.Column("task_id", sa.String(36), task, primary_key=True),
        sa.Column("agent", sa.String(128), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("dimensions", ARRAY(sa.String), nullable=False),
        sa.Column("encoder", sa.String, nullable=False),
        sa.Column("vector_dimension", sa.Integer, nullable=False),
        sa.Column("embedding", VectorOfAnyLength(), nullable=True),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
    )
    op.create_index("ix_agent_experiences_newest", TABLE, ["key_name", "agent", "learned_at"], schema=SCHEMA)
    op.create_index(
        "ix_agent_experiences_pending",
        TABLE,
        ["learned_at"],
        schema=SCHEMA,
        postgresql_where=sa.text("embedding IS NULL"),
    )


def downgrade() -> None:
    op.drop_table(TABLE, schema=SCHEMA)
