"""This migration creates the schema: the calls that were not a part of a run."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001_calls"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA, TABLE = "assigner", "calls"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("run_id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, index=True),
        sa.Column("document", JSONB, nullable=False),
        schema=SCHEMA,
    )
    op.create_index("ix_calls_kind", TABLE, ["kind", "run_id"], schema=SCHEMA)
    op.create_index(
        "ix_calls_key",
        TABLE,
        ["kind", "key_name", "run_id"],
        schema=SCHEMA,
        postgresql_where=sa.text("key_name <> ''"),
    )


def downgrade() -> None:
    op.drop_table(TABLE, schema=SCHEMA)
