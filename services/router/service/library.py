"""What the knowledge base asks of its store, and what it gives it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from chassis.embedding_replies import Vectors
from chassis.embeddings import Embedded, Encoder
from kernel.errors import Code, MetacogError
from kernel.values import value
from services.router.service.knowledge_values import (
    DeleteKnowledgeResponse,
    KnowledgeDocument,
    KnowledgeHit,
    ListKnowledgeRequest,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
)


class DocumentNotFound(MetacogError):
    """There is no such document."""

    code = Code.NOT_FOUND
    reason = "DOCUMENT_NOT_FOUND"


@value
class Cut:
    """How a text is cut into chunks.

    Attributes:
        most: Length of a chunk at most [characters, >= 1].
        overlap: Length at most that a chunk shares with the one before [characters, >= 0, < most].
    """

    most: int
    overlap: int


@value
class Kept:
    """A document as it is stored."""

    document: KnowledgeDocument
    cut: Cut


@value
class Draft:
    """A document to be stored.

    Attributes:
        document_id: Identifier; a known one is replaced.
        title: Title.
        labels: Free labels by name.
        text_digest: SHA-256 of the text [hexadecimal].
        characters: Length of the text [characters].
        cut: How the text was cut.
        chunks: Its chunks; None: those that are stored stay, and only title and labels are new.
        vectors: A row for each chunk.
    """

    document_id: str
    title: str
    labels: Mapping[str, str]
    text_digest: str
    characters: int
    cut: Cut
    chunks: Sequence[str] | None = None
    vectors: Vectors | None = None


@value
class Learned:
    """A verified answer.

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
class Found:
    """A page of hits, nearest first, and the token of the next; empty on the last."""

    hits: Sequence[KnowledgeHit]
    next_page_token: str


class Library(Protocol):
    """Documents and verified answers with their vectors; each method but `rank` may raise `DatabaseUnavailable`."""

    async def kept(self, document_ids: Sequence[str]) -> Mapping[str, Kept]:
        """Those of the documents that are stored, by identifier."""

    async def put(self, encoder: Encoder, drafts: Sequence[Draft]) -> Mapping[str, KnowledgeDocument]:
        """Store all `drafts`, or none; the documents by identifier."""

    async def page(self, ask: ListKnowledgeRequest, *, key_name: str) -> ListKnowledgeResponse:
        """A page of documents, newest first."""

    async def delete(self, document_id: str) -> DeleteKnowledgeResponse:
        """Delete a document and its chunks.

        Raises:
            DocumentNotFound: When there is none.
        """

    def rank(self, ask: SearchKnowledgeRequest) -> int:
        """How many hits the pages before the one asked for have shown.

        Raises:
            InvalidPageToken: For a token that was not given for this search.
        """

    async def search(self, ask: SearchKnowledgeRequest, query: Embedded, *, rank: int, key_name: str) -> Found:
        """What is nearest to `query`, of documents and of the experience of that key, after `rank` hits."""

    async def nearest(self, query: Embedded, *, key_name: str) -> Mapping[str, float | None]:
        """Cosine of the nearest text to any row of `query`, by source; None for a source that holds nothing."""

    async def encoders(self, *, key_name: str) -> Sequence[str]:
        """Names of the encoders that anything is stored of."""

    async def learn(self, learned: Learned, question: Embedded) -> None:
        """Store a verified answer; an earlier one of the same run is replaced."""

    async def forget(self, run_id: str) -> None:
        """Delete what was learned of a run."""
