"""Tables of what is known: encoders, documents, their chunks, and experience.

The vector columns have no dimension of their own: every encoder has one. What makes them searchable is one partial
HNSW index an encoder, made when the first text of it is stored (docs/adr/0009-vectors-of-any-encoder.md).
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    DateTime,
    Dialect,
    Executable,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Row,
    SmallInteger,
    String,
    UniqueConstraint,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import UserDefinedType

from chassis.database import without_nul
from chassis.page_tokens import InvalidPageToken
from inference.embeddings import Vectors
from services.router.service.knowledge.values import (
    DocumentDraft,
    KnowledgeDocument,
    KnowledgeHit,
    KnowledgeKind,
    SearchKnowledgeRequest,
)
from services.router.store.nearest_vectors import MOST_CANDIDATES, VectorSpace
from services.router.store.tables import SCHEMA, RouterTable


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


class EncoderRow(RouterTable):
    """An encoder that something is stored of."""

    __tablename__ = "encoders"
    __table_args__ = (UniqueConstraint("name", "dimension", name="uq_encoders_name"),)

    encoder_id: Mapped[int] = mapped_column(SmallInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String)
    dimension: Mapped[int] = mapped_column(Integer)


class DocumentRow(RouterTable):
    """A document, without its text."""

    __tablename__ = "documents"
    __table_args__ = (Index("ix_documents_added_at", "added_at", "document_id"),)

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


class ChunkRow(RouterTable):
    """A part of a document, with its vector."""

    __tablename__ = "chunks"

    document_id: Mapped[str] = mapped_column(
        ForeignKey(f"{SCHEMA}.documents.document_id", ondelete="CASCADE"), primary_key=True
    )
    ordinal: Mapped[int] = mapped_column(Integer, primary_key=True)
    text: Mapped[str] = mapped_column(String)
    encoder_id: Mapped[int] = mapped_column(ForeignKey(f"{SCHEMA}.encoders.encoder_id"))
    embedding: Mapped[Vectors] = mapped_column(VectorOfAnyLength)


class ExperienceRow(RouterTable):
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


async def stored_documents(
    session: AsyncSession, *conditions: ColumnElement[bool], most: int | None = None
) -> Sequence[tuple[DocumentRow, str]]:
    """Documents with the names of their encoders, newest first."""
    wanted = (
        select(DocumentRow, EncoderRow.name)
        .join(EncoderRow, EncoderRow.encoder_id == DocumentRow.encoder_id)
        .where(*conditions)
        .order_by(DocumentRow.added_at.desc(), DocumentRow.document_id.desc())
        .limit(most)
    )
    return [(row, encoder) for row, encoder in await session.execute(wanted)]


def document_of(row: DocumentRow, encoder: str) -> KnowledgeDocument:
    """Document of a row."""
    return KnowledgeDocument(
        document_id=row.document_id,
        title=row.title,
        labels=row.labels,
        chunks=row.chunks,
        characters=row.characters,
        text_digest=row.text_digest,
        encoder=encoder,
        added_at=row.added_at,
    )


def written(draft: DocumentDraft, place: VectorSpace) -> Executable:
    """Statement that stores a document: all of it, or title and labels where its chunks stay."""
    named = {"title": without_nul(draft.title), "labels": without_nul(dict(draft.labels))}
    if draft.chunks is None:
        return update(DocumentRow).where(DocumentRow.document_id == draft.document_id).values(named)
    facts = {
        **named,
        "text_digest": draft.text_digest,
        "characters": draft.characters,
        "chunks": len(draft.chunks),
        "chunk_characters": draft.cut.most,
        "chunk_overlap": draft.cut.overlap,
        "encoder_id": place.encoder_id,
        "added_at": func.now(),
    }
    row = insert(DocumentRow).values(document_id=draft.document_id, **facts)
    return row.on_conflict_do_update(index_elements=[DocumentRow.document_id], set_=facts)


def chunk_rows(draft: DocumentDraft, place: VectorSpace) -> Iterator[dict[str, Any]]:
    """Rows of a document's chunks."""
    assert draft.chunks is not None
    assert draft.vectors is not None
    for ordinal, (chunk, vector) in enumerate(zip(draft.chunks, draft.vectors, strict=True)):
        yield {
            "document_id": draft.document_id,
            "ordinal": ordinal,
            "text": without_nul(chunk),
            "encoder_id": place.encoder_id,
            "embedding": vector,
        }


def hit_of(row: Row[Any]) -> KnowledgeHit:
    """Hit of a row that a search found."""
    return KnowledgeHit(
        kind=KnowledgeKind(row.kind),
        document_id=row.document_id,
        title=row.title,
        labels=row.labels,
        chunk=row.chunk,
        run_id=row.run_id,
        text=row.text,
        answer=row.answer,
        similarity=min(1.0, max(-1.0, row.similarity)),
    )


def page_token(*parts: str | int) -> str:
    """Token that stands for `parts`."""
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def after_document(token: str) -> tuple[datetime, str]:
    """When the last document of the page before was added, and its identifier.

    Raises:
        InvalidPageToken: For a token that was not given for a list of documents.
    """
    match _parts(token):
        case [str(added_at), str(document_id)]:
            try:
                return datetime.fromisoformat(added_at), document_id
            except ValueError as wrong:
                raise _not_ours(token) from wrong
        case _:
            raise _not_ours(token)


def rank_after(token: str, ask: SearchKnowledgeRequest) -> int:
    """How many hits the pages before have shown.

    Raises:
        InvalidPageToken: For a token that was not given for this search.
    """
    match _parts(token):
        case [int(rank), str(of)] if 0 < rank < MOST_CANDIDATES and of == digest_of(ask):
            return rank
        case _:
            raise _not_ours(token)


def digest_of(ask: SearchKnowledgeRequest) -> str:
    """What tells one search from another, whatever its page."""
    return sha256(orjson.dumps([ask.query, ask.kind, ask.minimum_similarity])).hexdigest()[:12]


def _parts(token: str) -> Any:  # noqa: ANN401 - a stranger may have written it
    try:
        return orjson.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
    except (binascii.Error, ValueError) as wrong:
        raise _not_ours(token) from wrong


def _not_ours(token: str) -> InvalidPageToken:
    return InvalidPageToken(f"page_token {token!r} was not given by this service for this request", field="page_token")
