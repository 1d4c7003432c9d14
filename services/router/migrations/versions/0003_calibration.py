"""Recalibration maps, and which of them a person has chosen."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "calibration_maps",
        sa.Column("strategy", sa.String(16), primary_key=True),
        sa.Column("confidence_source", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("version", sa.String, nullable=False, unique=True),
        sa.Column("method", sa.String(16), nullable=False),
        sa.Column("points", JSONB, nullable=False),
        sa.Column("observations", sa.Integer, nullable=False),
        sa.Column("brier_score_before", sa.Float, nullable=False),
        sa.Column("brier_score_after", sa.Float, nullable=False),
        sa.Column("improves", sa.Boolean, nullable=False),
        sa.Column("fitted_at", sa.DateTime(timezone=True), nullable=False),
        schema="router",
    )
    op.create_table(
        "calibration_pins",
        sa.Column("strategy", sa.String(16), primary_key=True),
        sa.Column("confidence_source", sa.String, primary_key=True),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False),
        schema="router",
    )


def downgrade() -> None:
    op.drop_table("calibration_pins", schema="router")
    op.drop_table("calibration_maps", schema="router")
