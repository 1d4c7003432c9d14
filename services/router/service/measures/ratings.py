"""What the model says of itself and of the request: one structured rating of at most 64 tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from chassis.inference.values import Call, Work
from chassis.prompts import Prompt
from chassis.spend import Spend
from kernel.errors import MetacogError
from kernel.msv import CONFLICT_PARTS, CORRECTNESS_PARTS, IMPORTANCE_PARTS
from kernel.ratings import ORDER, RATING_MAX_TOKENS, SCALE, rating_schema
from kernel.seeds import derived_seed
from services.router import prompts
from services.router.core.signals import EQUAL, PartWeights, mean_of
from services.router.service.measures.reading import STAGE, Reading, in_part_of_the_time
from services.router.service.subject import Subject, transcript

# Which of the numbers make which component, in the order in which readers look for them.
PARTS: Mapping[str, tuple[str, ...]] = {
    "correctness": CORRECTNESS_PARTS,
    "conflict": CONFLICT_PARTS,
    "importance": IMPORTANCE_PARTS,
}


class RatingVoice(Protocol):
    """A model that rates."""

    async def rate(self, call: Call, spend: Spend, order: Sequence[str]) -> Mapping[str, float]:
        """The numbers of one structured rating, by the names of `order`."""


class Rating:
    """CE, CI and PI in words, or PI alone.

    Args:
        voice: The model.
        order: The numbers it is asked for, in this order.
        ask: Its prompt.
        weights: Weights of the numbers inside their component.
    """

    def __init__(
        self, voice: RatingVoice, order: tuple[str, ...], ask: Callable[..., Prompt], weights: PartWeights = EQUAL
    ) -> None:
        self._voice = voice
        self._order = order
        self._ask = ask
        self._weights = weights
        self._components = [name for name, parts in PARTS.items() if set(parts) & set(order)]

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """The components that the numbers make; each is the mean of its parts."""
        prompt = self._ask(conversation=transcript(subject.messages))
        digests = {prompt.name: prompt.digest}
        try:
            async with in_part_of_the_time(spend):
                rated = await self._voice.rate(self._call(prompt, subject.seed), spend, self._order)
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
            return Reading(reasons=dict.fromkeys(self._components, reason), prompt_digests=digests)
        parts = {name: number / SCALE for name, number in rated.items()}
        found = {name: self._mean(parts, PARTS[name]) for name in self._components}
        known = {name: level for name, level in found.items() if level is not None}
        return Reading(components=known, parts=parts, prompt_digests=digests)

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
            work=Work.ASSESS,
            **sampling,
        )


def verbalized(voice: RatingVoice, weights: PartWeights = EQUAL) -> Rating:
    """The rating of the answer that the model would give, and of the request."""
    return Rating(voice, ORDER, prompts.rating, weights)


def importance(voice: RatingVoice, weights: PartWeights = EQUAL) -> Rating:
    """The rating of the request alone."""
    return Rating(voice, IMPORTANCE_PARTS, prompts.importance, weights)
