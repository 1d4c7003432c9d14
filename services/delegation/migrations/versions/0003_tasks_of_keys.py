"""This migration adds the index by which the tasks of a key are listed."""

import sqlalchemy as sa
from alembic import op

revision = "0003_tasks_of_keys"
down_revision = "0002_agent_experiences"
branch_labels = None
depends_on = None

SCHEMA, TABLE, INDEX = "delegation", "tasks", "ix_tasks_key"


def upgrade() -> None:
    op.create_index(
        INDEX,
        TABLE,
        ["key_name", "task_id"],
        schema=SCHEMA,
        postgresql_where=sa.text("key_name <> ''"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_index(INDEX, TABLE, schema=SCHEMA)
