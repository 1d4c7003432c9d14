"""What is known: documents that were added, and answers that were verified.

Experience belongs to the API key whose runs it comes from; documents are shared by all.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from chassis.auth import ApiKey
from chassis.embeddings import Embeddings, Encoder
from chassis.inference.breaker import Admission, Breaker
from chassis.inference.config import BreakerSettings
from chassis.inference.errors import CircuitOpen
from chassis.spend import Spend
from chassis.wire import MalformedRequest
from kernel.answers import Outcome
from kernel.errors import MetacogError
from kernel.values import value
from services.router.core.experience import Calibration, ExperienceWeights, Matched, experience_match, matched_texts
from services.router.service.adding import AddLimits, add_knowledge
from services.router.service.admission import Bound
from services.router.service.knowledge_values import (
    AddEvent,
    DeleteKnowledgeResponse,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
    SearchKnowledgeResponse,
)
from services.router.service.library import Learned, Library
from services.router.service.teaching import demand_teacher
from services.router.service.values import Run, Turn

# What is under way at once, each holding its chunks and vectors in memory; more is refused at once.
UPLOADS = 4
SEARCHES = 64
LEFT_ALONE = BreakerSettings(failures=5, cool_down_s=5.0)


class Experience(Protocol):
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
class Knowing:
    """What a face can ask of the knowledge base."""

    add: Callable[..., AsyncGenerator[AddEvent, None]]
    page: Callable[..., Awaitable[ListKnowledgeResponse]]
    delete: Callable[..., Awaitable[DeleteKnowledgeResponse]]
    search: Callable[..., Awaitable[SearchKnowledgeResponse]]


@value
class Matching:
    """How EM is made.

    Attributes:
        weights: What documents and experience count.
        calibration: What a cosine is worth.
        most: Text of a conversation that is looked up, at most [characters, >= 1].
        timeout_s: Time that looking up may take, inside the request's own [s, > 0].
    """

    weights: ExperienceWeights = ExperienceWeights()
    calibration: Calibration = Calibration()
    most: int = 800
    timeout_s: float = 1.0


class ExperienceMatcher:
    """EM by one call of the encoder and one statement; never a model call.

    An encoder or a database that keeps failing is left alone for a while, so that no request waits for it.
    """

    def __init__(self, embeddings: Embeddings, library: Library, matching: Matching) -> None:
        self._embeddings = embeddings
        self._library = library
        self._matching = matching
        self._breaker = Breaker("experience", LEFT_ALONE, time.monotonic)
        self._last_failure = ""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> Matched:
        """EM of `messages` by what the key of that name may see; never refuses."""
        timeout_s = min(spend.seconds_left(), self._matching.timeout_s)
        texts = matched_texts([turn.content for turn in messages if turn.role != "system"], most=self._matching.most)
        if not texts:
            return _unknown("there is no text to look up")
        try:
            with self._breaker.admitted() as admission:
                matched = await self._tried(texts, key_name, timeout_s, admission)
        except CircuitOpen:
            return _unknown(f"{self._last_failure} (tried again in some seconds)")
        return matched

    async def _tried(self, texts: Sequence[str], key_name: str, timeout_s: float, admission: Admission) -> Matched:
        try:
            async with asyncio.timeout(timeout_s):
                matched = await self._matched(texts, key_name, timeout_s)
        except MetacogError as refusal:
            self._last_failure = f"{refusal.reason}: {refusal.message}"
        except TimeoutError:
            self._last_failure = f"looking it up took more than {timeout_s:.3g} s"
        else:
            admission.worked()
            return matched
        if timeout_s == self._matching.timeout_s:  # less time tells nothing of the encoder
            admission.failed()
        return _unknown(self._last_failure)

    async def _matched(self, texts: Sequence[str], key_name: str, timeout_s: float) -> Matched:
        query = await self._embeddings.embed(texts, timeout_s=timeout_s)
        measured_on = self._matching.calibration.encoder
        if query.encoder.name != measured_on:
            return _unknown(
                f"similarities are calibrated for the encoder {measured_on} and {query.encoder.name} is in use; "
                "set METACOG_ROUTER_SIMILARITY_ENCODER, _FLOOR and _CEILING to what `python -m bench similarity` prints"
            )
        cosines = await self._library.nearest(query, key_name=key_name)
        if not any(cosine is not None for cosine in cosines.values()):
            return _unknown(await self._why_nothing(query.encoder, key_name))
        return experience_match(cosines, weights=self._matching.weights, calibration=self._matching.calibration)

    async def _why_nothing(self, encoder: Encoder, key_name: str) -> str:
        others = [name for name in await self._library.encoders(key_name=key_name) if name != encoder.name]
        if not others:
            return experience_match({}, weights=self._matching.weights, calibration=self._matching.calibration).reason
        return f"nothing is stored yet for the encoder {encoder.name}; what is stored is of {', '.join(others)}"


def _unknown(reason: str) -> Matched:
    return Matched(value=None, reason=reason, parts={})


class VerifiedAnswers:
    """Experience in the library; see `Experience`."""

    def __init__(self, embeddings: Embeddings, library: Library, *, most: int, timeout_s: float = 10.0) -> None:
        self._embeddings = embeddings
        self._library = library
        self._most = most
        self._timeout_s = timeout_s

    async def learn(self, run: Run) -> None:
        """Make experience of the verified answer of `run`, once however often it is told."""
        texts = matched_texts([turn.content for turn in run.messages if turn.role != "system"], most=self._most)
        if not texts or not run.answer.strip() or run.outcome is not Outcome.ANSWERED:
            return
        question = texts[-1]  # a follow-up means something only with what came before it
        vector = await self._embeddings.embed([question], timeout_s=self._timeout_s)
        learned = Learned(run_id=run.run_id, key_name=run.key_name, question=question, answer=run.answer)
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

    def __init__(self, embeddings: Embeddings, library: Library, matching: Matching, limits: AddLimits) -> None:
        self.embeddings = embeddings
        self.match = ExperienceMatcher(embeddings, library, matching)
        self.experience: Experience = VerifiedAnswers(embeddings, library, most=matching.most)
        self._uploads, self._searches = Bound("uploads", UPLOADS), Bound("searches", SEARCHES)
        self.use = Knowing(
            add=self._uploads.bounding_events(
                partial(add_knowledge, embeddings=embeddings, library=library, limits=limits)
            ),
            page=library.page,
            delete=partial(delete_knowledge, library=library),
            search=self._searches.bounding(partial(search_knowledge, embeddings=embeddings, library=library)),
        )


async def delete_knowledge(document_id: str, *, key: ApiKey, library: Library) -> DeleteKnowledgeResponse:
    """Delete a document and its chunks.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        DocumentNotFound: When there is no such document.
        DatabaseUnavailable: When the database is away.
    """
    demand_teacher(key)
    return await library.delete(document_id)


async def search_knowledge(
    ask: SearchKnowledgeRequest, *, embeddings: Embeddings, library: Library, key_name: str, timeout_s: float = 10.0
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
