"""Measure the state of a query before, or as, it is answered.

Source: SPEC 1.1. What could not be measured is unknown, with its reason; assessing never fails a request.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from chassis.spend import Priced, Spend
from kernel.envelope import Limits, limits
from kernel.errors import Code, MetacogError
from kernel.ledger import Ledger
from kernel.msv import MSV, MSVKind
from kernel.ratings import RATING_MAX_TOKENS
from kernel.values import value
from services.router.core.signals import EQUAL, PartWeights
from services.router.service.measures.drafting import CHECK_TOKENS, Draft
from services.router.service.measures.ratings import RatingVoice, importance, verbalized
from services.router.service.measures.reading import STAGE, Measure, Reading, state_of
from services.router.service.measures.sampling import (
    SAMPLE_TOKENS,
    SAMPLES,
    Probe,
    Sampler,
    SamplingVoice,
    Similarities,
)
from services.router.service.subject import Drafted, DrafterOf, Subject, assessable, conversation
from services.router.service.values import AnswerRequest, AssessRequest, AssessResponse

VERBALIZED, PROBE, HYBRID, DRAFT = NAMES = ("verbalized", "probe", "hybrid", "draft")

# An envelope that would leave an answer less than this is not spent on an assessment [tokens].
LEAST_ANSWER_TOKENS = 64


class UnknownAssessor(MetacogError):
    """The request names an assessor that the router does not have."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_ASSESSOR"


@value
class Assessment:
    """A state, and what measured it; without a name it came ready, or there is none."""

    msv: MSV | None
    assessor: str
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    drafted: Drafted | None = None


class Assessor(Protocol):
    """Measures the state of a conversation's last turn."""

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        """State, inside `spend`; never refuses."""

    def fits(self, ledger: Ledger) -> bool:
        """Whether the envelope carries the assessment and still an answer."""


class Measuring:
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


async def _read(measure: Measure, subject: Subject, spend: Spend) -> Reading:
    return await measure(subject, spend)


class Voice(RatingVoice, SamplingVoice, Protocol):
    """The model that would answer."""


def build_assessors(
    voice: Voice,
    beside: Sequence[Measure],
    similarities: Similarities | None = None,
    weights: PartWeights = EQUAL,
) -> Mapping[str, Measuring]:
    """The assessors by name.

    Args:
        voice: The model that would answer.
        beside: Measures that need no model, part of each assessor.
        similarities: Tells how near short texts are in meaning.
        weights: Weights of parts inside their component.
    """
    sampler = Sampler(voice, similarities)
    probe, rating, pressing = Probe(sampler, weights), verbalized(voice, weights), importance(voice, weights)
    drawn, rated, checked = (SAMPLES, SAMPLES * SAMPLE_TOKENS), (1, RATING_MAX_TOKENS), (1, CHECK_TOKENS)
    measures: Mapping[str, tuple[Sequence[Measure], Sequence[tuple[int, int]]]] = {
        VERBALIZED: ([rating], [rated]),
        PROBE: ([probe], [drawn]),
        HYBRID: ([probe, pressing], [drawn, rated]),
        DRAFT: ([pressing, Draft(voice, sampler, weights)], [drawn, rated, checked]),
    }
    return {
        name: Measuring(
            name,
            [*own, *beside],
            generations=sum(samples for samples, _ in costs),
            tokens=sum(tokens for _, tokens in costs),
        )
        for name, (own, costs) in measures.items()
    }


@value
class Assessors:
    """The assessors, and which of them is asked.

    Attributes:
        by_name: All of them.
        default: The one for answers that are made as a whole.
        streamed: The one for answers that are streamed, which have no use for a draft.
    """

    by_name: Mapping[str, Assessor]
    default: str = HYBRID
    streamed: str = HYBRID

    def chosen(self, name: str, *, streamed: bool = False) -> Assessor:
        """The assessor called `name`, or the configured one.

        Raises:
            UnknownAssessor: When there is none of that name.
        """
        wanted = name or (self.streamed if streamed else self.default)
        if wanted not in self.by_name:
            said = f"assessor {wanted!r} is unknown; there are {', '.join(self.by_name)}"
            raise UnknownAssessor(said, assessor=wanted)
        return self.by_name[wanted]


async def assess(
    ask: AssessRequest,
    *,
    assessors: Assessors,
    default: Limits,
    drafter: DrafterOf,
    models: Sequence[Priced] = (),
    key_name: str = "",
) -> AssessResponse:
    """State of the query.

    Raises:
        UnpricedModel: When the cost is limited, and one of `models`, which may be asked, has no price.
        MalformedRequest: When there is nothing to assess.
        UnknownAssessor: For an assessor that the router does not have.
    """
    began, spend = time.monotonic(), Spend(limits(ask.envelope, default), models=models)
    messages = assessable(conversation(ask.query, ask.messages))
    draft = drafter(AnswerRequest(messages=messages, seed=ask.seed), messages)
    subject = Subject(messages=messages, key_name=key_name, seed=ask.seed, draft=draft)
    made = await assessors.chosen(ask.assessor)(subject, spend)
    assert made.msv is not None, "an assessor always makes a state"
    return AssessResponse(
        msv=made.msv,
        assessor=made.assessor,
        prompt_digests=made.prompt_digests,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
        draft=made.drafted.text if made.drafted else "",
        samples=made.samples,
    )


def milliseconds_since(began: float) -> float:
    """Time since `began` on the monotonic clock [ms]."""
    return round((time.monotonic() - began) * 1000, 3)


__all__ = ["STAGE", "Assessment", "Assessor", "Assessors", "Measuring", "assess", "build_assessors"]
