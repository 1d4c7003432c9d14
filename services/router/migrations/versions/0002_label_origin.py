"""This migration adds how an answer came to be labelled; earlier labels count as volunteered."""

import sqlalchemy as sa
from alembic import op

revision = "0002_label_origin"
down_revision = "0001_initial"
branch_labels = None
depends_on = None

SCHEMA = "router"


def upgrade() -> None:
    origin = sa.Column("origin", sa.String(16), nullable=False, server_default="VOLUNTEERED")
    op.add_column("feedback", origin, schema=SCHEMA)


def downgrade() -> None:
    op.drop_column("feedback", "origin", schema=SCHEMA)
