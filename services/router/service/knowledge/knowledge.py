"""What is known: documents that were added, and answers that were verified.

Experience belongs to the API key whose runs it comes from; documents are shared by all.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from chassis.serving.auth import ApiKey, demand_teacher
from inference.embeddings import Embeddings
from kernel.conversation import latest_texts
from kernel.errors import MalformedRequest
from kernel.outcomes import Outcome
from services.router.service.answering.admission import AdmissionLimit
from services.router.service.assessment.measures import ExperienceMatcher, ExperienceMatching
from services.router.service.knowledge.add import AddLimits, add_knowledge
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

# What is under way at once, each holding its chunks and vectors in memory; more is refused at once.
UPLOADS = 4


SEARCHES = 64


class ExperienceStore(Protocol):
    """Verified answers, as feedback makes them and takes them back."""

    async def learn(self, run: Run) -> None:
        """Make experience of the verified answer of `run`, once however often it is told.

        A run without an answer, or whose contents are not kept, teaches nothing.

        Raises:
            EncoderUnavailable: When the encoder is away; worth another try.
            DatabaseUnavailable: When the database is away; worth another try.
        """

    async def forget(self, run_id: str) -> None:
        """Take back what was learned of a run, if anything was.

        Raises:
            DatabaseUnavailable: When the database is away; worth another try.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeUseCases:
    """What a face can ask of the knowledge base."""

    add: Callable[..., AsyncGenerator[AddEvent, None]]
    page: Callable[..., Awaitable[ListKnowledgeResponse]]
    delete: Callable[..., Awaitable[DeleteKnowledgeResponse]]
    search: Callable[..., Awaitable[SearchKnowledgeResponse]]


class VerifiedAnswers:
    """Experience in the library; see `ExperienceStore`."""

    def __init__(self, embeddings: Embeddings, library: KnowledgeStore, *, most: int, timeout_s: float = 10.0) -> None:
        self._embeddings = embeddings
        self._library = library
        self._most = most
        self._timeout_s = timeout_s

    async def learn(self, run: Run) -> None:
        """Make experience of the verified answer of `run`, once however often it is told."""
        texts = latest_texts(run.messages, longest=self._most)
        if not texts or not run.answer.strip() or run.outcome is not Outcome.ANSWERED:
            return
        question = texts[-1]  # a follow-up means something only with what came before it
        vector = await self._embeddings.embed([question], timeout_s=self._timeout_s)
        learned = VerifiedAnswer(run_id=run.run_id, key_name=run.key_name, question=question, answer=run.answer)
        await self._library.learn(learned, vector)

    async def forget(self, run_id: str) -> None:
        """Take back what was learned of a run, if anything was."""
        await self._library.forget(run_id)


class KnowledgeBase:
    """Everything that is done with what is known, over one encoder and one library.

    Attributes:
        embeddings: The encoder.
        use: What a face can ask.
        match: EM of a conversation.
        experience: What feedback can teach.
    """

    def __init__(
        self, embeddings: Embeddings, library: KnowledgeStore, matching: ExperienceMatching, limits: AddLimits
    ) -> None:
        self.embeddings = embeddings
        self.match = ExperienceMatcher(embeddings, library, matching)
        self.experience: ExperienceStore = VerifiedAnswers(embeddings, library, most=matching.most)
        self._uploads, self._searches = AdmissionLimit("uploads", UPLOADS), AdmissionLimit("searches", SEARCHES)
        self.use = KnowledgeUseCases(
            add=self._uploads.bounding_events(
                partial(add_knowledge, embeddings=embeddings, library=library, limits=limits)
            ),
            page=library.page,
            delete=partial(delete_knowledge, library=library),
            search=self._searches.bounding(partial(search_knowledge, embeddings=embeddings, library=library)),
        )


async def delete_knowledge(document_id: str, *, key: ApiKey, library: KnowledgeStore) -> DeleteKnowledgeResponse:
    """Delete a document and its chunks.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        DocumentNotFound: When there is no such document.
        DatabaseUnavailable: When the database is away.
    """
    demand_teacher(key)
    return await library.delete(document_id)


async def search_knowledge(
    ask: SearchKnowledgeRequest,
    *,
    embeddings: Embeddings,
    library: KnowledgeStore,
    key_name: str,
    timeout_s: float = 10.0,
) -> SearchKnowledgeResponse:
    """What is nearest in meaning to a text, of documents and of the experience of a key.

    Raises:
        MalformedRequest: When there is no text.
        InvalidPageToken: For a token that was not given for this search.
        EncoderUnavailable: When the encoder is away.
        DatabaseUnavailable: When the database is away.
    """
    if not ask.query.strip():
        raise MalformedRequest("query: there is no text to search for", field="query")
    rank, began = library.rank(ask), time.monotonic()
    query = await embeddings.embed([ask.query], timeout_s=timeout_s)
    embedded = time.monotonic()
    found = await library.search(ask, query, rank=rank, key_name=key_name)
    return SearchKnowledgeResponse(
        hits=found.hits,
        next_page_token=found.next_page_token,
        encoder=query.encoder.name,
        embedding_ms=round((embedded - began) * 1000, 3),
        retrieval_ms=round((time.monotonic() - embedded) * 1000, 3),
    )
