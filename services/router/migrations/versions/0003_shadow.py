"""This migration marks shadow runs: those that answer the request of a served run by another policy."""

import sqlalchemy as sa
from alembic import op

revision = "0003_shadow"
down_revision = "0002_label_origin"
branch_labels = None
depends_on = None

SCHEMA = "router"


def upgrade() -> None:
    op.add_column("runs", sa.Column("shadow_of", sa.String(36), nullable=False, server_default=""), schema=SCHEMA)
    op.create_index("ix_runs_shadow", "runs", ["run_id"], schema=SCHEMA, postgresql_where="shadow_of <> ''")


def downgrade() -> None:
    op.drop_index("ix_runs_shadow", "runs", schema=SCHEMA)
    op.drop_column("runs", "shadow_of", schema=SCHEMA)
