"""This use case cuts documents, embeds them a batch at a time, and then stores them all at once."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from itertools import accumulate

import numpy as np

from chassis.clock import milliseconds_since
from chassis.errors import ConfigurationInvalid, RequestOverLimit
from chassis.serving.auth import ApiKey
from configuration.keys import check_may_teach
from inference import Embedded, Embeddings, Encoder, EncoderUnavailable, Vectors
from kernel.errors import MalformedRequest
from kernel.values import value
from services.router.core.chunking import spans
from services.router.service.knowledge.values import (
    MAX_DOCUMENTS,
    AddEvent,
    AddKnowledgeRequest,
    ChunkSizes,
    DocumentDraft,
    KnowledgeAdded,
    KnowledgeProgress,
    KnowledgeStore,
    NewDocument,
    StoredDocument,
)


@value
class AddLimits:
    """These limits bound the sizes of documents that may be added.

    Attributes:
        cut: Chunk sizes where the request has none.
        document_characters: Length of one text at most [characters, >= 1].
        chunks: Chunks of one request at most [count, >= 1].
        batch_timeout_s: Time that embedding one batch may take [s, > 0].

    Raises:
        ConfigurationInvalid: On construction, when chunks would share all of their text.
    """

    cut: ChunkSizes = ChunkSizes(most=800, overlap=100)
    document_characters: int = 2_000_000
    chunks: int = 20_000
    batch_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.cut.overlap < self.cut.most:
            raise ConfigurationInvalid(
                f"chunks of {self.cut.most} characters cannot share {self.cut.overlap}; "
                "METACOG_ROUTER_CHUNK_OVERLAP_CHARACTERS must be less than METACOG_ROUTER_CHUNK_CHARACTERS",
                setting="METACOG_ROUTER_CHUNK_OVERLAP_CHARACTERS",
            )


async def add_knowledge(
    request: AddKnowledgeRequest, *, key: ApiKey, embeddings: Embeddings, store: KnowledgeStore, limits: AddLimits
) -> AsyncGenerator[AddEvent, None]:
    """Yield the progress of embedding, then the result; closing the generator earlier adds nothing.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        MalformedRequest: For no documents, an empty text, an identifier that occurs twice, or sizes that do not fit.
        RequestOverLimit: For too many documents or chunks, or a text that is too long.
        EncoderUnavailable: When the encoder is away.
        DatabaseUnavailable: When the database is away.
    """
    began = time.monotonic()
    check_may_teach(key)
    cut = _cut(request, limits.cut)
    documents = _by_id(request.documents, limits)
    encoder = await embeddings.encoder(timeout_s=limits.batch_timeout_s)
    stored = await store.stored(list(documents))
    new = {
        name: document.text
        for name, document in documents.items()
        if not _is_stored(document, stored.get(name), cut, encoder)
    }
    chunks = await asyncio.to_thread(_chunked, new, cut, limits.chunks)
    batches: list[Embedded] = []
    progress = _Progress([len(chunks.get(name, ())) for name in documents])
    yield progress(batches)
    embedding_began = time.monotonic()
    texts = [text for name in documents for text in chunks.get(name, ())]
    async with aclosing(embeddings.batches(texts, timeout_s=limits.batch_timeout_s)) as embedded:
        async for batch in embedded:
            batches.append(batch)
            yield progress(batches)
    embedding_ms = milliseconds_since(embedding_began) if texts else 0.0
    drafts = _drafts(documents, stored, cut, chunks, _vectors(batches, encoder))
    added = await store.put(encoder, drafts) if drafts else {}
    yield KnowledgeAdded(
        documents=[added.get(name) or stored[name].document for name in map(_id, request.documents)],
        replaced=len([draft for draft in drafts if draft.document_id in stored]),
        chunks=len(texts),
        embedding_ms=embedding_ms,
        duration_ms=milliseconds_since(began),
    )


def _cut(request: AddKnowledgeRequest, default: ChunkSizes) -> ChunkSizes:
    """Return the chunk sizes of the request; chunks that are shorter than the default share a quarter at most."""
    most = request.chunk_characters or default.most
    overlap = request.chunk_overlap_characters
    if overlap is None:
        overlap = default.overlap if most >= default.most else min(default.overlap, most // 4)
    if overlap >= most:
        raise MalformedRequest(
            f"chunk_overlap_characters is {overlap}; it must be less than the {most} characters of a chunk",
            field="chunk_overlap_characters",
        )
    return ChunkSizes(most=most, overlap=overlap)


def _by_id(documents: Sequence[NewDocument], limits: AddLimits) -> Mapping[str, NewDocument]:
    """Return the documents by identifier; the same text without one, given twice, is one document."""
    if not documents:
        raise MalformedRequest("documents: give at least one", field="documents")
    if len(documents) > MAX_DOCUMENTS:
        raise _over("documents", f"{len(documents)} documents", MAX_DOCUMENTS)
    by_id: dict[str, NewDocument] = {}
    for index, document in enumerate(documents):
        field = f"documents.{index}"
        if not document.text.strip():
            raise MalformedRequest(f"{field}: the text is empty", field=field)
        if len(document.text) > limits.document_characters:
            raise _over(field, f"a text of {len(document.text)} characters", limits.document_characters)
        name = _id(document)
        if name in by_id and document.text != by_id[name].text:
            raise MalformedRequest(f"{field}: document_id {name!r} stands twice", field=field)
        by_id[name] = document
    return by_id


def _over(field: str, size: str, limit: int) -> RequestOverLimit:
    return RequestOverLimit(f"{field}: {size}; the limit is {limit}", field=field, limit=str(limit))


def _id(document: NewDocument) -> str:
    return document.document_id or _digest(document.text)[:32]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _is_stored(document: NewDocument, stored: StoredDocument | None, cut: ChunkSizes, encoder: Encoder) -> bool:
    """Return whether the chunks and vectors that are stored are those that the document would get."""
    if stored is None or stored.cut != cut or stored.document.encoder != encoder.name:
        return False
    return stored.document.text_digest == _digest(document.text)


def _chunked(texts: Mapping[str, str], cut: ChunkSizes, most: int) -> Mapping[str, Sequence[str]]:
    """Return the chunks of the texts, by document, without parts that are blank."""
    chunks: dict[str, list[str]] = {}
    count = 0
    for name, text in texts.items():
        chunks[name] = []
        for span in spans(text, most=cut.most, overlap=cut.overlap):
            if chunk := text[span.start : span.end].strip():
                chunks[name].append(chunk)
                count += 1
            if count > most:
                raise _over("documents", "too many chunks at once", most)
    return chunks


class _Progress:
    """The progress of embedding is computed from the batches so far."""

    def __init__(self, chunks: Sequence[int]) -> None:
        self._ends = list(accumulate(chunks))

    def __call__(self, batches: Sequence[Embedded]) -> KnowledgeProgress:
        embedded = sum(len(batch.vectors) for batch in batches)
        return KnowledgeProgress(
            embedded_chunks=embedded,
            total_chunks=self._ends[-1],
            finished_documents=bisect_right(self._ends, embedded),
            total_documents=len(self._ends),
        )


def _vectors(batches: Sequence[Embedded], encoder: Encoder) -> Vectors:
    if any(batch.encoder != encoder for batch in batches):
        raise EncoderUnavailable("the encoder changed while texts were being embedded; try again")
    empty: Vectors = np.empty((0, encoder.dimension), dtype=np.float32)
    return np.concatenate([batch.vectors for batch in batches]) if batches else empty


def _drafts(
    documents: Mapping[str, NewDocument],
    stored: Mapping[str, StoredDocument],
    cut: ChunkSizes,
    chunks: Mapping[str, Sequence[str]],
    vectors: Vectors,
) -> Sequence[DocumentDraft]:
    """Return what to store: documents whose chunks are new, and those that only have another title or labels."""
    drafts = []
    start = 0
    for name, document in documents.items():
        draft = DocumentDraft(
            document_id=name,
            title=document.title,
            labels=document.labels,
            text_digest=_digest(document.text),
            characters=len(document.text),
            cut=cut,
        )
        if name in chunks:
            end = start + len(chunks[name])
            drafts.append(replace(draft, chunks=chunks[name], vectors=vectors[start:end]))
            start = end
        elif (document.title, document.labels) != (stored[name].document.title, stored[name].document.labels):
            drafts.append(draft)
    return drafts
