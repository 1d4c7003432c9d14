"""The embedding measures trace the claims of many questions, embedded in batches.

Without the encoder these measures are undefined with a reason, and everything else is served.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Protocol

import numpy as np

from inference import Embedded, EncoderUnavailable
from kernel.arbitration.claims import Claim, ClaimShares, EmbeddedClaims, Vectors, claim_shares, claims
from kernel.errors import MetacogError
from kernel.values import value

# Claims that are held in memory with their vectors at a time; questions are traced in groups of about as many.
HELD_CLAIMS = 20_000


@value
class QuestionClaims:
    """This value holds the texts of one question.

    Attributes:
        solver_traces: The solvers' representative traces.
        critiques: Critiques of them.
        final: All texts of the last stage that ran.
        every: All texts whose claims count in the redundancy, each once.
    """

    solver_traces: Sequence[str]
    critiques: Sequence[str] = ()
    final: Sequence[str] = ()
    every: Sequence[str] = ()


class Encoding(Protocol):
    """This client calls a sentence encoder."""

    def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Yield the vectors of `texts`, a batch at a time and in order."""


class Tracer:
    """The tracer computes the measures that need embeddings.

    Args:
        encoder: The encoder.
        batch_timeout_s: Time that one batch of sentences may take [s].
    """

    def __init__(self, encoder: Encoding, *, batch_timeout_s: float) -> None:
        self._encoder = encoder
        self._batch_timeout_s = batch_timeout_s

    async def trace(
        self, questions: Sequence[QuestionClaims], *, below: float, timeout_s: float | None = None
    ) -> list[ClaimShares | str]:
        """Return the measures of each question; a reason instead where the encoder fails.

        Args:
            questions: Texts of the questions.
            below: Similarity below which a claim is novel [-1..1].
            timeout_s: Time for all of it [s]; None sets no other limit than that of each batch.
        """
        found: list[ClaimShares | str] = []
        try:
            async with asyncio.timeout(timeout_s):
                for group in _groups(questions):
                    found.extend(await self._traced(group, below))
        except MetacogError as error:
            found.extend([f"{error.reason}: {error.message}"] * (len(questions) - len(found)))
        except TimeoutError:
            reason = f"{EncoderUnavailable.reason}: the time was over before all claims were embedded"
            found.extend([reason] * (len(questions) - len(found)))
        return found

    async def _traced(self, questions: Sequence[QuestionClaims], below: float) -> list[ClaimShares | str]:
        claims_by_text = await asyncio.to_thread(_claims_by_text, questions)
        sentences = sorted({claim.text for found in claims_by_text.values() for claim in found})
        vectors = await self._embedded(sentences)
        place = {sentence: row for row, sentence in enumerate(sentences)}
        return await asyncio.to_thread(_all_traced, questions, claims_by_text, place, vectors, below)

    async def _embedded(self, sentences: Sequence[str]) -> Vectors:
        """Return the unit vectors of `sentences`."""
        parts: list[Vectors] = []
        async with aclosing(self._encoder.batches(sentences, timeout_s=self._batch_timeout_s)) as batches:
            async for batch in batches:
                parts.append(batch.vectors)
        vectors = np.concatenate(parts) if parts else np.zeros((0, 1))
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit


def _groups(questions: Sequence[QuestionClaims]) -> Iterator[Sequence[QuestionClaims]]:
    """Yield questions in groups whose texts hold about `HELD_CLAIMS` claims, a claim taken for 80 characters."""
    group: list[QuestionClaims] = []
    held = 0
    for question in questions:
        group.append(question)
        held += sum(map(len, (*question.solver_traces, *question.every))) // 80
        if held >= HELD_CLAIMS:
            yield group
            group, held = [], 0
    if group:
        yield group


def _claims_by_text(questions: Sequence[QuestionClaims]) -> dict[str, tuple[Claim, ...]]:
    """Return the claims by text; equal texts are read once."""
    texts = {text for one in questions for text in (*one.solver_traces, *one.critiques, *one.final, *one.every)}
    return {text: claims(text) for text in texts}


def _all_traced(
    questions: Sequence[QuestionClaims],
    claims_by_text: dict[str, tuple[Claim, ...]],
    place: dict[str, int],
    vectors: Vectors,
    below: float,
) -> list[ClaimShares | str]:
    def embedded(texts: Sequence[str]) -> EmbeddedClaims:
        found = [claim for text in texts for claim in claims_by_text[text]]
        return EmbeddedClaims(claims=found, vectors=vectors[[place[claim.text] for claim in found]])

    return [
        claim_shares(
            embedded(one.solver_traces),
            embedded(one.critiques),
            embedded(one.final),
            below=below,
            everything=embedded(one.every).vectors,
        )
        for one in questions
    ]
