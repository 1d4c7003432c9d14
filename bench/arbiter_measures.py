"""This benchmark times the measures of samples: 10,000 questions of 62 samples, with and without embeddings.

    python -m bench arbiter_measures

The first rows measure everything but the embedding measures, through the same function that both APIs call; answers
are spelled in several ways, and some are invalid. The last row traces claims with vectors from nowhere, so that it
shows what tracing costs beside the encoder.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence

import numpy as np

from inference import Embedded, Encoder
from kernel.answers import AnswerType
from sandbox.mathematics import InProcessCalculator
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measurement import MeasureLimits, measure
from services.arbiter.service.values import MeasureRequest, SampledQuestion

QUESTIONS = 10_000
TRACED = 500
SOLVER_SAMPLES, ARBITRATION_SAMPLES = 10, 52
WIDTH = 384
SENTENCE = "the boxes hold apples and pears so there are many of them in each row or none is left over"
WORDS = SENTENCE.split()


class Noise:
    """An encoder without cost: a random vector for each text."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Yield all vectors at once."""
        vectors = self._rng.normal(size=(len(texts), WIDTH)).astype(np.float32)
        yield Embedded(encoder=Encoder(name="noise", dimension=WIDTH), vectors=vectors)


def questions(rng: np.random.Generator, count: int, *, spelled: bool, texts: bool = False) -> list[SampledQuestion]:
    """Questions with answers of a few values each; one in fifty is none at all."""
    sampled = []
    for place in range(count):
        right = int(rng.integers(2, 5_000))
        drawn = rng.choice(4, SOLVER_SAMPLES + ARBITRATION_SAMPLES, p=rng.dirichlet([2, 0.5, 0.5, 0.3]))
        invalid = rng.random(len(drawn)) < 0.02
        answers = [
            "no idea" if bad else _written(right + int(k), rng, spelled) for k, bad in zip(drawn, invalid, strict=True)
        ]
        sampled.append(
            SampledQuestion(
                id=str(place),
                answer_type=AnswerType.NUMBER,
                solver_answers=answers[:SOLVER_SAMPLES],
                solver_indices=[0] * 5 + [1] * 5,
                arbiter_answers=answers[SOLVER_SAMPLES:],
                truth=str(right),
                solver_traces=[_text(rng) for _ in range(2)] if texts else (),
                critiques=[_text(rng) for _ in range(2)] if texts else (),
                arbiter_texts=[_text(rng) for _ in range(ARBITRATION_SAMPLES)] if texts else (),
            )
        )
    return sampled


def _written(number: int, rng: np.random.Generator, spelled: bool) -> str:
    forms = (str(number), f"${number:,}", f"{number}.0", f"{number} apples")
    return forms[int(rng.integers(len(forms)))] if spelled else forms[0]


def _text(rng: np.random.Generator) -> str:
    sentences = (" ".join(rng.choice(WORDS, 9)) + f" {rng.integers(99)}." for _ in range(4))
    return " ".join(sentence.capitalize() for sentence in sentences)


def timed(asked: list[SampledQuestion], tracer: Tracer, *, traced: bool) -> tuple[float, float]:
    """Time to measure `asked`, and time on the processor [s]; on a busy machine the second is more reliable."""
    request = MeasureRequest(batch=asked, embedding_measures=traced)
    began, worked = time.perf_counter(), time.process_time()
    asyncio.run(measure(request, tracer=tracer, most=MeasureLimits(), calculator=InProcessCalculator()))
    return time.perf_counter() - began, time.process_time() - worked


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(7)
    tracer = Tracer(Noise(rng), batch_timeout_s=60)
    samples = SOLVER_SAMPLES + ARBITRATION_SAMPLES
    sys.stdout.write(
        "| measured | questions | samples each | time [s] | CPU [s] | CPU per question [ms] |\n"
        "|---|---|---|---|---|---|\n"
    )
    for name, asked, traced in (
        ("canonical answers", questions(rng, QUESTIONS, spelled=False), False),
        ("answers in four spellings", questions(rng, QUESTIONS, spelled=True), False),
        ("with embedding measures", questions(rng, TRACED, spelled=False, texts=True), True),
    ):
        took, worked = timed(asked, tracer, traced=traced)
        each = worked / len(asked) * 1000
        sys.stdout.write(f"| {name} | {len(asked)} | {samples} | {took:.2f} | {worked:.2f} | {each:.2f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
