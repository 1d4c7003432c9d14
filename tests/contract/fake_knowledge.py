"""Fakes of the encoder and for the store of what is known."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import numpy as np
import orjson

from chassis.page_tokens import InvalidPageToken
from inference import Embedded, Embeddings, Encoder, Vectors
from inference.http.transport import HttpReply, HttpStream, NotSent
from kernel.msv.experience import SOURCES
from services.router.errors import DocumentNotFound
from services.router.service.knowledge.values import (
    DeleteKnowledgeResponse,
    DocumentDraft,
    KnowledgeDocument,
    KnowledgeHit,
    KnowledgeKind,
    ListKnowledgeRequest,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
    SearchPage,
    StoredDocument,
    VerifiedAnswer,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MODEL = "letters"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class FakeEncoder:
    """A transport behind which texts become counts of their letters; `away` makes it unreachable."""

    def __init__(self) -> None:
        self.away = False
        self.texts: list[str] = []

    async def get(self, _url: str, _headers: Mapping[str, str]) -> HttpReply:
        """The one model."""
        self._answer()
        return HttpReply(status=200, headers={}, body=orjson.dumps({"data": [{"id": MODEL}]}))

    @asynccontextmanager
    async def stream(self, _url: str, _headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpStream]:
        """Vectors of the texts."""
        self._answer()
        texts = orjson.loads(body)["input"]
        self.texts += texts
        data = [
            {"index": place, "embedding": [text.lower().count(letter) + 0.01 for letter in LETTERS]}
            for place, text in enumerate(texts)
        ]
        yield HttpStream(status=200, headers={}, chunks=_once(orjson.dumps({"data": data})))

    async def aclose(self) -> None:
        """Nothing is open."""

    def _answer(self) -> None:
        if self.away:
            raise NotSent("nobody is there")


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def fake_embeddings(encoder: FakeEncoder | None = None, *, batch: int = 2) -> Embeddings:
    """The client of a fake encoder."""
    return Embeddings("http://encoder/v1", batch=batch, transport=encoder or FakeEncoder())


class FakeLibrary:
    """What is known, in lists."""

    def __init__(self) -> None:
        self._kept: dict[str, StoredDocument] = {}
        self._chunks: dict[str, tuple[Sequence[str], Vectors]] = {}
        self._learned: dict[str, tuple[VerifiedAnswer, Vectors]] = {}

    async def stored(self, document_ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Those of the documents that are stored."""
        return {name: kept for name, kept in self._kept.items() if name in document_ids}

    async def put(self, encoder: Encoder, drafts: Sequence[DocumentDraft]) -> Mapping[str, KnowledgeDocument]:
        """Store all drafts."""
        for draft in drafts:
            if draft.chunks is not None and draft.vectors is not None:
                self._chunks[draft.document_id] = (draft.chunks, draft.vectors)
            document = KnowledgeDocument(
                document_id=draft.document_id,
                title=draft.title,
                labels=draft.labels,
                chunks=len(self._chunks[draft.document_id][0]),
                characters=draft.characters,
                text_digest=draft.text_digest,
                encoder=encoder.name,
                added_at=BEGAN,
            )
            self._kept[draft.document_id] = StoredDocument(document=document, cut=draft.cut)
        return {draft.document_id: self._kept[draft.document_id].document for draft in drafts}

    async def page(self, ask: ListKnowledgeRequest, *, key_name: str) -> ListKnowledgeResponse:
        """The first documents; the token of the next page is the name of the last."""
        if ask.page_token and ask.page_token not in self._kept:
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        names = sorted(self._kept)
        names = names[names.index(ask.page_token) + 1 :] if ask.page_token else names
        shown = [self._kept[name].document for name in names[: ask.page_size]]
        return ListKnowledgeResponse(
            documents=shown,
            next_page_token=shown[-1].document_id if len(names) > len(shown) else "",
            total_documents=len(self._kept),
            total_chunks=sum(len(chunks) for chunks, _ in self._chunks.values()),
            total_experiences=len(self._learned),
        )

    async def delete(self, document_id: str) -> DeleteKnowledgeResponse:
        """Forget a document."""
        if document_id not in self._kept:
            raise DocumentNotFound(f"there is no document {document_id!r}", document_id=document_id)
        del self._kept[document_id]
        return DeleteKnowledgeResponse(document_id=document_id, chunks=len(self._chunks.pop(document_id)[0]))

    def rank(self, ask: SearchKnowledgeRequest) -> int:
        """The token is the rank itself."""
        if ask.page_token and not ask.page_token.isdigit():
            raise InvalidPageToken(f"page_token {ask.page_token!r} was not given by this service", field="page_token")
        return int(ask.page_token or 0)

    async def search(self, ask: SearchKnowledgeRequest, query: Embedded, *, rank: int, key_name: str) -> SearchPage:
        """Chunks by similarity."""
        hits = [
            KnowledgeHit(
                kind=KnowledgeKind.DOCUMENT,
                document_id=name,
                title=self._kept[name].document.title,
                labels=self._kept[name].document.labels,
                chunk=place,
                text=chunk,
                similarity=_cosine(vector, query.vectors[0]),
            )
            for name, (chunks, vectors) in self._chunks.items()
            for place, (chunk, vector) in enumerate(zip(chunks, vectors, strict=True))
            if ask.kind is not KnowledgeKind.EXPERIENCE
        ]
        wanted = [hit for hit in hits if hit.similarity >= (ask.minimum_similarity or -1)]
        wanted.sort(key=lambda hit: -hit.similarity)
        end = rank + ask.page_size
        return SearchPage(hits=wanted[rank:end], next_page_token=str(end) if len(wanted) > end else "")

    async def nearest(self, query: Embedded, *, key_name: str) -> Mapping[str, float | None]:
        """The nearest of each source."""
        rows = [vector for _, vectors in self._chunks.values() for vector in vectors]
        own = [vectors[0] for learned, vectors in self._learned.values() if key_name in ("", learned.key_name)]
        return {
            source: max((_cosine(row, asked) for row in stored for asked in query.vectors), default=None)
            for source, stored in zip(SOURCES, (rows, own), strict=True)
        }

    async def encoders(self, *, key_name: str) -> Sequence[str]:
        """The one encoder, if anything is stored."""
        return [MODEL] if self._kept or self._learned else []

    async def learn(self, learned: VerifiedAnswer, question: Embedded) -> None:
        """Keep a verified answer."""
        self._learned[learned.run_id] = (learned, question.vectors)

    async def forget(self, run_id: str) -> None:
        """Forget a verified answer."""
        self._learned.pop(run_id, None)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
