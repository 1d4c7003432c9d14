"""These tables hold the knowledge base: encoders, documents, their chunks, and experience.

The vector columns have no dimension of their own: every encoder has one. They are searched by one partial HNSW index
for each encoder, made when its first text is stored (docs/adr/0009-vectors-of-any-encoder.md).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    DateTime,
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

from chassis.database import without_nul
from chassis.page_tokens import invalid_token, number_in, parts_of, time_in
from chassis.schema.vectors import VectorOfAnyLength
from inference import Vectors
from services.router.service.knowledge.values import (
    DocumentDraft,
    KnowledgeDocument,
    KnowledgeHit,
    KnowledgeKind,
    SearchKnowledgeRequest,
)
from services.router.store.nearest_vectors import MOST_CANDIDATES, VectorSpace
from services.router.store.tables import SCHEMA, RouterTable


class EncoderRow(RouterTable):
    """A row names an encoder that made stored vectors."""

    __tablename__ = "encoders"
    __table_args__ = (UniqueConstraint("name", "dimension", name="uq_encoders_name"),)

    encoder_id: Mapped[int] = mapped_column(SmallInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String)
    dimension: Mapped[int] = mapped_column(Integer)


class DocumentRow(RouterTable):
    """A document is stored without its text."""

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
    """A chunk is a part of a document, with its vector."""

    __tablename__ = "chunks"

    document_id: Mapped[str] = mapped_column(
        ForeignKey(f"{SCHEMA}.documents.document_id", ondelete="CASCADE"), primary_key=True
    )
    ordinal: Mapped[int] = mapped_column(Integer, primary_key=True)
    text: Mapped[str] = mapped_column(String)
    encoder_id: Mapped[int] = mapped_column(ForeignKey(f"{SCHEMA}.encoders.encoder_id"))
    embedding: Mapped[Vectors] = mapped_column(VectorOfAnyLength)


class ExperienceRow(RouterTable):
    """Experience is a verified answer, with the vector of its question."""

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
    """Return documents with the names of their encoders, newest first."""
    query = (
        select(DocumentRow, EncoderRow.name)
        .join(EncoderRow, EncoderRow.encoder_id == DocumentRow.encoder_id)
        .where(*conditions)
        .order_by(DocumentRow.added_at.desc(), DocumentRow.document_id.desc())
        .limit(most)
    )
    return [(row, encoder) for row, encoder in await session.execute(query)]


def document_of(row: DocumentRow, encoder: str) -> KnowledgeDocument:
    """Return the document of a row."""
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


def upsert_of(draft: DocumentDraft, space: VectorSpace) -> Executable:
    """Return the statement that stores a document: all of it, or title and labels where its chunks stay."""
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
        "encoder_id": space.encoder_id,
        "added_at": func.now(),
    }
    row = insert(DocumentRow).values(document_id=draft.document_id, **facts)
    return row.on_conflict_do_update(index_elements=[DocumentRow.document_id], set_=facts)


def chunk_rows(draft: DocumentDraft, space: VectorSpace) -> Iterator[dict[str, Any]]:
    """Yield the rows of a document's chunks."""
    assert draft.chunks is not None
    assert draft.vectors is not None
    for ordinal, (chunk, vector) in enumerate(zip(draft.chunks, draft.vectors, strict=True)):
        yield {
            "document_id": draft.document_id,
            "ordinal": ordinal,
            "text": without_nul(chunk),
            "encoder_id": space.encoder_id,
            "embedding": vector,
        }


def hit_of(row: Row[Any]) -> KnowledgeHit:
    """Return the hit of a row that a search found."""
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


def after_document(token: str) -> tuple[datetime, str]:
    """Return when the last document of the page before was added, and its identifier.

    Raises:
        InvalidPageToken: For a token that this service did not give.
    """
    added_at, document_id = parts_of(token, 2)
    return time_in(added_at, token), document_id


def rank_after(token: str, request: SearchKnowledgeRequest) -> int:
    """Return the number of hits on the pages before.

    Raises:
        InvalidPageToken: For a token that this service did not give for this search.
    """
    rank, digest = parts_of(token, 2)
    number = number_in(rank, token)
    if not 0 < number < MOST_CANDIDATES or digest != digest_of(request):
        raise invalid_token(token)
    return number


def digest_of(request: SearchKnowledgeRequest) -> str:
    """Return a digest that identifies a search, whatever its page."""
    return sha256(orjson.dumps([request.query, request.kind, request.minimum_similarity])).hexdigest()[:12]
