"""Short answers drawn at once: what the model says when it may not think, and how far it agrees with itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from chassis.inference.values import Call, Completion, Sample, Work
from chassis.spend import Spend
from kernel.errors import MetacogError
from kernel.seeds import derived_seed
from kernel.values import value
from services.router import prompts
from services.router.core.agreement import Grouped, grouped, key_of, merged
from services.router.core.signals import EQUAL, PartWeights, disagreement, likelihood, mean_of
from services.router.service.measures.reading import STAGE, Reading, in_part_of_the_time
from services.router.service.subject import Subject

# Five samples of twelve tokens are within the 64 tokens that a part of an assessment may generate.
SAMPLES = 5
SAMPLE_TOKENS = 12
TEMPERATURE = 0.8
# Answers that say something, below which nothing can be told from them.
ENOUGH = 2

# Cosines of texts with one another, in their order; None where they cannot be had.
Similarities = Callable[[Sequence[str], Spend], Awaitable[Sequence[Sequence[float]] | None]]


class SamplingVoice(Protocol):
    """A model that answers."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of one call."""


@value
class Drawn:
    """Short samples that agree with one another, group by group, the largest first."""

    samples: Sequence[Sample]
    groups: Grouped


class Sampler:
    """Draws short answers and groups them by meaning.

    Args:
        voice: The model that would answer.
        similarities: Tells how near short texts are in meaning, for those that words alone keep apart.
    """

    def __init__(self, voice: SamplingVoice, similarities: Similarities | None = None) -> None:
        self._voice = voice
        self._similarities = similarities

    async def drawn(self, subject: Subject, spend: Spend) -> Drawn:
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
            work=Work.ASSESS,
        )
        async with in_part_of_the_time(spend):
            made = (await self._voice.complete(call, spend)).samples
        samples = [sample for sample in made if key_of(sample.text) is not None]
        return Drawn(samples=samples, groups=await self._by_meaning([sample.text for sample in samples], spend))

    async def _by_meaning(self, texts: Sequence[str], spend: Spend) -> Grouped:
        groups = grouped(texts)
        if self._similarities is None or len(groups.words) < 2:
            return groups
        cosines = await self._similarities([groups.representatives[place] for place in groups.words], spend)
        return groups if cosines is None else merged(groups, cosines, texts)


class Probe:
    """CE and CI of short samples: how probable the leading one is, and how far they agree."""

    def __init__(self, sampler: Sampler, weights: PartWeights = EQUAL) -> None:
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """CE as the mean of the leading answer's share and probability, CI as the share of pairs that differ."""
        prompt = prompts.probe()
        digests = {prompt.name: prompt.digest}
        try:
            drawn = await self._sampler.drawn(subject, spend)
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
            return Reading(reasons=dict.fromkeys(("correctness", "conflict"), reason), prompt_digests=digests)
        if len(drawn.samples) < ENOUGH:
            reasons = dict.fromkeys(
                ("correctness", "conflict"), f"{len(drawn.samples)} of {SAMPLES} short answers say anything"
            )
            return Reading(reasons=reasons, prompt_digests=digests, samples=[sample.text for sample in drawn.samples])
        parts = {"sample_agreement": drawn.groups.share, "sample_likelihood": leading_likelihood(drawn)}
        found = {"correctness": mean_of(parts, self._weights), "conflict": disagreement(drawn.groups.sizes)}
        return Reading(
            components={name: level for name, level in found.items() if level is not None},
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=[sample.text for sample in drawn.samples],
        )


def leading_likelihood(drawn: Drawn) -> float | None:
    """Mean probability of the samples in the largest group [0..1]; None where the backend tells none."""
    leading = [drawn.samples[index] for index in drawn.groups.members[0]]
    levels = {str(i): likelihood([t.logprob for t in s.logprobs or ()]) for i, s in enumerate(leading)}
    return mean_of(levels)
