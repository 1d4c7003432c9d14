"""Documents, their chunks, experience, and the encoders that their vectors come from."""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NOW = sa.func.now()


def upgrade() -> None:
    op.create_table(
        "encoders",
        sa.Column("encoder_id", sa.SmallInteger, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", "dimension", name="uq_encoders_name"),
        schema="router",
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
        sa.Column("encoder_id", sa.SmallInteger, sa.ForeignKey("router.encoders.encoder_id"), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        schema="router",
    )
    op.create_index("ix_documents_newest", "documents", ["added_at", "document_id"], schema="router")
    op.create_index("ix_router_documents_encoder_id", "documents", ["encoder_id"], schema="router")
    op.create_table(
        "chunks",
        sa.Column(
            "document_id",
            sa.String,
            sa.ForeignKey("router.documents.document_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("ordinal", sa.Integer, primary_key=True),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("encoder_id", sa.SmallInteger, sa.ForeignKey("router.encoders.encoder_id"), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        schema="router",
    )
    op.create_table(
        "experiences",
        sa.Column("run_id", sa.String(36), primary_key=True),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("question", sa.String, nullable=False),
        sa.Column("answer", sa.String, nullable=False),
        sa.Column("encoder_id", sa.SmallInteger, sa.ForeignKey("router.encoders.encoder_id"), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=False, server_default=NOW),
        schema="router",
    )
    op.create_index("ix_experiences_key", "experiences", ["encoder_id", "key_name"], schema="router")


def downgrade() -> None:
    for table in ("experiences", "chunks", "documents", "encoders"):
        op.drop_table(table, schema="router")
