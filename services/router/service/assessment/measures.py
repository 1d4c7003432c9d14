"""Measures find components of the state of a question: emotional response, experience, and what a model rates."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import Any, Protocol

from chassis.prompts import Prompt, reordered
from inference import (
    Call,
    CallInOrder,
    DeadlineExceeded,
    Spend,
    WorkKind,
)
from kernel.conversation import Turn, transcript, user_text
from kernel.errors import MetacogError
from kernel.msv import COMPONENTS, CONFLICT_PARTS, CORRECTNESS_PARTS, IMPORTANCE_PARTS, MSV, MSVKind
from kernel.msv.affect import AffectAnalyser
from kernel.msv.experience import (
    ExperienceMatch,
)
from kernel.msv.ratings import ORDER, RATING_MAX_TOKENS, SCALE, places_of, rating_schema
from kernel.msv.signals import (
    EQUAL,
    PartWeights,
    mean_of,
)
from kernel.seeds import derived_seed
from kernel.values import value
from services.router import prompts
from services.router.service.assessment.subject import DraftAnswer, Subject

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
