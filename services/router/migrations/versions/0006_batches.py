"""This migration adds the files of callers, and the batches that answer their lines."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006_batches"
down_revision = "0005_sampled_runs"
branch_labels = None
depends_on = None

SCHEMA = "router"
TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


def upgrade() -> None:
    create_files()
    create_batches()


def create_files() -> None:
    op.create_table(
        "files",
        sa.Column("file_id", sa.String(48), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("filename", sa.String, nullable=False),
        sa.Column("is_ready", sa.Boolean, nullable=False),
        *(_number(name, sa.BigInteger) for name in ("size_bytes", "line_count")),
        _time("created_at", nullable=False, index=True),
        _time("expires_at"),
        schema=SCHEMA,
    )
    op.create_index("ix_files_key", "files", ["key_name", "file_id"], schema=SCHEMA)
    op.create_index(
        "ix_files_expires", "files", ["expires_at"], schema=SCHEMA, postgresql_where="expires_at IS NOT NULL"
    )
    op.create_table(
        "file_lines",
        sa.Column(
            "file_id", sa.String(48), sa.ForeignKey(f"{SCHEMA}.files.file_id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
        schema=SCHEMA,
    )


def create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("batch_id", sa.String(48), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("endpoint", sa.String(64), nullable=False),
        sa.Column("input_file_id", sa.String(48), nullable=False),
        sa.Column("output_file_id", sa.String(48)),
        sa.Column("error_file_id", sa.String(48)),
        sa.Column("labels", JSONB),
        sa.Column("errors", JSONB),
        sa.Column("status", sa.String(16), nullable=False),
        _time("created_at", nullable=False, index=True),
        _time("expires_at", nullable=False),
        *(_time(f"{status}_at") for status in TIMES),
        sa.Column("output_expires_s", sa.Integer),
        *(_number(name, sa.Integer) for name in ("total_count", "completed_count", "failed_count")),
        sa.Column("claim", sa.String(36), nullable=False, server_default=""),
        _time("claimed_until"),
        _time("served_at"),
        schema=SCHEMA,
    )
    op.create_index("ix_batches_key", "batches", ["key_name", "batch_id"], schema=SCHEMA)
    op.create_index(
        "ix_batches_active",
        "batches",
        ["batch_id"],
        schema=SCHEMA,
        postgresql_where="status IN ('validating', 'in_progress', 'finalizing', 'cancelling')",
    )
    op.create_table(
        "batch_lines",
        sa.Column(
            "batch_id",
            sa.String(48),
            sa.ForeignKey(f"{SCHEMA}.batches.batch_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("custom_id", sa.String, nullable=False),
        sa.Column("is_done", sa.Boolean, nullable=False, server_default=sa.false()),
        *(_number(name, sa.Integer) for name in ("attempts", "failures", "losses")),
        sa.Column("claim", sa.String(36), nullable=False, server_default=""),
        _time("due_at", nullable=False),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_batch_lines_left",
        "batch_lines",
        ["batch_id", "due_at", "number"],
        schema=SCHEMA,
        postgresql_where="NOT is_done",
    )
    op.create_index("ix_batch_lines_claim", "batch_lines", ["claim"], schema=SCHEMA, postgresql_where="claim <> ''")


def _time(name: str, *, nullable: bool = True, index: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, index=index)


def _number(name: str, kind: type) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=False, server_default="0")


def downgrade() -> None:
    for table in ("batch_lines", "batches", "file_lines", "files"):
        op.drop_table(table, schema=SCHEMA)
