"""Measures by answers: short ones that are drawn, or the draft of System 1."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from chassis.log import logger
from inference import (
    Breaker,
    BreakerSettings,
    Call,
    CircuitOpen,
    Completion,
    CompletionSample,
    Embeddings,
    EncoderUnavailable,
    Spend,
    WorkKind,
)
from kernel.answers.untyped import untyped_answer
from kernel.errors import MetacogError
from kernel.ledger import Reservation
from kernel.msv.signals import (
    EQUAL,
    PartWeights,
    conclusion_likelihood,
    disagreement,
    likelihood,
    mean_of,
    yes_probability,
)
from kernel.seeds import derived_seed
from kernel.values import value
from services.router import prompts
from services.router.core.agreement import GroupedAnswers, grouped, merged, support
from services.router.service.assessment.measures import STAGE, MeasureResult, within_time_share
from services.router.service.assessment.subject import DraftAnswer, Subject

# Five samples of twelve tokens are within the 64 tokens that a part of an assessment may generate.
SAMPLES = 5


SAMPLE_TOKENS = 12


TEMPERATURE = 0.8


# Answers with content, below which they show nothing.
LEAST_SAMPLES = 2


# Cosines of texts with one another, in their order; None where they cannot be computed.
Similarities = Callable[[Sequence[str], Spend], Awaitable[Sequence[Sequence[float]] | None]]


class ShortAnswerModelClient(Protocol):
    """This client calls a model that answers."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of one call."""


@value
class ShortAnswers:
    """Short answers are samples, grouped by agreement, the largest group first."""

    samples: Sequence[CompletionSample]
    groups: GroupedAnswers


class ShortAnswerSampler:
    """The sampler draws short answers and groups them by meaning.

    Args:
        model_client: Client of the model that would answer.
        similarities: Computes how near short texts are in meaning, for those that words alone keep apart.
    """

    def __init__(self, model_client: ShortAnswerModelClient, similarities: Similarities | None = None) -> None:
        self._model_client = model_client
        self._similarities = similarities

    async def draw(self, subject: Subject, spend: Spend) -> ShortAnswers:
        """Return five short answers to the last turn, without those that have no content.

        Raises:
            MetacogError: When they cannot be drawn.
        """
        prompt = prompts.probe()
        call = Call(
            messages=subject.chat_with_instruction(prompt.text),
            samples=SAMPLES,
            max_tokens=SAMPLE_TOKENS,
            floor_tokens=SAMPLE_TOKENS,
            temperature=TEMPERATURE,
            logprobs=True,
            top_logprobs=1,
            seed=None if subject.seed is None else derived_seed(subject.seed, STAGE, prompt.name),
            thinking=False,
            stage=STAGE,
            work=WorkKind.ASSESS,
        )
        async with within_time_share(spend):
            drawn = (await self._model_client.complete(call, spend)).samples
        samples = [sample for sample in drawn if untyped_answer(sample.text) is not None]
        return ShortAnswers(samples=samples, groups=await self._by_meaning([sample.text for sample in samples], spend))

    async def _by_meaning(self, texts: Sequence[str], spend: Spend) -> GroupedAnswers:
        groups = await asyncio.to_thread(grouped, texts)  # two units load what converts them
        if self._similarities is None or len(groups.words) < 2:
            return groups
        cosines = await self._similarities([groups.representatives[place] for place in groups.words], spend)
        return groups if cosines is None else merged(groups, cosines, texts)


class ProbeMeasure:
    """This measure finds CE and CI by short samples: how probable the leading one is, and how far they agree."""

    def __init__(self, sampler: ShortAnswerSampler, weights: PartWeights = EQUAL) -> None:
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return CE as the mean of the leading answer's share and probability, CI as the share of pairs that differ."""
        prompt = prompts.probe()
        digests = {prompt.name: prompt.digest}
        try:
            drawn = await self._sampler.draw(subject, spend)
        except MetacogError as error:
            reason = f"{error.reason}: {error.message}"
            return MeasureResult(reasons=dict.fromkeys(("correctness", "conflict"), reason), prompt_digests=digests)
        if len(drawn.samples) < LEAST_SAMPLES:
            reasons = dict.fromkeys(
                ("correctness", "conflict"), f"{len(drawn.samples)} of {SAMPLES} short answers say anything"
            )
            return MeasureResult(
                reasons=reasons, prompt_digests=digests, samples=[sample.text for sample in drawn.samples]
            )
        parts = {"sample_agreement": drawn.groups.share, "sample_likelihood": leading_likelihood(drawn)}
        levels = {"correctness": mean_of(parts, self._weights), "conflict": disagreement(drawn.groups.sizes)}
        return MeasureResult(
            components={name: level for name, level in levels.items() if level is not None},
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=[sample.text for sample in drawn.samples],
        )


def leading_likelihood(drawn: ShortAnswers) -> float | None:
    """Return the mean probability of the samples in the largest group [0..1]; None where the backend returns none."""
    leading = [drawn.samples[index] for index in drawn.groups.members[0]]
    levels = {str(i): likelihood([t.logprob for t in s.logprobs or ()]) for i, s in enumerate(leading)}
    return mean_of(levels)


# Time that comparing a handful of words may take, inside the request's own [s].
TIMEOUT_S = 0.5


MEANING_BREAKER = BreakerSettings(failures=3, cool_down_s=10.0)


class MeaningSimilarity:
    """Similarities are cosines of short texts; none while the encoder is away, which is then not called for a while."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._breaker = Breaker("meaning", MEANING_BREAKER, time.monotonic)

    async def __call__(self, texts: Sequence[str], spend: Spend) -> Sequence[Sequence[float]] | None:
        """Return the cosine of each text with each other, in their order [-1..1]."""
        timeout_s = min(TIMEOUT_S, spend.seconds_left())
        try:
            with self._breaker.admit() as permit:
                try:
                    embedded = await self._embeddings.embed(texts, timeout_s=timeout_s)
                except EncoderUnavailable:
                    if timeout_s == TIMEOUT_S:  # less time shows nothing of the encoder
                        permit.record_failure()
                    return None
                permit.record_success()
        except CircuitOpen:
            return None
        lengths = np.linalg.norm(embedded.vectors, axis=1, keepdims=True)
        directions = embedded.vectors / np.where(lengths > 0, lengths, 1.0)
        cosines: list[list[float]] = (directions @ directions.T).tolist()
        return cosines


ALTERNATIVES = 20


CHECK_TOKENS = 1


_log = logger(__name__)


@value
class MeasureError:
    """A measure error is the reason why a step of a measure failed."""

    reason: str


class DraftMeasure:
    """This measure finds CE and CI of the System 1 answer itself.

    Args:
        model_client: Client of the model that wrote it, which checks it.
        sampler: Draws the short answers that it is compared with.
        weights: Weights of the parts inside CE.
    """

    def __init__(
        self, model_client: ShortAnswerModelClient, sampler: ShortAnswerSampler, weights: PartWeights = EQUAL
    ) -> None:
        self._model_client = model_client
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return CE as the mean of what is known of check, likelihood and support; CI as the lack of support."""
        reservation = _reserve_check(spend)
        digests = {prompt.name: prompt.digest for prompt in (prompts.probe(), prompts.check())}
        async with asyncio.TaskGroup() as group:  # the samples first: the draft takes what the envelope has left
            sampling = group.create_task(_draw(self._sampler, subject, spend))
            drafting = group.create_task(_draft(subject, spend))
        draft, drawn = drafting.result(), sampling.result()
        if reservation is not None:
            reservation.release()
        samples = [sample.text for sample in drawn.samples] if isinstance(drawn, ShortAnswers) else []
        if isinstance(draft, MeasureError):
            reasons = dict.fromkeys(("correctness", "conflict"), f"there is no draft: {draft.reason}")
            return MeasureResult(reasons=reasons, prompt_digests=digests, samples=samples)
        supported = await asyncio.to_thread(support, draft.text, samples)
        parts = {
            "check": await self._check(subject, draft, spend),
            "draft_likelihood": conclusion_likelihood(draft.logprobs or ()),
            "draft_support": supported,
        }
        levels = {
            "correctness": mean_of(parts, self._weights),
            "conflict": None if supported is None else round(1 - supported, 12),
        }
        return MeasureResult(
            components={name: level for name, level in levels.items() if level is not None},
            reasons=_reasons(drawn),
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=samples,
            draft=draft,
        )

    async def _check(self, subject: Subject, draft: DraftAnswer, spend: Spend) -> float | None:
        """Return the probability of a yes to "is that right" [0..1]; None where it cannot be measured."""
        call = Call(
            messages=subject.chat_after_answer(draft.text, prompts.check().text),
            max_tokens=CHECK_TOKENS,
            logprobs=True,
            top_logprobs=ALTERNATIVES,
            thinking=False,
            stage=STAGE,
            work=WorkKind.ASSESS,
        )
        try:
            async with within_time_share(spend):
                sample = (await self._model_client.complete(call, spend)).samples[0]
        except MetacogError as error:
            _log.info("the check of a draft failed", reason=error.reason, problem=error.message)
            return None
        first = sample.logprobs[0].top if sample.logprobs else ()
        return yes_probability((other.token, other.logprob) for other in first)


def _reserve_check(spend: Spend) -> Reservation | None:
    """Reserve room for the check, which a draft would take; None where there is none."""
    if spend.ledger.generations_left < 2 or spend.ledger.tokens_left <= CHECK_TOKENS:
        return None
    return spend.ledger.reserve(STAGE, 1, CHECK_TOKENS)


async def _draft(subject: Subject, spend: Spend) -> DraftAnswer | MeasureError:
    if subject.draft is None:
        return MeasureError(reason="this request has no use for one")
    try:
        draft = await subject.draft(spend)
    except MetacogError as error:
        return MeasureError(reason=f"{error.reason}: {error.message}")
    return draft if draft.text.strip() else MeasureError(reason="it has no text")


async def _draw(sampler: ShortAnswerSampler, subject: Subject, spend: Spend) -> ShortAnswers | MeasureError:
    try:
        return await sampler.draw(subject, spend)
    except MetacogError as error:
        return MeasureError(reason=f"{error.reason}: {error.message}")


def _reasons(drawn: ShortAnswers | MeasureError) -> Mapping[str, str]:
    conflict = (
        drawn.reason if isinstance(drawn, MeasureError) else "the short samples cannot be compared with the draft"
    )
    return {"conflict": conflict, "correctness": "the backend returns no probabilities, and nothing supports the draft"}
