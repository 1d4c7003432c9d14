"""Questions are classified by the prototypes nearest in meaning; this calls the encoder, and no model.

Source: MetaCogAgent III-B and ours (papers.md 3.1, 5.4). The arithmetic is in `kernel.learning.kinds`.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from inference.config import BreakerSettings
from inference.embeddings import Embedded, Encoder
from inference.errors import CircuitOpen, EncoderUnavailable
from inference.http.breaker import Breaker, BreakerPermit
from kernel.learning.kinds import Vectors, classified_text, kind_likelihoods, unit_vectors
from kernel.values import value

# Time that a task's vector may take [s].
EMBED_TIMEOUT_S = 10.0
# Time that the kind of a question may take, inside the request's own [s].
KIND_TIMEOUT_S = 0.5
KIND_BREAKER = BreakerSettings(failures=3, cool_down_s=10.0)
# Questions whose kind is kept in memory [count].
MOST_KINDS_KEPT = 4096


class Embedder(Protocol):
    """An embedder turns texts into vectors."""

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        """Return the vectors of `texts`."""


@value
class KindVectors:
    """Kind vectors are the vectors of the prototypes of every kind, all by one encoder.

    Attributes:
        encoder: The encoder; None where no kind has a prototype.
        by_kind: Vectors of length 1 by kind, shape (prototypes, d).
    """

    encoder: Encoder | None
    by_kind: Mapping[str, Vectors]

    def likelihoods(self, question: Vectors) -> Mapping[str, float]:
        """Return how likely a question with this vector of length 1 is of each kind, the likeliest first."""
        return kind_likelihoods({kind: vectors @ question for kind, vectors in self.by_kind.items() if len(vectors)})


class Prototypes:
    """The vectors of prototypes are cached while the encoder and the texts are the same.

    Args:
        embedder: The sentence encoder.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._texts: Mapping[str, tuple[str, ...]] = {}
        self._vectors: KindVectors | None = None

    async def likelihoods(
        self, question: str, kinds: Mapping[str, Sequence[str]], *, timeout_s: float
    ) -> Mapping[str, float]:
        """Return how likely the question is of each kind, the likeliest first; nothing without any prototype.

        Args:
            question: The question.
            kinds: Prototypes by kind.
            timeout_s: Time that all prototypes may take; the question's vector has 10 s of it at most [s].

        Raises:
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
        """
        if not any(kinds.values()):
            return {}
        embedded = await self._embedder.embed(
            [classified_text(question) or question], timeout_s=min(EMBED_TIMEOUT_S, timeout_s)
        )
        vectors = await self.by(embedded.encoder, kinds, timeout_s=timeout_s)
        return vectors.likelihoods(unit_vectors(embedded.vectors)[0])

    async def by(self, encoder: Encoder, kinds: Mapping[str, Sequence[str]], *, timeout_s: float) -> KindVectors:
        """Return the vectors by `encoder`, or by the one that took its place meanwhile; raises as `likelihoods`."""
        if not any(kinds.values()):
            return KindVectors(encoder=None, by_kind={})
        texts = {kind: tuple(own) for kind, own in kinds.items()}
        if self._vectors is None or self._vectors.encoder != encoder or texts != self._texts:
            self._vectors, self._texts = await self._embedded(texts, timeout_s), texts
        return self._vectors

    async def current(self, kinds: Mapping[str, Sequence[str]], *, timeout_s: float) -> KindVectors:
        """Return the vectors by the encoder that answers now; raises as `likelihoods`."""
        first = next((own[0] for own in kinds.values() if own), None)
        if first is None:
            return KindVectors(encoder=None, by_kind={})
        seen = await self._embedder.embed([first], timeout_s=min(EMBED_TIMEOUT_S, timeout_s))
        return await self.by(seen.encoder, kinds, timeout_s=timeout_s)

    async def _embedded(self, texts: Mapping[str, Sequence[str]], timeout_s: float) -> KindVectors:
        embedded = await self._embedder.embed([text for own in texts.values() for text in own], timeout_s=timeout_s)
        rows, start = unit_vectors(embedded.vectors), 0
        by_kind: dict[str, Vectors] = {}
        for kind, own in texts.items():
            by_kind[kind] = rows[start : start + len(own)]
            start += len(own)
        return KindVectors(encoder=embedded.encoder, by_kind=by_kind)


@value
class QuestionKind:
    """A question is of this kind.

    Attributes:
        name: Adopted category or dimension; empty: unknown.
        unknown_reason: Why it is unknown, as `CODE: message`; empty where it is known.
    """

    name: str = ""
    unknown_reason: str = ""


class KindClassifier:
    """The classifier finds the kind of a question within half a second, or says why it is unknown.

    The kind of a question is kept by the question's digest, the least recently used is dropped first. While the encoder
    is away it is not called for a while.

    Args:
        embedder: The sentence encoder.
        configured: Prototypes of the configured dimensions, by dimension.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        embedder: Embedder,
        configured: Mapping[str, Sequence[str]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._configured = configured
        self._prototypes = Prototypes(embedder)
        self._in_force: KindVectors | None = None
        self._encoder: Encoder | None = None
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._breaker = Breaker("kinds", KIND_BREAKER, clock)

    def use(self, vectors: KindVectors | None) -> None:
        """Classify by these kinds wherever their encoder is in use; None: by the configured dimensions alone."""
        if not _are_same(vectors, self._in_force):
            self._in_force, self._kept = vectors, OrderedDict()

    async def prepare(self, *, timeout_s: float) -> None:
        """Have the vectors of the configured dimensions ready, so that no question waits for them.

        Raises:
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
        """
        await self._prototypes.current(self._configured, timeout_s=timeout_s)

    async def kind(self, question: str, *, timeout_s: float) -> QuestionKind:
        """Return the likeliest kind of a question; never fails.

        Args:
            question: The question.
            timeout_s: Time that is left for it [s]; no more than half a second is taken.
        """
        text = classified_text(question)
        if not text:
            return QuestionKind(unknown_reason="NO_QUESTION: there is no text to classify")
        kept, digest = self._kept, sha256(text.encode(errors="replace")).digest()
        if digest in kept:
            kept.move_to_end(digest)
            return QuestionKind(name=kept[digest])
        try:
            with self._breaker.admit() as permit:
                name = await self._observed(text, timeout_s, permit)
        except CircuitOpen:
            return QuestionKind(unknown_reason="ENCODER_UNAVAILABLE: it failed several times in a row, and has a pause")
        except EncoderUnavailable as error:
            return QuestionKind(unknown_reason=f"{error.reason}: {error.message}")
        if not name:
            return QuestionKind(unknown_reason="NO_PROTOTYPES: no kind has an example to compare with")
        if kept is self._kept:
            kept[digest] = name
            if len(kept) > MOST_KINDS_KEPT:
                kept.popitem(last=False)
        return QuestionKind(name=name)

    async def _observed(self, text: str, timeout_s: float, permit: BreakerPermit) -> str:
        """Return the likeliest kind, and record what the call shows of the encoder: with less time, nothing."""
        try:
            name = await self._likeliest(text, min(KIND_TIMEOUT_S, max(timeout_s, 0.001)))
        except EncoderUnavailable:
            if timeout_s >= KIND_TIMEOUT_S:
                permit.record_failure()
            raise
        permit.record_success()
        return name

    async def _likeliest(self, text: str, within_s: float) -> str:
        until = time.monotonic() + within_s
        embedded = await self._embedder.embed([text], timeout_s=within_s)
        if embedded.encoder != self._encoder:
            self._encoder = embedded.encoder
            self._kept.clear()
        vectors = self._in_force
        if vectors is None or vectors.encoder != embedded.encoder:
            left_s = max(0.001, until - time.monotonic())
            vectors = await self._prototypes.by(embedded.encoder, self._configured, timeout_s=left_s)
        return next(iter(vectors.likelihoods(unit_vectors(embedded.vectors)[0])), "")


def _are_same(one: KindVectors | None, other: KindVectors | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        one.encoder == other.encoder
        and one.by_kind.keys() == other.by_kind.keys()
        and all((vectors == other.by_kind[kind]).all() for kind, vectors in one.by_kind.items())
    )
