"""Runs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(36), primary_key=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, index=True),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("system", sa.String(16), nullable=False),
        sa.Column("strategy", sa.String(16), nullable=False),
        sa.Column("degraded", sa.Boolean, nullable=False),
        sa.Column("activation", sa.Float),
        sa.Column("document", JSONB, nullable=False),
        schema="router",
    )
    op.create_index(
        "ix_runs_request",
        "runs",
        ["key_name", "request_id"],
        unique=True,
        schema="router",
        postgresql_where=sa.text("request_id <> ''"),
    )


def downgrade() -> None:
    op.drop_table("runs", schema="router")
