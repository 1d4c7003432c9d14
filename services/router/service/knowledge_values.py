"""Requests, results and events of the knowledge base; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from chassis.wire import Count
from kernel.values import value

MAX_DOCUMENTS = 1000

# Names that can stand in a path and in an index.
DocumentId = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]


class KnowledgeKind(StrEnum):
    """Where a stored text comes from."""

    DOCUMENT = "DOCUMENT"
    EXPERIENCE = "EXPERIENCE"


@value
class NewDocument:
    """A document as it is added."""

    text: str
    document_id: DocumentId = ""
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class AddKnowledgeRequest:
    """Asks for documents to be added; all of them or none."""

    documents: Sequence[NewDocument]
    chunk_characters: Count | None = None
    chunk_overlap_characters: Annotated[int, Field(ge=0)] | None = None


@value
class KnowledgeDocument:
    """A document of the knowledge base, without its text."""

    document_id: str
    title: str
    labels: Mapping[str, str]
    chunks: int
    characters: int
    text_digest: str
    encoder: str
    added_at: datetime


@value
class KnowledgeProgress:
    """How far adding has come."""

    embedded_chunks: int
    total_chunks: int
    finished_documents: int
    total_documents: int


@value
class KnowledgeAdded:
    """What was added."""

    documents: Sequence[KnowledgeDocument]
    replaced: int
    chunks: int
    embedding_ms: float
    duration_ms: float


@value
class ListKnowledgeRequest:
    """Asks for documents, newest first."""

    page_size: Annotated[int, Field(ge=1, le=200)] = 50
    page_token: str = ""
    title_contains: str = ""


@value
class ListKnowledgeResponse:
    """A page of documents, and what is stored in all."""

    documents: Sequence[KnowledgeDocument]
    next_page_token: str
    total_documents: int
    total_chunks: int
    total_experiences: int


@value
class DeleteKnowledgeResponse:
    """What was deleted."""

    document_id: str
    chunks: int


@value
class SearchKnowledgeRequest:
    """Asks for what is nearest in meaning to a text."""

    query: str = ""
    page_size: Annotated[int, Field(ge=1, le=100)] = 10
    page_token: str = ""
    kind: KnowledgeKind | None = None
    minimum_similarity: Annotated[float, Field(ge=-1, le=1)] | None = None


@value
class KnowledgeHit:
    """A stored text that is near in meaning."""

    kind: KnowledgeKind
    similarity: float
    text: str
    document_id: str = ""
    title: str = ""
    chunk: int | None = None
    run_id: str = ""
    answer: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class SearchKnowledgeResponse:
    """A page of hits, nearest first."""

    hits: Sequence[KnowledgeHit]
    next_page_token: str
    encoder: str
    embedding_ms: float
    retrieval_ms: float


AddEvent = KnowledgeProgress | KnowledgeAdded
