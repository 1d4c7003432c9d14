"""Kinds of tasks that were discovered among the tasks themselves."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "categories",
        sa.Column("category_id", sa.String(36), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("keywords", ARRAY(sa.String), nullable=False),
        sa.Column("examples", ARRAY(sa.String), nullable=False),
        sa.Column("tasks", sa.Integer, nullable=False),
        sa.Column("cohesion", sa.Float, nullable=False),
        sa.Column("nearest_dimension", sa.String(128), nullable=False),
        sa.Column("nearest_similarity", sa.Float),
        sa.Column("discovered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("adopted_at", sa.DateTime(timezone=True)),
        schema="delegation",
    )
    op.create_index("ix_categories_key", "categories", ["key_name", "category_id"], schema="delegation")


def downgrade() -> None:
    op.drop_table("categories", schema="delegation")
