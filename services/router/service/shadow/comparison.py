"""This use case compares shadow runs with the served runs of the same requests."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import numpy as np

from chassis.shared_results import SharedResults, in_thread
from kernel.statistics.bootstrap import Column, Estimate, Statistic, bootstrap_interval
from kernel.statistics.intervals import wilson
from kernel.statistics.paired import Comparison, PairedCounts, labels_needed, paired_difference
from services.router.service.calibration.values import LabelledShare
from services.router.service.shadow.values import (
    GetShadowRequest,
    GetShadowResponse,
    ShadowComparison,
    ShadowCost,
    ShadowLabels,
    ShadowPair,
    ShadowTime,
    ShareOfRuns,
)

# Errors of runs that were stopped for lack of room, or by the end of the router: they say nothing of their policy.
STOPPED = frozenset({"CANCELLED", "OVERLOADED", "BACKEND_OVERLOADED"})
# Pairs from which costs and times get an interval [count].
LEAST_PAIRS = 10
# Draws of each interval [count], and what they are drawn by: the same pairs have the same interval.
RESAMPLES = 1000
SEED = 0

ShadowPairs = Callable[[GetShadowRequest], Awaitable[Sequence[ShadowPair]]]


SharedComparisons = SharedResults[GetShadowRequest, GetShadowResponse]


async def get_shadow(request: GetShadowRequest, *, pairs: ShadowPairs, shared: SharedComparisons) -> GetShadowResponse:
    """Return the comparison of each shadow policy with what was served, over the newest shadow runs.

    Callers who ask for the same share the work.

    Raises:
        Overloaded: When as many figures are computed for the caller as may be.
        DatabaseUnavailable: When the database is away.
    """

    async def compute() -> GetShadowResponse:
        return await in_thread(comparisons_of, await pairs(request))

    return await shared.get(request, compute)


def comparisons_of(found: Sequence[ShadowPair]) -> GetShadowResponse:
    """Return the comparison over the pairs of each shadow policy, those with most runs first."""
    by_policy: dict[str, list[ShadowPair]] = {}
    for pair in found:
        by_policy.setdefault(pair.policy, []).append(pair)
    comparisons = [comparison_of(own) for own in by_policy.values()]
    return GetShadowResponse(comparisons=sorted(comparisons, key=lambda one: (-one.runs, one.policy)))


def comparison_of(found: Sequence[ShadowPair]) -> ShadowComparison:
    """Return the comparison over the pairs of one shadow policy, of which there is at least one."""
    pairs = [pair for pair in found if pair.error_reason not in STOPPED]
    answered = [pair for pair in pairs if pair.answered]
    compared = [pair for pair in answered if pair.agrees is not None]
    return ShadowComparison(
        policy=found[0].policy,
        runs=len(pairs),
        stopped=len(found) - len(pairs),
        answered=_share(len(answered), len(pairs)),
        failed=sum(bool(pair.error_reason) for pair in pairs),
        agreement=_share(sum(pair.agrees is True for pair in compared), len(compared)),
        not_compared=_counted(pair.not_compared for pair in answered if pair.agrees is None),
        runs_by_strategy=_counted(pair.strategy for pair in pairs),
        served_by_strategy=_counted(pair.served_strategy for pair in pairs),
        cost=_cost(pairs),
        time=_time(answered),
        labels=_labels(answered),
    )


def _counted(names: Iterable[str]) -> Mapping[str, int]:
    return dict(sorted(Counter(name for name in names if name).items()))


def _share(count: int, runs: int) -> ShareOfRuns:
    if not runs:
        return ShareOfRuns(runs=0, count=0)
    interval = wilson(count, runs)
    return ShareOfRuns(runs=runs, count=count, share=count / runs, low=interval.low, high=interval.high)


def _cost(pairs: Sequence[ShadowPair]) -> ShadowCost:
    known = [(pair.served_cost, pair.cost) for pair in pairs if pair.served_cost is not None and pair.cost is not None]
    if not known:
        return ShadowCost(pairs=0)
    served, shadow = np.array(known, dtype=np.float64).T
    ratio = _estimate(_ratio, served, shadow)
    return ShadowCost(
        pairs=len(known),
        served=float(served.sum()),
        shadow=float(shadow.sum()),
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
    )


def _ratio(served: Column, shadow: Column) -> float | None:
    total = float(served.sum())
    return float(shadow.sum()) / total if total > 0 else None


def _time(answered: Sequence[ShadowPair]) -> ShadowTime:
    known = [(pair.served_duration_ms, pair.duration_ms) for pair in answered if pair.served_duration_ms is not None]
    if not known:
        return ShadowTime(pairs=0)
    served, shadow = np.array(known, dtype=np.float64).T
    difference = _estimate(_median, shadow - served)
    return ShadowTime(
        pairs=len(known),
        served_ms=_median(served),
        shadow_ms=_median(shadow),
        difference_ms=difference.value,
        low_ms=difference.low,
        high_ms=difference.high,
    )


def _median(times: Column) -> float:
    return float(np.median(times))


def _estimate(statistic: Statistic, *columns: Column) -> Estimate:
    """Return a statistic with its interval; without one where there are few pairs."""
    items = len(columns[0])
    if items < LEAST_PAIRS:
        return Estimate(value=statistic(*columns), low=None, high=None, items=items, resamples=0)
    return bootstrap_interval(statistic, *columns, rng=np.random.default_rng(SEED), resamples=RESAMPLES)


def _labels(answered: Sequence[ShadowPair]) -> ShadowLabels:
    """Return how often both were right; a label of one holds for the other where they agree."""
    both = [(pair, *_rights(pair)) for pair in answered]
    known = [(served, shadow) for _, served, shadow in both if served is not None and shadow is not None]
    others = [
        (served, shadow)
        for pair, served, shadow in both
        if served is not None and shadow is not None and pair.agrees is not True
    ]
    counts = PairedCounts(
        both=others.count((True, True)),
        first=others.count((True, False)),
        second=others.count((False, True)),
        neither=others.count((False, False)),
    )
    agreeing = sum(pair.agrees is True for pair in answered)
    difference = paired_difference(len(answered), agreeing, counts)
    return ShadowLabels(
        pairs=len(answered),
        served=_labelled([served for served, _ in known]),
        shadow=_labelled([shadow for _, shadow in known]),
        labelled_disagreements=len(others),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        comparison=difference.comparison,
        enough=difference.comparison is not Comparison.UNDECIDED,
        labels_needed=labels_needed(len(answered), agreeing, counts),
    )


def _rights(pair: ShadowPair) -> tuple[bool | None, bool | None]:
    """Return whether the served answer and the shadow's are right, as far as labels say."""
    served, shadow = pair.served_right, pair.right
    if pair.agrees is True:
        return (shadow if served is None else served), (served if shadow is None else shadow)
    return served, shadow


def _labelled(rights: Sequence[bool]) -> LabelledShare:
    if not rights:
        return LabelledShare(labelled=0, right=0)
    right, labelled = sum(rights), len(rights)
    interval = wilson(right, labelled)
    return LabelledShare(labelled=labelled, right=right, share=right / labelled, low=interval.low, high=interval.high)
