"""Embedding measures: claims of many questions, embedded in batches, and traced.

The encoder may be away: then these measures are undefined with a reason, and everything else is served.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Protocol

import numpy as np

from chassis.errors import EncoderUnavailable
from inference.embeddings import Embedded
from kernel.arbitration.claims import Claim, ClaimShares, EmbeddedClaims, Vectors, claims, traced
from kernel.errors import MetacogError
from kernel.values import value

# Claims that are held in memory with their vectors at a time; questions are traced in groups of about as many.
HELD_CLAIMS = 20_000


@value
class QuestionClaims:
    """Texts of one question.

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
    """A sentence encoder."""

    def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Vectors of `texts`, a batch at a time and in order."""


class Tracer:
    """Measures that rest on embeddings.

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
        """The measures of each question; a reason instead where the encoder fails.

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
        except MetacogError as away:
            found.extend([f"{away.reason}: {away.message}"] * (len(questions) - len(found)))
        except TimeoutError:
            said = f"{EncoderUnavailable.reason}: the time was over before all claims were embedded"
            found.extend([said] * (len(questions) - len(found)))
        return found

    async def _traced(self, questions: Sequence[QuestionClaims], below: float) -> list[ClaimShares | str]:
        stated = await asyncio.to_thread(_stated, questions)
        sentences = sorted({claim.text for made in stated.values() for claim in made})
        vectors = await self._embedded(sentences)
        place = {sentence: row for row, sentence in enumerate(sentences)}
        return await asyncio.to_thread(_all_traced, questions, stated, place, vectors, below)

    async def _embedded(self, sentences: Sequence[str]) -> Vectors:
        """Unit vectors of `sentences`."""
        parts: list[Vectors] = []
        async with aclosing(self._encoder.batches(sentences, timeout_s=self._batch_timeout_s)) as batches:
            async for batch in batches:
                parts.append(batch.vectors)
        vectors = np.concatenate(parts) if parts else np.zeros((0, 1))
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit


def _groups(questions: Sequence[QuestionClaims]) -> Iterator[Sequence[QuestionClaims]]:
    """Questions in groups whose texts hold about `HELD_CLAIMS` claims, a claim taken for 80 characters."""
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


def _stated(questions: Sequence[QuestionClaims]) -> dict[str, tuple[Claim, ...]]:
    """Claims by text; equal texts are read once."""
    texts = {text for told in questions for text in (*told.solver_traces, *told.critiques, *told.final, *told.every)}
    return {text: claims(text) for text in texts}


def _all_traced(
    questions: Sequence[QuestionClaims],
    stated: dict[str, tuple[Claim, ...]],
    place: dict[str, int],
    vectors: Vectors,
    below: float,
) -> list[ClaimShares | str]:
    def spoken(texts: Sequence[str]) -> EmbeddedClaims:
        made = [claim for text in texts for claim in stated[text]]
        return EmbeddedClaims(claims=made, vectors=vectors[[place[claim.text] for claim in made]])

    return [
        traced(
            spoken(told.solver_traces),
            spoken(told.critiques),
            spoken(told.final),
            below=below,
            everything=spoken(told.every).vectors,
        )
        for told in questions
    ]
