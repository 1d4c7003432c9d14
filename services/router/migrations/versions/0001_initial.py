"""This migration creates the router's schema: runs, feedback with its outbox, calibration, knowledge."""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA = "router"
NOW = sa.func.now()


def upgrade() -> None:
    create_runs()
    create_feedback()
    create_outbox()
    create_calibration()
    create_documents()
    create_experiences()


def create_runs() -> None:
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
        *(_text(name) for name in ("outcome", "error_reason")),
        sa.Column("confidence", sa.Float),
        sa.Column("confidence_raw", sa.Float),
        *(_text(name) for name in ("confidence_source", "assessor", "config_version", "reason")),
        sa.Column("document", JSONB, nullable=False),
        schema=SCHEMA,
    )
    _index("ix_runs_request", "runs", ["key_name", "request_id"], unique=True, where="request_id <> ''")
    # Partial: the values that nearly all runs have in common need no index, since pages are ordered by run_id.
    _index("ix_runs_key", "runs", ["key_name", "run_id"], where="key_name <> ''")
    _index("ix_runs_outcome", "runs", ["outcome", "run_id"], where="outcome NOT IN ('', 'ANSWERED')")
    _index("ix_runs_error", "runs", ["error_reason", "run_id"], where="error_reason <> ''")
    _index("ix_runs_assessor", "runs", ["assessor", "run_id"], where="assessor <> ''")
    # The caller's own identifier, also of the runs that ended in an error and have an empty request_id.
    caller = "document->>'request_id'"
    _index("ix_runs_caller_request", "runs", [sa.text(f"({caller})")], where=f"{caller} <> ''")


def create_feedback() -> None:
    op.create_table(
        "feedback",
        sa.Column("key_name", sa.String, primary_key=True),
        sa.Column("feedback_id", sa.String(128), primary_key=True),
        sa.Column("run_id", sa.String(36), nullable=False, index=True),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("teaches", sa.Boolean, nullable=False),
        sa.Column("counts", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("reply", JSONB, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["router.runs.run_id"], ondelete="CASCADE"),
        schema=SCHEMA,
    )
    _index("ix_feedback_counts", "feedback", ["run_id"], unique=True, where="counts")


def create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("run_id", sa.String(36), nullable=False, index=True),
        sa.Column("payload", JSONB, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True)),
        sa.Column("parked_at", sa.DateTime(timezone=True)),
        _text("last_error"),
        schema=SCHEMA,
    )
    _index("ix_outbox_due", "outbox", ["next_attempt_at"], where="delivered_at IS NULL AND parked_at IS NULL")


def create_calibration() -> None:
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
        schema=SCHEMA,
    )
    op.create_table(
        "calibration_pins",
        sa.Column("strategy", sa.String(16), primary_key=True),
        sa.Column("confidence_source", sa.String, primary_key=True),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
    )


def create_documents() -> None:
    op.create_table(
        "encoders",
        sa.Column("encoder_id", sa.SmallInteger, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", "dimension", name="uq_encoders_name"),
        schema=SCHEMA,
    )
    op.create_table(
        "documents",
        sa.Column("document_id", sa.String, primary_key=True),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("labels", JSONB, nullable=False),
        sa.Column("text_digest", sa.String(64), nullable=False),
        sa.Column("characters", sa.Integer, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("chunk_characters", sa.Integer, nullable=False),
        sa.Column("chunk_overlap", sa.Integer, nullable=False),
        _encoder(index=True),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        schema=SCHEMA,
    )
    _index("ix_documents_added_at", "documents", ["added_at", "document_id"])
    document = sa.ForeignKey("router.documents.document_id", ondelete="CASCADE")
    op.create_table(
        "chunks",
        sa.Column("document_id", sa.String, document, primary_key=True),
        sa.Column("ordinal", sa.Integer, primary_key=True),
        sa.Column("text", sa.String, nullable=False),
        _encoder(),
        sa.Column("embedding", VECTOR(), nullable=False),
        schema=SCHEMA,
    )


def create_experiences() -> None:
    op.create_table(
        "experiences",
        sa.Column("run_id", sa.String(36), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("question", sa.String, nullable=False),
        sa.Column("answer", sa.String, nullable=False),
        _encoder(),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        schema=SCHEMA,
    )
    _index("ix_experiences_key", "experiences", ["encoder_id", "key_name"])


def downgrade() -> None:
    for table in (
        "experiences",
        "chunks",
        "documents",
        "encoders",
        "calibration_pins",
        "calibration_maps",
        "outbox",
        "feedback",
        "runs",
    ):
        op.drop_table(table, schema=SCHEMA)


def _text(name: str) -> sa.Column[str]:
    """Return a column of text that is empty where a row has none."""
    return sa.Column(name, sa.String, nullable=False, server_default="")


def _encoder(*, index: bool = False) -> sa.Column[int]:
    """Return the column of the encoder that the vectors of a row come from."""
    reference = sa.ForeignKey("router.encoders.encoder_id")
    return sa.Column("encoder_id", sa.SmallInteger, reference, nullable=False, index=index)


def _index(
    name: str, table: str, columns: list[str | sa.TextClause], *, unique: bool = False, where: str | None = None
) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, schema=SCHEMA, postgresql_where=condition)
