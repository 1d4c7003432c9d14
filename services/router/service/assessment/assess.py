"""Measure the state of a query before, or as, it is answered.

Source: SPEC 1.1. What could not be measured is unknown, with its reason; assessing never fails a request.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from inference.spend import Priced, Spend
from kernel.conversation import assessable, conversation
from kernel.envelope import Limits, limits
from kernel.errors import Code, MetacogError
from kernel.msv.ratings import RATING_MAX_TOKENS
from kernel.msv.signals import EQUAL, PartWeights
from kernel.values import value
from services.router.service.answering.values import AnswerRequest
from services.router.service.assessment.measures import (
    CHECK_TOKENS,
    SAMPLE_TOKENS,
    SAMPLES,
    STAGE,
    Assessment,
    Assessor,
    CompositeAssessor,
    DraftMeasure,
    Measure,
    ProbeMeasure,
    RatingModelClient,
    ShortAnswerModelClient,
    ShortAnswerSampler,
    Similarities,
    importance,
    verbalized,
)
from services.router.service.assessment.subject import DrafterFactory, Subject
from services.router.service.assessment.values import AssessRequest, AssessResponse

VERBALIZED, PROBE, HYBRID, DRAFT = NAMES = ("verbalized", "probe", "hybrid", "draft")


class UnknownAssessor(MetacogError):
    """The request names an assessor that the router does not have."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_ASSESSOR"


class AssessorModelClient(RatingModelClient, ShortAnswerModelClient, Protocol):
    """The model that would answer."""


def build_assessors(
    voice: AssessorModelClient,
    beside: Sequence[Measure],
    similarities: Similarities | None = None,
    weights: PartWeights = EQUAL,
) -> Mapping[str, CompositeAssessor]:
    """The assessors by name.

    Args:
        voice: The model that would answer.
        beside: Measures that need no model, part of each assessor.
        similarities: Tells how near short texts are in meaning.
        weights: Weights of parts inside their component.
    """
    sampler = ShortAnswerSampler(voice, similarities)
    probe, rating, pressing = ProbeMeasure(sampler, weights), verbalized(voice, weights), importance(voice, weights)
    drawn, rated, checked = (SAMPLES, SAMPLES * SAMPLE_TOKENS), (1, RATING_MAX_TOKENS), (1, CHECK_TOKENS)
    measures: Mapping[str, tuple[Sequence[Measure], Sequence[tuple[int, int]]]] = {
        VERBALIZED: ([rating], [rated]),
        PROBE: ([probe], [drawn]),
        HYBRID: ([probe, pressing], [drawn, rated]),
        DRAFT: ([pressing, DraftMeasure(voice, sampler, weights)], [drawn, rated, checked]),
    }
    return {
        name: CompositeAssessor(
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
    drafter: DrafterFactory,
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
    messages = assessable(conversation(ask.question, ask.messages))
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


__all__ = ["STAGE", "Assessment", "Assessor", "Assessors", "CompositeAssessor", "assess", "build_assessors"]
