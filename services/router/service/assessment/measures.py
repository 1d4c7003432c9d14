"""Measures find components of the state of a question; an assessor combines several into a state."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import Any, Protocol

import numpy as np

from chassis.log import logger
from chassis.prompts import Prompt, reordered
from inference import (
    Breaker,
    BreakerPermit,
    BreakerSettings,
    Call,
    CallInOrder,
    CircuitOpen,
    Completion,
    CompletionSample,
    DeadlineExceeded,
    Embeddings,
    Encoder,
    EncoderUnavailable,
    Spend,
    WorkKind,
)
from kernel.answers.untyped import untyped_answer
from kernel.conversation import Turn, latest_texts, transcript, user_text
from kernel.errors import MetacogError
from kernel.ledger import Ledger, Reservation
from kernel.msv import COMPONENTS, CONFLICT_PARTS, CORRECTNESS_PARTS, IMPORTANCE_PARTS, MSV, MSVKind
from kernel.msv.affect import AffectAnalyser
from kernel.msv.experience import (
    DEFAULT_CALIBRATION,
    DEFAULT_WEIGHTS,
    ExperienceMatch,
    ExperienceWeights,
    SimilarityCalibration,
    experience_match,
)
from kernel.msv.ratings import ORDER, RATING_MAX_TOKENS, SCALE, places_of, rating_schema
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
from services.router.service.assessment.subject import DraftAnswer, Subject
from services.router.service.knowledge.values import KnowledgeStore

STAGE = "assess"
# Share of the time that is left which a part of an assessment may take: the answer needs the rest.
TIME_SHARE = 0.25
NOT_MEASURED = "this assessor does not measure it"


@value
class MeasureResult:
    """A measure result is what one measure has found.

    Attributes:
        components: Value by component of the state [0..1].
        reasons: Why a component that this measure is for is unknown.
        parts: Finer measurements by name [0..1].
        prompt_digests: Digest of each prompt template used, by its name.
        samples: Short answers that were drawn.
        draft: The System 1 answer, if one was written.
    """

    components: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    draft: DraftAnswer | None = None


class Measure(Protocol):
    """A measure is one source of evidence on a question."""

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return what it finds inside `spend`; never raises: what cannot be measured is unknown, with its reason."""


@asynccontextmanager
async def within_time_share(spend: Spend) -> AsyncIterator[None]:
    """Bound the block to its share of the time that is left.

    Raises:
        DeadlineExceeded: When it takes longer; calls that it waits for are cancelled.
    """
    share_s = spend.seconds_left() * TIME_SHARE
    try:
        async with asyncio.timeout(share_s):
            yield
    except TimeoutError as error:
        raise DeadlineExceeded(f"assessing had {share_s:.1f} s, its share of the request's time") from error


def state_of(results: Sequence[MeasureResult], *, kind: MSVKind) -> MSV:
    """Return the state that `results` give together; where two know a component, the earlier one is taken.

    Example:
        >>> rated = MeasureResult(components={"correctness": 0.9, "importance": 0.3})
        >>> sampled = MeasureResult(components={"correctness": 0.4}, reasons={"conflict": "one sample only"})
        >>> state = state_of([sampled, rated], kind=MSVKind.PROSPECTIVE)
        >>> state.correctness, state.importance, state.unknown_reasons["conflict"]
        (0.4, 0.3, 'one sample only')
    """
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    parts: dict[str, float] = {}
    for result in results:
        values = {**result.components, **values}
        reasons = {**result.reasons, **reasons}
        parts = {**result.parts, **parts}
    unknown = {name: reasons.get(name, NOT_MEASURED) for name in COMPONENTS if name not in values}
    return MSV(**values, kind=kind, unknown_reasons=unknown, parts=parts)


EMOTIONAL, EXPERIENCE = "emotional_response", "experience"


class AffectMeasure:
    """This measure finds ER: affect of what the user wrote, in every turn of the conversation."""

    def __init__(self, analyse: AffectAnalyser) -> None:
        self._analyse = analyse

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return the affect, and its parts by emotion."""
        parts = dict(self._analyse(user_text(subject.messages)))
        return MeasureResult(components={EMOTIONAL: parts.pop("intensity")}, parts=parts)


class Matcher(Protocol):
    """A matcher compares a conversation with what is stored."""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> ExperienceMatch:
        """Return how well it is known; never raises."""


class ExperienceMeasure:
    """This measure finds EM: similarity to the knowledge base and to verified answers."""

    def __init__(self, match: Matcher) -> None:
        self._match = match

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return the experience, or why it is unknown."""
        match = await self._match(subject.messages, subject.key_name, spend)
        if match.value is None:
            return MeasureResult(reasons={EXPERIENCE: match.reason}, parts=match.parts)
        return MeasureResult(components={EXPERIENCE: match.value}, parts=match.parts)


# Numbers of a rating by the component that they give, in the order in which readers look for them.
PARTS: Mapping[str, tuple[str, ...]] = {
    "correctness": CORRECTNESS_PARTS,
    "conflict": CONFLICT_PARTS,
    "importance": IMPORTANCE_PARTS,
}


class RatingModelClient(Protocol):
    """This client calls a model that rates."""

    async def rate(self, build: CallInOrder, spend: Spend, order: Sequence[str]) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""


class RatingMeasure:
    """This measure finds CE, CI and PI as the model rates them, or PI alone.

    Args:
        model_client: Client of the model.
        order: The numbers it is asked for, in this order.
        build_prompt: Renders its prompt.
        weights: Weights of the numbers inside their component.
        max_tokens: Tokens of one rating [count]; a rating that counts its places is asked for twice.
    """

    def __init__(
        self,
        model_client: RatingModelClient,
        order: tuple[str, ...],
        build_prompt: Callable[..., Prompt],
        weights: PartWeights = EQUAL,
        *,
        max_tokens: int = RATING_MAX_TOKENS,
    ) -> None:
        self._model_client = model_client
        self._order = order
        self._build_prompt = build_prompt
        self._weights = weights
        self._max_tokens = max_tokens
        self._components = [name for name, parts in PARTS.items() if set(parts) & set(order)]

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return the components that the numbers give; each is the mean of its parts."""
        prompt = self._build_prompt(conversation=transcript(subject.messages))
        digests = {prompt.name: prompt.digest}
        try:
            async with within_time_share(spend):
                build = partial(self._call, prompt, subject.seed)
                rated = await self._model_client.rate(build, spend, self._order)
        except MetacogError as error:
            reason = f"{error.reason}: {error.message}"
            return MeasureResult(reasons=dict.fromkeys(self._components, reason), prompt_digests=digests)
        parts = {name: number / SCALE for name, number in rated.items()}
        means = {name: self._mean(parts, PARTS[name]) for name in self._components}
        known = {name: level for name, level in means.items() if level is not None}
        return MeasureResult(components=known, parts=parts, prompt_digests=digests)

    def _mean(self, parts: Mapping[str, float], names: tuple[str, ...]) -> float | None:
        return mean_of({name: parts.get(name) for name in names}, self._weights)

    def _call(self, prompt: Prompt, seed: int | None, order: Sequence[str]) -> Call:
        sampling: dict[str, Any] = {} if seed is None else {"seed": derived_seed(seed, STAGE, prompt.name)}
        return Call(
            messages=[{"role": "user", "content": reordered(prompt, places_of(order, self._order)).text}],
            max_tokens=self._max_tokens,
            floor_tokens=self._max_tokens,
            schema=rating_schema(self._order),
            thinking=False,
            stage=STAGE,
            work=WorkKind.ASSESS,
            **sampling,
        )


def rating_measure(model_client: RatingModelClient, weights: PartWeights = EQUAL) -> RatingMeasure:
    """Return the measure that has the model rate the answer that it would give, and the request."""
    return RatingMeasure(model_client, ORDER, prompts.rating, weights)


def importance_measure(
    model_client: RatingModelClient, weights: PartWeights = EQUAL, *, max_tokens: int = RATING_MAX_TOKENS
) -> RatingMeasure:
    """Return the measure that has the model rate the request alone."""
    return RatingMeasure(model_client, IMPORTANCE_PARTS, prompts.importance, weights, max_tokens=max_tokens)


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


# An envelope that would leave an answer less than this is not spent on an assessment [tokens].
LEAST_ANSWER_TOKENS = 64


@value
class Assessment:
    """An assessment is a state with the assessor that measured it; without a name it was given, or there is none."""

    msv: MSV | None
    assessor: str
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    draft: DraftAnswer | None = None


class Assessor(Protocol):
    """An assessor measures the state of a conversation's last turn.

    Attributes:
        calls_model: Whether it calls a model.
        generations: Samples that it draws at most [count].
        tokens: Tokens that these may have in all [count].
    """

    calls_model: bool
    generations: int
    tokens: int

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """Return the state, measured inside `spend`; never raises."""

    def fits(self, ledger: Ledger) -> bool:
        """Return whether the envelope carries the assessment and still an answer."""


class CompositeAssessor:
    """A composite assessor runs several measures at once; where two know a component, the earlier one counts.

    Args:
        name: Its name.
        measures: Its measures.
        generations: Samples that it draws at most [count].
        tokens: Tokens that these may have in all [count].

    Attributes:
        calls_model: Whether it calls a model.
        generations: As given.
        tokens: As given.
    """

    def __init__(self, name: str, measures: Sequence[Measure], *, generations: int, tokens: int) -> None:
        self.name = name
        self.calls_model = generations > 0
        self._measures = measures
        self.generations = generations
        self.tokens = tokens

    def fits(self, ledger: Ledger) -> bool:
        """Return whether the envelope carries the assessment and still an answer of a few words."""
        return ledger.generations_left > self.generations and ledger.tokens_left >= self.tokens + LEAST_ANSWER_TOKENS

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """Return the state that the measures give together."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_measure(measure, subject, spend)) for measure in self._measures]
        results = [task.result() for task in tasks]
        draft = next((result.draft for result in results if result.draft), None)
        kind = MSVKind.PROSPECTIVE if draft is None else MSVKind.RETROSPECTIVE
        return Assessment(
            msv=state_of(results, kind=kind),
            assessor=self.name,
            prompt_digests={name: digest for result in results for name, digest in result.prompt_digests.items()},
            samples=[sample for result in results for sample in result.samples],
            draft=draft,
        )


async def _measure(measure: Measure, subject: Subject, spend: Spend) -> MeasureResult:
    return await measure(subject, spend)


EXPERIENCE_BREAKER = BreakerSettings(failures=5, cool_down_s=5.0)


@value
class ExperienceMatching:
    """These options say how EM is measured.

    Attributes:
        weights: What documents and experience count.
        calibration: What a cosine is worth.
        most: Text of a conversation that is looked up, at most [characters, >= 1].
        timeout_s: Time that looking up may take, inside the request's own [s, > 0].
        covers: Whether what is stored covers the questions of the deployment, so that nothing near means not known.
    """

    weights: ExperienceWeights = DEFAULT_WEIGHTS
    calibration: SimilarityCalibration = DEFAULT_CALIBRATION
    covers: bool = False
    most: int = 800
    timeout_s: float = 1.0


class ExperienceMatcher:
    """This matcher finds EM by one call of the encoder and one statement; never by a model call.

    An encoder or a database that keeps failing is not called for a while, so that no request waits for it.
    """

    def __init__(self, embeddings: Embeddings, store: KnowledgeStore, matching: ExperienceMatching) -> None:
        self._embeddings = embeddings
        self._store = store
        self._matching = matching
        self._breaker = Breaker("experience", EXPERIENCE_BREAKER, time.monotonic)
        self._last_failure = ""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> ExperienceMatch:
        """Return EM of `messages` by what the key of that name may see; never raises."""
        timeout_s = min(spend.seconds_left(), self._matching.timeout_s)
        texts = latest_texts(messages, longest=self._matching.most)
        if not texts:
            return _unknown("there is no text to look up")
        try:
            with self._breaker.admit() as permit:
                return await self._attempt(texts, key_name, timeout_s, permit)
        except CircuitOpen:
            return _unknown(f"{self._last_failure} (tried again in some seconds)")

    async def _attempt(
        self, texts: Sequence[str], key_name: str, timeout_s: float, permit: BreakerPermit
    ) -> ExperienceMatch:
        try:
            async with asyncio.timeout(timeout_s):
                match = await self._lookup(texts, key_name, timeout_s)
        except MetacogError as error:
            self._last_failure = f"{error.reason}: {error.message}"
        except TimeoutError:
            self._last_failure = f"looking it up took more than {timeout_s:.3g} s"
        else:
            permit.record_success()
            return match
        if timeout_s == self._matching.timeout_s:  # less time shows nothing of the encoder
            permit.record_failure()
        return _unknown(self._last_failure)

    async def _lookup(self, texts: Sequence[str], key_name: str, timeout_s: float) -> ExperienceMatch:
        query = await self._embeddings.embed(texts, timeout_s=timeout_s)
        measured_on = self._matching.calibration.encoder
        if query.encoder.name != measured_on:
            return _unknown(
                f"similarities are calibrated for the encoder {measured_on} and {query.encoder.name} is in use; "
                "set METACOG_ROUTER_SIMILARITY_ENCODER, _FLOOR and _CEILING to what `python -m bench similarity` prints"
            )
        cosines = await self._store.nearest(query, key_name=key_name)
        if not any(cosine is not None for cosine in cosines.values()):
            return _unknown(await self._no_match_reason(query.encoder, key_name))
        return self._match_of(cosines)

    def _match_of(self, cosines: Mapping[str, float | None]) -> ExperienceMatch:
        matching = self._matching
        return experience_match(
            cosines, weights=matching.weights, calibration=matching.calibration, covers=matching.covers
        )

    async def _no_match_reason(self, encoder: Encoder, key_name: str) -> str:
        others = [name for name in await self._store.encoders(key_name=key_name) if name != encoder.name]
        if not others:
            return self._match_of({}).reason
        return f"nothing is stored yet for the encoder {encoder.name}; what is stored is of {', '.join(others)}"


def _unknown(reason: str) -> ExperienceMatch:
    return ExperienceMatch(value=None, reason=reason, parts={})
