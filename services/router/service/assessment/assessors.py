"""Assessing measures the state of a question before, or while, it is answered.

Source: MSV, state vector (papers.md 1.1). What could not be measured is unknown, with its reason; assessing never fails
a request.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from chassis.clock import milliseconds_since
from inference import RunModels, Spend
from kernel.conversation import checked_turns, conversation
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits, limits
from kernel.learning.kind_shares import KindShares, kind_shares
from kernel.msv.assessors import AssessorName
from kernel.msv.ratings import RATING_MAX_TOKENS
from kernel.msv.signals import EQUAL, PartWeights
from kernel.values import value
from kernel.votes.prior import SHIPPED_PRIOR
from services.router.errors import UnknownAssessor
from services.router.service.answering.values import AnswerRequest
from services.router.service.assessment.composite_assessor import Assessment, Assessor, CompositeAssessor
from services.router.service.assessment.measures import (
    STAGE,
    Measure,
    RatingModelClient,
    importance_measure,
    rating_measure,
)
from services.router.service.assessment.prospective import KindShareMeasure, PolicyImportanceMeasure
from services.router.service.assessment.short_answers import (
    CHECK_TOKENS,
    SAMPLE_TOKENS,
    SAMPLES,
    DraftMeasure,
    ProbeMeasure,
    ShortAnswerModelClient,
    ShortAnswerSampler,
    Similarities,
)
from services.router.service.assessment.subject import DrafterFactory, Subject
from services.router.service.assessment.values import AssessRequest, AssessResponse

# A rating of the importance alone has three numbers, and fits into half of what an assessment may generate: so a rating
# that counts its places can be asked for again [tokens].
IMPORTANCE_MAX_TOKENS = RATING_MAX_TOKENS // 2


def only_the_prior() -> KindShares:
    """Return the shares without any label."""
    return kind_shares((), SHIPPED_PRIOR.share_right)


@value
class Known:
    """This value holds what is known before a question is answered.

    Attributes:
        shares: Returns the shares of right System 1 answers, by kind of question.
        importance: PI as the operator fixed it [0..1]; None: the model rates it.
    """

    shares: Callable[[], KindShares] = only_the_prior
    importance: float | None = None


class AssessorModelClient(RatingModelClient, ShortAnswerModelClient, Protocol):
    """This client calls the model that would answer."""


def build_assessors(
    model_client: AssessorModelClient,
    other_measures: Sequence[Measure],
    similarities: Similarities | None = None,
    weights: PartWeights = EQUAL,
    known: Known | None = None,
) -> Mapping[str, CompositeAssessor]:
    """Return the assessors by name.

    Args:
        model_client: Client of the model that would answer.
        other_measures: Measures that need no model, part of each assessor.
        similarities: Computes how near short texts are in meaning; None: words alone are compared.
        weights: Weights of parts inside their component.
        known: What is known before a question is answered; None: the shipped prior alone.
    """
    known = known or Known()
    sampler = ShortAnswerSampler(model_client, similarities)
    probe = ProbeMeasure(sampler, weights)
    rating, importance = rating_measure(model_client, weights), importance_measure(model_client, weights)
    short_answers, one_rating, one_check = (SAMPLES, SAMPLES * SAMPLE_TOKENS), (1, RATING_MAX_TOKENS), (1, CHECK_TOKENS)
    measures: Mapping[str, tuple[Sequence[Measure], Sequence[tuple[int, int]]]] = {
        AssessorName.ANSWERS: (
            [KindShareMeasure(known.shares), _importance(model_client, weights, known.importance)],
            [one_rating] if known.importance is None else [],
        ),
        AssessorName.VERBALIZED: ([rating], [one_rating]),
        AssessorName.PROBE: ([probe], [short_answers]),
        AssessorName.HYBRID: ([probe, importance], [short_answers, one_rating]),
        AssessorName.DRAFT: (
            [importance, DraftMeasure(model_client, sampler, weights)],
            [short_answers, one_rating, one_check],
        ),
    }
    return {
        name: CompositeAssessor(
            name,
            [*own, *other_measures],
            generations=sum(samples for samples, _ in costs),
            tokens=sum(tokens for _, tokens in costs),
        )
        for name, (own, costs) in measures.items()
    }


def _importance(model_client: AssessorModelClient, weights: PartWeights, fixed: float | None) -> Measure:
    if fixed is not None:
        return PolicyImportanceMeasure(fixed)
    return importance_measure(model_client, weights, max_tokens=IMPORTANCE_MAX_TOKENS)


@value
class Assessors:
    """This value holds the assessors, and says which of them are the defaults.

    Attributes:
        by_name: All of them.
        default: Name of the one for answers that are returned as a whole.
        streamed: Name of the one for answers that are streamed.
    """

    by_name: Mapping[str, Assessor]
    default: str = AssessorName.ANSWERS
    streamed: str = AssessorName.ANSWERS

    def named(self, name: str, *, streamed: bool = False) -> Assessor:
        """Return the assessor called `name`, or the configured one for an empty name.

        Raises:
            UnknownAssessor: When there is none of that name.
        """
        wanted = name or (self.streamed if streamed else self.default)
        if wanted not in self.by_name:
            message = f"assessor {wanted!r} is unknown; there are {', '.join(self.by_name)}"
            raise UnknownAssessor(message, assessor=wanted)
        return self.by_name[wanted]


async def assess(  # noqa: PLR0913 - each is set by the composition, or by the caller's key
    request: AssessRequest,
    *,
    assessors: Assessors,
    default: Limits,
    drafter: DrafterFactory,
    models: RunModels,
    ceilings: Ceilings = DEFAULT_CEILINGS,
    key_name: str = "",
) -> AssessResponse:
    """Return the state of a question.

    Raises:
        UnpricedModel: When the cost is limited, and one of `models`, which may be called, has no price.
        MalformedRequest: When there is nothing to assess.
        UnknownAssessor: For an assessor that the router does not have.
    """
    models.begin_run()
    began, spend = time.monotonic(), Spend(limits(request.envelope, default, ceilings), models=models.of_run(""))
    messages = checked_turns(conversation(request.question, request.messages))
    draft = drafter(AnswerRequest(messages=messages, seed=request.seed), messages)
    subject = Subject(messages=messages, key_name=key_name, seed=request.seed, draft=draft)
    assessment = await assessors.named(request.assessor)(subject, spend)
    assert assessment.msv is not None, "an assessor always measures a state"
    return AssessResponse(
        msv=assessment.msv,
        assessor=assessment.assessor,
        prompt_digests=assessment.prompt_digests,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
        draft=assessment.draft.text if assessment.draft else "",
        samples=assessment.samples,
    )


__all__ = ["STAGE", "Assessment", "Assessor", "Assessors", "CompositeAssessor", "assess", "build_assessors"]
