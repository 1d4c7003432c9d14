"""The knowledge base holds documents that were added, and answers that were verified.

Experience belongs to the API key whose runs it comes from; documents are shared by all keys.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from chassis.admission import AdmissionLimit
from chassis.clock import milliseconds_since
from chassis.serving.auth import ApiKey
from configuration.keys import check_may_teach
from inference import Embeddings
from kernel.conversation import latest_texts
from kernel.errors import MalformedRequest
from kernel.outcomes import Outcome
from services.router.service.assessment.experience_matching import ExperienceMatcher, ExperienceMatching
from services.router.service.knowledge.documents import AddLimits, add_knowledge
from services.router.service.knowledge.values import (
    AddEvent,
    DeleteKnowledgeResponse,
    KnowledgeStore,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
    SearchKnowledgeResponse,
    VerifiedAnswer,
)
from services.router.service.runs.values import Run

# Uploads and searches at once [count]; each holds its chunks and vectors in memory, and more are rejected at once.
UPLOADS, SEARCHES = 4, 64


class ExperienceStore(Protocol):
    """This store keeps verified answers as feedback confirms them."""

    async def learn(self, run: Run) -> None:
        """Store the verified answer of `run` as experience, once however often it is called.

        A run without an answer, or whose contents are not stored, teaches nothing.

        Raises:
            EncoderUnavailable: When the encoder is away; a later call may succeed.
            DatabaseUnavailable: When the database is away; a later call may succeed.
        """

    async def forget(self, run_id: str) -> None:
        """Delete the experience of a run, if there is any.

        Raises:
            DatabaseUnavailable: When the database is away; a later call may succeed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeUseCases:
    """The APIs offer these use cases of the knowledge base."""

    add: Callable[..., AsyncGenerator[AddEvent, None]]
    page: Callable[..., Awaitable[ListKnowledgeResponse]]
    delete: Callable[..., Awaitable[DeleteKnowledgeResponse]]
    search: Callable[..., Awaitable[SearchKnowledgeResponse]]


class VerifiedAnswers:
    """This store keeps experience in the knowledge base; see `ExperienceStore`."""

    def __init__(self, embeddings: Embeddings, store: KnowledgeStore, *, most: int, timeout_s: float = 10.0) -> None:
        self._embeddings = embeddings
        self._store = store
        self._most = most
        self._timeout_s = timeout_s

    async def learn(self, run: Run) -> None:
        """Store the verified answer of `run` as experience, once however often it is called."""
        texts = latest_texts(run.messages, longest=self._most)
        if not texts or not run.answer.strip() or run.outcome is not Outcome.ANSWERED:
            return
        question = texts[-1]  # a follow-up has its meaning only with the turns before it
        vector = await self._embeddings.embed([question], timeout_s=self._timeout_s)
        learned = VerifiedAnswer(run_id=run.run_id, key_name=run.key_name, question=question, answer=run.answer)
        await self._store.learn(learned, vector)

    async def forget(self, run_id: str) -> None:
        """Delete the experience of a run, if there is any."""
        await self._store.forget(run_id)


class KnowledgeBase:
    """The knowledge base serves its use cases over one encoder and one store.

    Attributes:
        embeddings: The encoder.
        use: The use cases that the APIs offer.
        match: Experience component (EM) of a conversation.
        experience: Store of verified answers.
    """

    def __init__(
        self, embeddings: Embeddings, store: KnowledgeStore, matching: ExperienceMatching, limits: AddLimits
    ) -> None:
        self.embeddings = embeddings
        self.match = ExperienceMatcher(embeddings, store, matching)
        self.experience: ExperienceStore = VerifiedAnswers(embeddings, store, most=matching.most)
        self._uploads, self._searches = AdmissionLimit("uploads", UPLOADS), AdmissionLimit("searches", SEARCHES)
        self.use = KnowledgeUseCases(
            add=self._uploads.bounding_events(
                partial(add_knowledge, embeddings=embeddings, store=store, limits=limits)
            ),
            page=store.page,
            delete=partial(delete_knowledge, store=store),
            search=self._searches.bounding(partial(search_knowledge, embeddings=embeddings, store=store)),
        )


async def delete_knowledge(document_id: str, *, key: ApiKey, store: KnowledgeStore) -> DeleteKnowledgeResponse:
    """Delete a document and its chunks.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        DocumentNotFound: When there is no such document.
        DatabaseUnavailable: When the database is away.
    """
    check_may_teach(key)
    return await store.delete(document_id)


async def search_knowledge(
    request: SearchKnowledgeRequest,
    *,
    embeddings: Embeddings,
    store: KnowledgeStore,
    key_name: str,
    timeout_s: float = 10.0,
) -> SearchKnowledgeResponse:
    """Search what is nearest in meaning to a text, in documents and in the experience of a key.

    Raises:
        MalformedRequest: When there is no text.
        InvalidPageToken: For a token that this service did not give for this search.
        EncoderUnavailable: When the encoder is away.
        DatabaseUnavailable: When the database is away.
    """
    if not request.query.strip():
        raise MalformedRequest("query: there is no text to search for", field="query")
    rank, began = store.rank(request), time.monotonic()
    query = await embeddings.embed([request.query], timeout_s=timeout_s)
    embedding_ms, embedded = milliseconds_since(began), time.monotonic()
    found = await store.search(request, query, rank=rank, key_name=key_name)
    return SearchKnowledgeResponse(
        hits=found.hits,
        next_page_token=found.next_page_token,
        encoder=query.encoder.name,
        embedding_ms=embedding_ms,
        retrieval_ms=milliseconds_since(embedded),
    )
