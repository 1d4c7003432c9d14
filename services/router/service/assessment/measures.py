"""What one measure found, and the state that several make together."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from chassis.errors import EncoderUnavailable
from chassis.log import logger
from chassis.prompts import Prompt
from inference.config import BreakerSettings
from inference.embeddings import Embeddings, Encoder
from inference.errors import CircuitOpen, DeadlineExceeded
from inference.http.breaker import Breaker, BreakerPermit
from inference.spend import Spend
from inference.values import Call, Completion, CompletionSample, WorkKind
from kernel.conversation import Turn, transcript
from kernel.errors import MetacogError
from kernel.ledger import Ledger, Reservation
from kernel.msv import COMPONENTS, CONFLICT_PARTS, CORRECTNESS_PARTS, IMPORTANCE_PARTS, MSV, MSVKind
from kernel.msv.affect import AffectAnalyser
from kernel.msv.experience import ExperienceMatch, ExperienceWeights, SimilarityCalibration, experience_match
from kernel.msv.ratings import ORDER, RATING_MAX_TOKENS, SCALE, rating_schema
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
from services.router.core.agreement import GroupedAnswers, grouped, key_of, merged, support
from services.router.service.assessment.subject import DraftAnswer, Subject
from services.router.service.knowledge.values import KnowledgeStore

STAGE = "assess"
# Share of the time that is left which a part of an assessment may take: the answer needs the rest.
TIME_SHARE = 0.25
NOT_MEASURED = "this assessor does not measure it"


@value
class MeasureResult:
    """What one measure found.

    Attributes:
        components: Value by component of the state [0..1].
        reasons: Why a component that this measure is for is unknown.
        parts: Finer measurements by name [0..1].
        prompt_digests: Digest of each prompt template used, by its name.
        samples: Short answers that were drawn.
        drafted: The System 1 answer, if one was made.
    """

    components: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    drafted: DraftAnswer | None = None


class Measure(Protocol):
    """One source of evidence on a query."""

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """What it finds inside `spend`; never refuses: what cannot be measured is unknown, with its reason."""


@asynccontextmanager
async def in_part_of_the_time(spend: Spend) -> AsyncIterator[None]:
    """Bound what is inside to its share of the time that is left.

    Raises:
        DeadlineExceeded: When it takes longer; calls that it waited for are cancelled.
    """
    share_s = spend.seconds_left() * TIME_SHARE
    try:
        async with asyncio.timeout(share_s):
            yield
    except TimeoutError as late:
        raise DeadlineExceeded(f"assessing had {share_s:.1f} s, its share of the request's time") from late


def state_of(readings: Sequence[MeasureResult], *, kind: MSVKind) -> MSV:
    """The state that `readings` make together; where two know a component, the earlier one is taken.

    Example:
        >>> told = MeasureResult(components={"correctness": 0.9, "importance": 0.3})
        >>> shown = MeasureResult(components={"correctness": 0.4}, reasons={"conflict": "one sample only"})
        >>> state = state_of([shown, told], kind=MSVKind.PROSPECTIVE)
        >>> state.correctness, state.importance, state.unknown_reasons["conflict"]
        (0.4, 0.3, 'one sample only')
    """
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    parts: dict[str, float] = {}
    for reading in readings:
        values = {**reading.components, **values}
        reasons = {**reading.reasons, **reasons}
        parts = {**reading.parts, **parts}
    unknown = {name: reasons.get(name, NOT_MEASURED) for name in COMPONENTS if name not in values}
    return MSV(**values, kind=kind, unknown_reasons=unknown, parts=parts)


EMOTIONAL, EXPERIENCE = "emotional_response", "experience"


class AffectMeasure:
    """ER: affect of what the user said, in every turn of the conversation."""

    def __init__(self, analyse: AffectAnalyser) -> None:
        self._analyse = analyse

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """The affect, and its parts by emotion."""
        turns = [turn for turn in subject.messages if turn.role == "user"] or subject.messages[-1:]
        found = dict(self._analyse("\n".join(turn.content for turn in turns)))
        return MeasureResult(components={EMOTIONAL: found.pop("intensity")}, parts=found)


class Matcher(Protocol):
    """Compares a conversation with what is stored."""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> ExperienceMatch:
        """How well it is known; never refuses."""


class ExperienceMeasure:
    """EM: similarity to the knowledge base and to verified answers."""

    def __init__(self, match: Matcher) -> None:
        self._match = match

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """The experience, or why it is unknown."""
        found = await self._match(subject.messages, subject.key_name, spend)
        if found.value is None:
            return MeasureResult(reasons={EXPERIENCE: found.reason}, parts=found.parts)
        return MeasureResult(components={EXPERIENCE: found.value}, parts=found.parts)


# Which of the numbers make which component, in the order in which readers look for them.
PARTS: Mapping[str, tuple[str, ...]] = {
    "correctness": CORRECTNESS_PARTS,
    "conflict": CONFLICT_PARTS,
    "importance": IMPORTANCE_PARTS,
}


class RatingModelClient(Protocol):
    """A model that rates."""

    async def rate(self, call: Call, spend: Spend, order: Sequence[str]) -> Mapping[str, float]:
        """The numbers of one structured rating, by the names of `order`."""


class RatingMeasure:
    """CE, CI and PI in words, or PI alone.

    Args:
        voice: The model.
        order: The numbers it is asked for, in this order.
        ask: Its prompt.
        weights: Weights of the numbers inside their component.
    """

    def __init__(
        self, voice: RatingModelClient, order: tuple[str, ...], ask: Callable[..., Prompt], weights: PartWeights = EQUAL
    ) -> None:
        self._voice = voice
        self._order = order
        self._ask = ask
        self._weights = weights
        self._components = [name for name, parts in PARTS.items() if set(parts) & set(order)]

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """The components that the numbers make; each is the mean of its parts."""
        prompt = self._ask(conversation=transcript(subject.messages))
        digests = {prompt.name: prompt.digest}
        try:
            async with in_part_of_the_time(spend):
                rated = await self._voice.rate(self._call(prompt, subject.seed), spend, self._order)
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
            return MeasureResult(reasons=dict.fromkeys(self._components, reason), prompt_digests=digests)
        parts = {name: number / SCALE for name, number in rated.items()}
        found = {name: self._mean(parts, PARTS[name]) for name in self._components}
        known = {name: level for name, level in found.items() if level is not None}
        return MeasureResult(components=known, parts=parts, prompt_digests=digests)

    def _mean(self, parts: Mapping[str, float], names: tuple[str, ...]) -> float | None:
        return mean_of({name: parts.get(name) for name in names}, self._weights)

    def _call(self, prompt: Prompt, seed: int | None) -> Call:
        sampling: dict[str, Any] = {} if seed is None else {"seed": derived_seed(seed, STAGE, prompt.name)}
        return Call(
            messages=[{"role": "user", "content": prompt.text}],
            max_tokens=RATING_MAX_TOKENS,
            floor_tokens=RATING_MAX_TOKENS,
            schema=rating_schema(self._order),
            thinking=False,
            stage=STAGE,
            work=WorkKind.ASSESS,
            **sampling,
        )


def verbalized(voice: RatingModelClient, weights: PartWeights = EQUAL) -> RatingMeasure:
    """The rating of the answer that the model would give, and of the request."""
    return RatingMeasure(voice, ORDER, prompts.rating, weights)


def importance(voice: RatingModelClient, weights: PartWeights = EQUAL) -> RatingMeasure:
    """The rating of the request alone."""
    return RatingMeasure(voice, IMPORTANCE_PARTS, prompts.importance, weights)


# Five samples of twelve tokens are within the 64 tokens that a part of an assessment may generate.
SAMPLES = 5
SAMPLE_TOKENS = 12
TEMPERATURE = 0.8
# Answers that say something, below which nothing can be told from them.
ENOUGH = 2

# Cosines of texts with one another, in their order; None where they cannot be had.
Similarities = Callable[[Sequence[str], Spend], Awaitable[Sequence[Sequence[float]] | None]]


class ShortAnswerModelClient(Protocol):
    """A model that answers."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of one call."""


@value
class ShortAnswers:
    """Short samples that agree with one another, group by group, the largest first."""

    samples: Sequence[CompletionSample]
    groups: GroupedAnswers


class ShortAnswerSampler:
    """Draws short answers and groups them by meaning.

    Args:
        voice: The model that would answer.
        similarities: Tells how near short texts are in meaning, for those that words alone keep apart.
    """

    def __init__(self, voice: ShortAnswerModelClient, similarities: Similarities | None = None) -> None:
        self._voice = voice
        self._similarities = similarities

    async def drawn(self, subject: Subject, spend: Spend) -> ShortAnswers:
        """Five short answers to the last turn, without those that say nothing.

        Raises:
            MetacogError: When they cannot be had.
        """
        prompt = prompts.probe()
        call = Call(
            messages=subject.asked(prompt.text),
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
        async with in_part_of_the_time(spend):
            made = (await self._voice.complete(call, spend)).samples
        samples = [sample for sample in made if key_of(sample.text) is not None]
        return ShortAnswers(samples=samples, groups=await self._by_meaning([sample.text for sample in samples], spend))

    async def _by_meaning(self, texts: Sequence[str], spend: Spend) -> GroupedAnswers:
        groups = grouped(texts)
        if self._similarities is None or len(groups.words) < 2:
            return groups
        cosines = await self._similarities([groups.representatives[place] for place in groups.words], spend)
        return groups if cosines is None else merged(groups, cosines, texts)


class ProbeMeasure:
    """CE and CI of short samples: how probable the leading one is, and how far they agree."""

    def __init__(self, sampler: ShortAnswerSampler, weights: PartWeights = EQUAL) -> None:
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """CE as the mean of the leading answer's share and probability, CI as the share of pairs that differ."""
        prompt = prompts.probe()
        digests = {prompt.name: prompt.digest}
        try:
            drawn = await self._sampler.drawn(subject, spend)
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
            return MeasureResult(reasons=dict.fromkeys(("correctness", "conflict"), reason), prompt_digests=digests)
        if len(drawn.samples) < ENOUGH:
            reasons = dict.fromkeys(
                ("correctness", "conflict"), f"{len(drawn.samples)} of {SAMPLES} short answers say anything"
            )
            return MeasureResult(
                reasons=reasons, prompt_digests=digests, samples=[sample.text for sample in drawn.samples]
            )
        parts = {"sample_agreement": drawn.groups.share, "sample_likelihood": leading_likelihood(drawn)}
        found = {"correctness": mean_of(parts, self._weights), "conflict": disagreement(drawn.groups.sizes)}
        return MeasureResult(
            components={name: level for name, level in found.items() if level is not None},
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=[sample.text for sample in drawn.samples],
        )


def leading_likelihood(drawn: ShortAnswers) -> float | None:
    """Mean probability of the samples in the largest group [0..1]; None where the backend tells none."""
    leading = [drawn.samples[index] for index in drawn.groups.members[0]]
    levels = {str(i): likelihood([t.logprob for t in s.logprobs or ()]) for i, s in enumerate(leading)}
    return mean_of(levels)


# Time that comparing a handful of words may take, inside the request's own [s].
TIMEOUT_S = 0.5
LEFT_ALONE = BreakerSettings(failures=3, cool_down_s=10.0)


class MeaningSimilarity:
    """Cosines of short texts; none while the encoder is away, which is then left alone for a while."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._breaker = Breaker("meaning", LEFT_ALONE, time.monotonic)

    async def __call__(self, texts: Sequence[str], spend: Spend) -> Sequence[Sequence[float]] | None:
        """Cosine of each text with each other, in their order [-1..1]."""
        try:
            with self._breaker.admitted() as admission:
                try:
                    embedded = await self._embeddings.embed(texts, timeout_s=min(TIMEOUT_S, spend.seconds_left()))
                except EncoderUnavailable:
                    admission.failed()
                    return None
                admission.worked()
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
    """Why a step brought nothing."""

    reason: str


class DraftMeasure:
    """CE and CI of the System 1 answer itself.

    Args:
        voice: The model that made it, which checks it.
        sampler: Draws the short answers that it is compared with.
        weights: Weights of the parts inside CE.
    """

    def __init__(
        self, voice: ShortAnswerModelClient, sampler: ShortAnswerSampler, weights: PartWeights = EQUAL
    ) -> None:
        self._voice = voice
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """CE as the mean of what is known of check, likelihood and support; CI as the lack of support."""
        kept = _kept_for_the_check(spend)
        digests = {prompt.name: prompt.digest for prompt in (prompts.probe(), prompts.check())}
        async with asyncio.TaskGroup() as group:  # the samples first: the draft takes what the envelope has left
            drawing = group.create_task(_drawn(self._sampler, subject, spend))
            drafting = group.create_task(_drafted(subject, spend))
        drafted, drawn = drafting.result(), drawing.result()
        if kept is not None:
            kept.release()
        samples = [sample.text for sample in drawn.samples] if isinstance(drawn, ShortAnswers) else []
        if isinstance(drafted, MeasureError):
            reasons = dict.fromkeys(("correctness", "conflict"), f"there is no draft: {drafted.reason}")
            return MeasureResult(reasons=reasons, prompt_digests=digests, samples=samples)
        supported = support(drafted.text, samples)
        parts = {
            "check": await self._checked(subject, drafted, spend),
            "draft_likelihood": conclusion_likelihood(drafted.logprobs or ()),
            "draft_support": supported,
        }
        found = {
            "correctness": mean_of(parts, self._weights),
            "conflict": None if supported is None else round(1 - supported, 12),
        }
        return MeasureResult(
            components={name: level for name, level in found.items() if level is not None},
            reasons=_reasons(drawn),
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=samples,
            drafted=drafted,
        )

    async def _checked(self, subject: Subject, drafted: DraftAnswer, spend: Spend) -> float | None:
        """Probability of a yes to "is that right" [0..1]; None where it cannot be had."""
        call = Call(
            messages=subject.answered(drafted.text, prompts.check().text),
            max_tokens=CHECK_TOKENS,
            logprobs=True,
            top_logprobs=ALTERNATIVES,
            thinking=False,
            stage=STAGE,
            work=WorkKind.ASSESS,
        )
        try:
            async with in_part_of_the_time(spend):
                sample = (await self._voice.complete(call, spend)).samples[0]
        except MetacogError as refusal:
            _log.info("the check of a draft was refused", reason=refusal.reason, problem=refusal.message)
            return None
        first = sample.logprobs[0].top if sample.logprobs else ()
        return yes_probability((other.token, other.logprob) for other in first)


def _kept_for_the_check(spend: Spend) -> Reservation | None:
    """Room for the check, which a draft would take; None where there is none."""
    if spend.ledger.generations_left < 2 or spend.ledger.tokens_left <= CHECK_TOKENS:
        return None
    return spend.ledger.reserve(STAGE, 1, CHECK_TOKENS)


async def _drafted(subject: Subject, spend: Spend) -> DraftAnswer | MeasureError:
    if subject.draft is None:
        return MeasureError(reason="nobody makes one here")
    try:
        drafted = await subject.draft(spend)
    except MetacogError as refusal:
        return MeasureError(reason=f"{refusal.reason}: {refusal.message}")
    return drafted if drafted.text.strip() else MeasureError(reason="it has no text")


async def _drawn(sampler: ShortAnswerSampler, subject: Subject, spend: Spend) -> ShortAnswers | MeasureError:
    try:
        return await sampler.drawn(subject, spend)
    except MetacogError as refusal:
        return MeasureError(reason=f"{refusal.reason}: {refusal.message}")


def _reasons(drawn: ShortAnswers | MeasureError) -> Mapping[str, str]:
    why = drawn.reason if isinstance(drawn, MeasureError) else "the short samples cannot be compared with the draft"
    return {"conflict": why, "correctness": "the backend tells no probabilities, and nothing supports the draft"}


# An envelope that would leave an answer less than this is not spent on an assessment [tokens].
LEAST_ANSWER_TOKENS = 64


@value
class Assessment:
    """A state, and what measured it; without a name it came ready, or there is none."""

    msv: MSV | None
    assessor: str
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    drafted: DraftAnswer | None = None


class Assessor(Protocol):
    """Measures the state of a conversation's last turn."""

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """State, inside `spend`; never refuses."""

    def fits(self, ledger: Ledger) -> bool:
        """Whether the envelope carries the assessment and still an answer."""


class CompositeAssessor:
    """An assessor made of measures that all run at once; where two know a component, the earlier one counts.

    Args:
        name: Its name.
        measures: What it measures by.
        generations: Samples that it draws at most [count].
        tokens: Tokens that these may have in all [count].
    """

    def __init__(self, name: str, measures: Sequence[Measure], *, generations: int, tokens: int) -> None:
        self.name = name
        self._measures = measures
        self._generations = generations
        self._tokens = tokens

    def fits(self, ledger: Ledger) -> bool:
        """Whether the envelope carries the assessment and still an answer of a few words."""
        return ledger.generations_left > self._generations and ledger.tokens_left >= self._tokens + LEAST_ANSWER_TOKENS

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """The state that the measures make together."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_read(measure, subject, spend)) for measure in self._measures]
        readings = [task.result() for task in tasks]
        drafted = next((reading.drafted for reading in readings if reading.drafted), None)
        kind = MSVKind.PROSPECTIVE if drafted is None else MSVKind.RETROSPECTIVE
        return Assessment(
            msv=state_of(readings, kind=kind),
            assessor=self.name,
            prompt_digests={name: digest for reading in readings for name, digest in reading.prompt_digests.items()},
            samples=[sample for reading in readings for sample in reading.samples],
            drafted=drafted,
        )


async def _read(measure: Measure, subject: Subject, spend: Spend) -> MeasureResult:
    return await measure(subject, spend)


LEFT_ALONE = BreakerSettings(failures=5, cool_down_s=5.0)


@value
class ExperienceMatching:
    """How EM is made.

    Attributes:
        weights: What documents and experience count.
        calibration: What a cosine is worth.
        most: Text of a conversation that is looked up, at most [characters, >= 1].
        timeout_s: Time that looking up may take, inside the request's own [s, > 0].
    """

    weights: ExperienceWeights = ExperienceWeights()
    calibration: SimilarityCalibration = SimilarityCalibration()
    most: int = 800
    timeout_s: float = 1.0


class ExperienceMatcher:
    """EM by one call of the encoder and one statement; never a model call.

    An encoder or a database that keeps failing is left alone for a while, so that no request waits for it.
    """

    def __init__(self, embeddings: Embeddings, library: KnowledgeStore, matching: ExperienceMatching) -> None:
        self._embeddings = embeddings
        self._library = library
        self._matching = matching
        self._breaker = Breaker("experience", LEFT_ALONE, time.monotonic)
        self._last_failure = ""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> ExperienceMatch:
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

    async def _tried(
        self, texts: Sequence[str], key_name: str, timeout_s: float, admission: BreakerPermit
    ) -> ExperienceMatch:
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

    async def _matched(self, texts: Sequence[str], key_name: str, timeout_s: float) -> ExperienceMatch:
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


def _unknown(reason: str) -> ExperienceMatch:
    return ExperienceMatch(value=None, reason=reason, parts={})


def matched_texts(turns: Sequence[str], *, most: int) -> Sequence[str]:
    r"""The texts by which a conversation is looked up: its last turn, and its last turns together.

    The last turn alone finds what is asked again; a follow-up means something only with what came before it.

    Args:
        turns: Contents, oldest first.
        most: Length of a text at most [characters, >= 1]; the end is kept, as it is nearest to what is asked.

    Example:
        >>> matched_texts(["Where is Oslo?", "In Norway.", "And Bergen?"], most=40)
        ('And Bergen?', 'Where is Oslo?\n\nIn Norway.\n\nAnd Bergen?')
    """
    said = [turn.strip() for turn in turns if turn.strip()]
    together = "\n\n".join(said)[-most:].strip()
    last = said[-1][-most:].strip() if said else ""
    return tuple(dict.fromkeys(text for text in (last, together) if text))
