"""Values of the knowledge base to rows and back, and the tokens of its pages."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Executable, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.router.service.knowledge_values import (
    KnowledgeDocument,
    KnowledgeHit,
    KnowledgeKind,
    SearchKnowledgeRequest,
)
from services.router.service.library import Draft
from services.router.store.knowledge_tables import DocumentRow, EncoderRow
from services.router.store.nearest import MOST_CANDIDATES, Place
from services.router.store.tables import InvalidPageToken, without_nul


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


def written(draft: Draft, place: Place) -> Executable:
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


def chunk_rows(draft: Draft, place: Place) -> Iterator[dict[str, Any]]:
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
