"""This use case reports how often votes were escalated to a stronger model, what that cost, and who was right."""

from collections.abc import Awaitable, Callable, Sequence

from chassis.shared_results import SharedResults
from kernel.statistics.intervals import wilson
from kernel.values import value
from services.router.service.calibration.values import (
    Cascade,
    GetCascadesRequest,
    GetCascadesResponse,
    LabelledShare,
)

# Reason of runs that were not escalated.
DECIDED = "DECIDED"


@value
class CascadeCount:
    """This count is over the runs of one stronger model that were escalated for one reason, or not.

    Attributes:
        model: The stronger model.
        reason: Why it was asked; empty: it was not.
        answered: Whether its answer was given.
        runs: Runs [count].
        priced: Those of known cost [count].
        cost: What these cost together [currency of the prices].
        answers: Answers of the stronger model of known cost [count].
        answers_cost: What these answers cost together, without the votes before [currency of the prices].
        labelled: Runs with a label that counts [count].
        right: Those whose answer was right [count].
    """

    model: str
    reason: str
    answered: bool
    runs: int
    priced: int = 0
    cost: float = 0.0
    answers: int = 0
    answers_cost: float = 0.0
    labelled: int = 0
    right: int = 0


CascadeCounts = Callable[[GetCascadesRequest], Awaitable[Sequence[CascadeCount]]]
SharedCascades = SharedResults[GetCascadesRequest, GetCascadesResponse]


async def get_cascades(
    request: GetCascadesRequest, *, counts: CascadeCounts, shared: SharedCascades
) -> GetCascadesResponse:
    """Return the cascades of the newest runs, by stronger model; callers who ask for the same share the work.

    Raises:
        Overloaded: When as many figures are computed for the caller as may be.
        DatabaseUnavailable: When the database is away.
    """
    return await shared.get(request, lambda: _cascades(request, counts))


async def _cascades(request: GetCascadesRequest, counts: CascadeCounts) -> GetCascadesResponse:
    found = await counts(request)
    cascades = [cascade_of([one for one in found if one.model == model]) for model in {one.model for one in found}]
    return GetCascadesResponse(cascades=sorted(cascades, key=lambda one: (-one.runs, one.model)))


def cascade_of(counts: Sequence[CascadeCount]) -> Cascade:
    """Return the summary of the counts of one stronger model.

    Example:
        >>> decided = CascadeCount(model="m", reason="", answered=False, runs=3, priced=3, cost=3.0)
        >>> escalated = CascadeCount(model="m", reason="UNDECIDED", answered=True, runs=1, priced=1, cost=11.0,
        ...                          answers=1, answers_cost=10.0)
        >>> found = cascade_of([decided, escalated])
        >>> found.escalated_share, found.cost, found.always_cost
        (0.25, 14.0, 40.0)
    """
    runs, priced = sum(one.runs for one in counts), sum(one.priced for one in counts)
    escalated = sum(one.runs for one in counts if one.answered)
    answers, answers_cost = sum(one.answers for one in counts), sum(one.answers_cost for one in counts)
    reasons = sorted({one.reason for one in counts})
    return Cascade(
        model=counts[0].model,
        runs=runs,
        escalated=escalated,
        escalated_share=escalated / runs,
        failed=sum(one.runs for one in counts if one.reason and not one.answered),
        runs_by_reason={
            reason or DECIDED: sum(one.runs for one in counts if one.reason == reason) for reason in reasons
        },
        priced=priced,
        cost=sum(one.cost for one in counts) if priced else None,
        always_cost=answers_cost / answers * priced if answers and priced else None,
        of_votes=_labelled([one for one in counts if not one.answered]),
        of_model=_labelled([one for one in counts if one.answered]),
    )


def _labelled(counts: Sequence[CascadeCount]) -> LabelledShare:
    labelled, right = sum(one.labelled for one in counts), sum(one.right for one in counts)
    if not labelled:
        return LabelledShare(labelled=0, right=0)
    interval = wilson(right, labelled)
    return LabelledShare(labelled=labelled, right=right, share=right / labelled, low=interval.low, high=interval.high)
