"""The System 1 answer is made first, then judged by what the model does.

By a one-word check of it, by how probable its conclusion was, and by how far short samples support it that were drawn
meanwhile.
"""

import asyncio
from collections.abc import Mapping

from chassis.inference.values import Call, Work
from chassis.log import logger
from chassis.spend import Spend
from kernel.errors import MetacogError
from kernel.ledger import Reservation
from kernel.values import value
from services.router import prompts
from services.router.core.agreement import support
from services.router.core.signals import EQUAL, PartWeights, conclusion_likelihood, mean_of, yes_probability
from services.router.service.measures.reading import STAGE, Reading, in_part_of_the_time
from services.router.service.measures.sampling import Drawn, Sampler, SamplingVoice
from services.router.service.subject import Drafted, Subject

ALTERNATIVES = 20
CHECK_TOKENS = 1

_log = logger(__name__)


@value
class Refused:
    """Why a step brought nothing."""

    reason: str


class Draft:
    """CE and CI of the System 1 answer itself.

    Args:
        voice: The model that made it, which checks it.
        sampler: Draws the short answers that it is compared with.
        weights: Weights of the parts inside CE.
    """

    def __init__(self, voice: SamplingVoice, sampler: Sampler, weights: PartWeights = EQUAL) -> None:
        self._voice = voice
        self._sampler = sampler
        self._weights = weights

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """CE as the mean of what is known of check, likelihood and support; CI as the lack of support."""
        kept = _kept_for_the_check(spend)
        digests = {prompt.name: prompt.digest for prompt in (prompts.probe(), prompts.check())}
        async with asyncio.TaskGroup() as group:  # the samples first: the draft takes what the envelope has left
            drawing = group.create_task(_drawn(self._sampler, subject, spend))
            drafting = group.create_task(_drafted(subject, spend))
        drafted, drawn = drafting.result(), drawing.result()
        if kept is not None:
            kept.release()
        samples = [sample.text for sample in drawn.samples] if isinstance(drawn, Drawn) else []
        if isinstance(drafted, Refused):
            reasons = dict.fromkeys(("correctness", "conflict"), f"there is no draft: {drafted.reason}")
            return Reading(reasons=reasons, prompt_digests=digests, samples=samples)
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
        return Reading(
            components={name: level for name, level in found.items() if level is not None},
            reasons=_reasons(drawn),
            parts={name: level for name, level in parts.items() if level is not None},
            prompt_digests=digests,
            samples=samples,
            drafted=drafted,
        )

    async def _checked(self, subject: Subject, drafted: Drafted, spend: Spend) -> float | None:
        """Probability of a yes to "is that right" [0..1]; None where it cannot be had."""
        call = Call(
            messages=subject.answered(drafted.text, prompts.check().text),
            max_tokens=CHECK_TOKENS,
            logprobs=True,
            top_logprobs=ALTERNATIVES,
            thinking=False,
            stage=STAGE,
            work=Work.ASSESS,
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


async def _drafted(subject: Subject, spend: Spend) -> Drafted | Refused:
    if subject.draft is None:
        return Refused(reason="nobody makes one here")
    try:
        drafted = await subject.draft(spend)
    except MetacogError as refusal:
        return Refused(reason=f"{refusal.reason}: {refusal.message}")
    return drafted if drafted.text.strip() else Refused(reason="it has no text")


async def _drawn(sampler: Sampler, subject: Subject, spend: Spend) -> Drawn | Refused:
    try:
        return await sampler.drawn(subject, spend)
    except MetacogError as refusal:
        return Refused(reason=f"{refusal.reason}: {refusal.message}")


def _reasons(drawn: Drawn | Refused) -> Mapping[str, str]:
    why = drawn.reason if isinstance(drawn, Refused) else "the short samples cannot be compared with the draft"
    return {"conflict": why, "correctness": "the backend tells no probabilities, and nothing supports the draft"}
