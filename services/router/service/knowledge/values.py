"""These values are the requests, results and events of the knowledge base; their fields are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from chassis.serving.wire import Count
from inference import Embedded, Encoder, Vectors
from kernel.values import value

MAX_DOCUMENTS = 1000

# Identifiers that fit into a path and into an index.
DocumentId = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]


class KnowledgeKind(StrEnum):
    """A kind is the source of a stored text."""

    DOCUMENT = "DOCUMENT"
    EXPERIENCE = "EXPERIENCE"


@value
class NewDocument:
    """This document is to be added."""

    text: str
    document_id: DocumentId = ""
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class AddKnowledgeRequest:
    """This request adds documents; all of them or none."""

    documents: Sequence[NewDocument]
    chunk_characters: Count | None = None
    chunk_overlap_characters: Annotated[int, Field(ge=0)] | None = None


@value
class KnowledgeDocument:
    """This value describes a document of the knowledge base, without its text."""

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
    """This event reports the progress of adding documents."""

    embedded_chunks: int
    total_chunks: int
    finished_documents: int
    total_documents: int


@value
class KnowledgeAdded:
    """This event reports the documents that were added."""

    documents: Sequence[KnowledgeDocument]
    replaced: int
    chunks: int
    embedding_ms: float
    duration_ms: float


@value
class ListKnowledgeRequest:
    """This request asks for a page of documents, newest first."""

    page_size: Annotated[int, Field(ge=1, le=200)] = 50
    page_token: str = ""
    title_contains: str = ""


@value
class ListKnowledgeResponse:
    """This response is a page of documents, with the number of all."""

    documents: Sequence[KnowledgeDocument]
    next_page_token: str
    total_documents: int
    total_chunks: int
    total_experiences: int


@value
class DeleteKnowledgeResponse:
    """This response names the document that was deleted."""

    document_id: str
    chunks: int


@value
class SearchKnowledgeRequest:
    """This request searches the texts that are nearest in meaning to a query."""

    query: str = ""
    page_size: Annotated[int, Field(ge=1, le=100)] = 10
    page_token: str = ""
    kind: KnowledgeKind | None = None
    minimum_similarity: Annotated[float, Field(ge=-1, le=1)] | None = None


@value
class KnowledgeHit:
    """A hit is a stored text that is near in meaning."""

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
    """This response is a page of hits, nearest first."""

    hits: Sequence[KnowledgeHit]
    next_page_token: str
    encoder: str
    embedding_ms: float
    retrieval_ms: float


AddEvent = KnowledgeProgress | KnowledgeAdded


@value
class ChunkSizes:
    """Chunk sizes are those of the chunks that a text is cut into.

    Attributes:
        most: Length of a chunk at most [characters, >= 1].
        overlap: Length at most that a chunk shares with the one before [characters, >= 0, < most].
    """

    most: int
    overlap: int


@value
class StoredDocument:
    """This value is a document as it is stored."""

    document: KnowledgeDocument
    cut: ChunkSizes


@value
class DocumentDraft:
    """A draft is a document to be stored.

    Attributes:
        document_id: Identifier; a known one is replaced.
        title: Title.
        labels: Free labels by name.
        text_digest: SHA-256 of the text [hexadecimal].
        characters: Length of the text [characters].
        cut: Sizes of its chunks.
        chunks: Its chunks; None when the stored ones stay and only title and labels are new.
        vectors: A row for each chunk.
    """

    document_id: str
    title: str
    labels: Mapping[str, str]
    text_digest: str
    characters: int
    cut: ChunkSizes
    chunks: Sequence[str] | None = None
    vectors: Vectors | None = None


@value
class VerifiedAnswer:
    """A verified answer is stored with its question.

    Attributes:
        run_id: Run that gave it.
        key_name: API key whose experience it is.
        question: Text by which it is found again.
        answer: The answer.
    """

    run_id: str
    key_name: str
    question: str
    answer: str


@value
class SearchPage:
    """A search page holds hits, nearest first, and the token of the next page; empty on the last."""

    hits: Sequence[KnowledgeHit]
    next_page_token: str


class KnowledgeStore(Protocol):
    """This store holds documents and verified answers with their vectors.

    Methods but `rank` may raise `DatabaseUnavailable`.
    """

    async def stored(self, document_ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Return those of the documents that are stored, by identifier."""

    async def put(self, encoder: Encoder, drafts: Sequence[DocumentDraft]) -> Mapping[str, KnowledgeDocument]:
        """Store all `drafts`, or none; return the documents by identifier."""

    async def page(self, request: ListKnowledgeRequest, *, key_name: str) -> ListKnowledgeResponse:
        """Return a page of documents, newest first."""

    async def delete(self, document_id: str) -> DeleteKnowledgeResponse:
        """Delete a document and its chunks.

        Raises:
            DocumentNotFound: When there is none.
        """

    def rank(self, request: SearchKnowledgeRequest) -> int:
        """Return the number of hits on the pages before the requested one.

        Raises:
            InvalidPageToken: For a token that this service did not give for this search.
        """

    async def search(self, request: SearchKnowledgeRequest, query: Embedded, *, rank: int, key_name: str) -> SearchPage:
        """Return the texts nearest to `query`, of documents and of the experience of that key, after `rank` hits."""

    async def nearest(self, query: Embedded, *, key_name: str) -> Mapping[str, float | None]:
        """Return the cosine of the nearest text to any row of `query`, by source; None for a source without texts."""

    async def encoders(self, *, key_name: str) -> Sequence[str]:
        """Return the names of the encoders that made the stored vectors."""

    async def learn(self, learned: VerifiedAnswer, question: Embedded) -> None:
        """Store a verified answer; an earlier one of the same run is replaced."""

    async def forget(self, run_id: str) -> None:
        """Delete the experience of a run."""
