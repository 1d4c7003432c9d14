"""Tables of what is known: encoders, documents, their chunks, and experience.

The vector columns have no dimension of their own: every encoder has one. What makes them searchable is one partial
HNSW index an encoder, made when the first text of it is stored (docs/adr/0009-vectors-of-any-encoder.md).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import (
    DateTime,
    Dialect,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    String,
    UniqueConstraint,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import UserDefinedType

from chassis.embedding_replies import Vectors
from services.router.store.tables import SCHEMA, Base


def vector_text(row: Any) -> str:  # noqa: ANN401 - a row of `Vectors`, which numpy does not type
    """A vector as PostgreSQL reads it.

    Example:
        >>> import numpy as np
        >>> vector_text(np.array([0.5, -1.0], dtype=np.float32))
        '[0.5,-1.0]'
    """
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY).decode()


class VectorOfAnyLength(UserDefinedType[Vectors]):
    """pgvector's `vector`, written and never read back: PostgreSQL compares, nobody else does."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Name of the type."""
        return "vector"

    def bind_processor(self, _dialect: Dialect) -> Callable[[Any], str]:
        """How a row of vectors is sent."""
        return vector_text


class EncoderRow(Base):
    """An encoder that something is stored of."""

    __tablename__ = "encoders"
    __table_args__ = (UniqueConstraint("name", "dimension", name="uq_encoders_name"),)

    encoder_id: Mapped[int] = mapped_column(SmallInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String)
    dimension: Mapped[int] = mapped_column(Integer)


class DocumentRow(Base):
    """A document, without its text."""

    __tablename__ = "documents"
    __table_args__ = (Index("ix_documents_newest", "added_at", "document_id"),)

    document_id: Mapped[str] = mapped_column(String, primary_key=True)
    title: Mapped[str] = mapped_column(String)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    text_digest: Mapped[str] = mapped_column(String(64))
    characters: Mapped[int] = mapped_column(Integer)
    chunks: Mapped[int] = mapped_column(Integer)
    chunk_characters: Mapped[int] = mapped_column(Integer)
    chunk_overlap: Mapped[int] = mapped_column(Integer)
    encoder_id: Mapped[int] = mapped_column(ForeignKey(f"{SCHEMA}.encoders.encoder_id"), index=True)
    added_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class ChunkRow(Base):
    """A part of a document, with its vector."""

    __tablename__ = "chunks"

    document_id: Mapped[str] = mapped_column(
        ForeignKey(f"{SCHEMA}.documents.document_id", ondelete="CASCADE"), primary_key=True
    )
    ordinal: Mapped[int] = mapped_column(Integer, primary_key=True)
    text: Mapped[str] = mapped_column(String)
    encoder_id: Mapped[int] = mapped_column(ForeignKey(f"{SCHEMA}.encoders.encoder_id"))
    embedding: Mapped[Vectors] = mapped_column(VectorOfAnyLength)


class ExperienceRow(Base):
    """A verified answer, with the vector of its question."""

    __tablename__ = "experiences"
    __table_args__ = (Index("ix_experiences_key", "encoder_id", "key_name"),)

    run_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    question: Mapped[str] = mapped_column(String)
    answer: Mapped[str] = mapped_column(String)
    encoder_id: Mapped[int] = mapped_column(ForeignKey(f"{SCHEMA}.encoders.encoder_id"))
    embedding: Mapped[Vectors] = mapped_column(VectorOfAnyLength)
    learned_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
