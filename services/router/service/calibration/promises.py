"""The levels of agreement that keep a promise, by the labels that this process read last.

Source: ours (papers.md 5.3). Labels count where the question was drawn at random, and only those of the same owner, or
of the operator's exams; of one configuration of votes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import floor
from typing import Protocol

from chassis.shared_results import FairThreads, SharedResults, in_thread
from kernel.thresholds import DECIMALS
from kernel.values import value
from kernel.votes.promise import (
    MOST_LABELS,
    LevelCount,
    LevelTest,
    PromiseLabel,
    PromiseLevels,
    ProvedLevels,
    kept_share,
    kinds_with_lists,
    look_numbered,
    projected_share,
    promise_levels,
    shared_levels,
)
from services.router.core.feedback import LabelOrigin
from services.router.service.calibration.values import (
    GetPromisesRequest,
    GetPromisesResponse,
    KindPromise,
    ProjectedShare,
    PromisePoint,
    StageLevels,
    TestedLevel,
)
from services.router.service.runs.values import RunAgreement

# Promises whose kept share is shown beside the one that was asked for [0..1], and that of a request that states none.
CURVE = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
USUAL_ERROR = 0.05
# Looks whose yield is projected: as many labels as count, at most.
PROJECTED = tuple(look_numbered(number) for number in range(1, 8) if look_numbered(number).labels <= MOST_LABELS)
# Levels that are held for answering [count], and the steps in which promises differ for it [1/step].
MOST_HELD, STEPS = 1_024, 1_000
# Labels of an owner and configuration that are read, up to a look after which levels stay [count]; and those that are
# read again, for transactions that ended late.
MOST_KEPT, OVERLAP = look_numbered(9).labels, 1_000


_threads = FairThreads("promises", threads=2)


@value
class PromiseEvidence:
    """Promise evidence is what a label of a question that was drawn at random says of votes, or of a single model.

    Attributes:
        owner: Name of the API key of the run.
        question: Digest of the conversation.
        version: Configuration of the votes; empty: of a single model.
        model: The single model, by its name in the catalogue; empty: of votes.
        kind: Kind of the question; empty: unknown.
        origin: How it was drawn.
        agreement: Agreement of the votes; None for a single model.
        is_right: Whether the answer is right; of votes false too where a stronger model answered instead.
    """

    owner: str
    question: str
    version: str
    model: str
    kind: str
    origin: LabelOrigin
    agreement: RunAgreement | None
    is_right: bool


@value
class StoredPromiseLabel(PromiseEvidence):
    """A stored promise label is such evidence with its place among all, in the order in which they were stored."""

    number: int


@value
class PromiseCounts:
    """These counts say whether there are labels that were not read yet.

    Attributes:
        labels: Labels that are stored [count].
        unlabelled: Drawn votes without a label though a later one of their key has one [count], by owner and version.
    """

    labels: int = 0
    unlabelled: Mapping[tuple[str, str], int] = field(default_factory=dict)


SharedReports = SharedResults[tuple[str, GetPromisesRequest], GetPromisesResponse]


class PromiseLabelStore(Protocol):
    """This store holds labels; it may raise `DatabaseUnavailable`."""

    async def promise_labels(self, after: int, /) -> Sequence[StoredPromiseLabel]:
        """Return the labels that were stored after the one of this number, the oldest first, a bounded number."""

    async def promise_counts(self) -> PromiseCounts:
        """Return how many labels there are."""


class Promises:
    """The levels that keep promises, as this process last read the labels.

    Args:
        store: Holds the labels.
        exam_keys: Names of the API keys whose exams count for every owner.
        usual: The operator's promise [0..1]; None: there is none.
        stronger: Returns the model that answers where a request names none; empty: none.
    """

    def __init__(
        self,
        store: PromiseLabelStore,
        exam_keys: Iterable[str] = (),
        usual: float | None = None,
        stronger: Callable[[], str] = lambda: "",
    ) -> None:
        self._store = store
        self._exam_keys = frozenset(exam_keys)
        self.usual = usual
        self._stronger = stronger
        self._counts = PromiseCounts()
        self._last, self._seen = 0, set[int]()
        # Labels of votes by owner and version, and of single models by owner and question.
        self._votes: dict[tuple[str, str], list[StoredPromiseLabel]] = {}
        self._singles: dict[tuple[str, str], dict[str, bool]] = {}
        self._held: dict[tuple[str, str, str, str, float], PromiseLevels] = {}

    async def refresh(self) -> None:
        """Read the labels that are new.

        Raises:
            DatabaseUnavailable: When the database is away; what was read before stays.
        """
        counts = await self._store.promise_counts()
        if counts == self._counts:
            return
        fresh = await self._fresh() if counts.labels != self._counts.labels else ()
        for label in fresh:  # without a pause until the levels that rested on fewer labels are dropped
            self._add(label)
        self._counts, self._held = counts, {}

    async def _fresh(self) -> Sequence[StoredPromiseLabel]:
        """Return the labels from the last one on; a transaction that ended late may have stored one before it."""
        found: list[StoredPromiseLabel] = []
        after = max(0, self._last - OVERLAP)
        while labels := await self._store.promise_labels(after):
            found += labels
            after = labels[-1].number
        return found

    def _add(self, label: StoredPromiseLabel) -> None:
        if label.number in self._seen:
            return
        self._seen.add(label.number)
        self._last = max(self._last, label.number)
        if label.model:
            self._singles.setdefault((label.owner, label.question), {}).setdefault(label.model, label.is_right)
            return
        known = self._votes.setdefault((label.owner, label.version), [])
        if len(known) < MOST_KEPT:
            known.append(label)

    async def levels(self, owner: str, version: str, kind: str, stronger: str, error_at_most: float) -> PromiseLevels:
        """Return which levels keep a promise.

        Args:
            owner: Name of the API key of the request.
            version: Configuration of votes.
            kind: Kind of the question; empty: unknown.
            stronger: Model that answers what no agreement proves; empty: none.
            error_at_most: The promised error [0..1]; levels are those of the next smaller thousandth.

        Raises:
            MalformedRequest: For an error that cannot be promised.
        """
        key = (owner, version, kind, stronger, _step(error_at_most))
        held = self._held  # `refresh` begins another one: what rests on older labels is not held then
        found = held.get(key)
        if found is None:
            found = await _threads.run(self._levels, *key)  # a request waits for it: not behind figures
            if len(held) >= MOST_HELD:
                held.pop(next(iter(held)))
            held[key] = found
        return found

    def _levels(self, owner: str, version: str, kind: str, stronger: str, error_at_most: float) -> PromiseLevels:
        labels, unlabelled = self._labels(owner, version, stronger)
        return promise_levels(labels, error_at_most, kind, unlabelled=unlabelled)

    async def report(self, request: GetPromisesRequest, *, owner: str, shared: SharedReports) -> GetPromisesResponse:
        """Return what can be promised to an owner; callers who ask for the same share the work.

        Raises:
            MalformedRequest: For an error that cannot be promised.
        """
        return await shared.get((owner, request), partial(in_thread, self._report, request, owner))

    def read(self, owner: str, version: str = "") -> Sequence[StoredPromiseLabel]:
        """Return the labels of votes that count for an owner, each question once; empty version: of all."""
        mine = [
            one
            for (name, configuration), labels in list(self._votes.items())
            if (name == owner or name in self._exam_keys) and version in ("", configuration)
            for one in labels
            if name == owner or one.origin is LabelOrigin.EXAM
        ]
        found: dict[tuple[str, str], StoredPromiseLabel] = {}
        for one in sorted(mine, key=lambda label: label.number):
            found.setdefault((one.version, one.question), one)
        return list(found.values())

    def _labels(self, owner: str, version: str, stronger: str) -> tuple[Sequence[PromiseLabel], int]:
        """Return the labels of one configuration, and the drawn votes of the owner without one [count]."""
        labels = [
            PromiseLabel(
                kind=one.kind,
                agreement=one.agreement,
                right=one.is_right,
                stronger=self._singles.get((one.owner, one.question), {}).get(stronger) if stronger else None,
            )
            for one in self.read(owner, version)
            if one.agreement is not None
        ]
        return labels, self._counts.unlabelled.get((owner, version), 0)

    def _report(self, request: GetPromisesRequest, owner: str) -> GetPromisesResponse:
        error = _step(request.error_at_most or self.usual or USUAL_ERROR)
        stronger = request.stronger or self._stronger()
        versions = list(dict.fromkeys(one.version for one in reversed(self.read(owner))))
        version = request.version or next(iter(versions), "")
        labels, unlabelled = self._labels(owner, version, stronger) if version else ((), 0)
        own = [promise_levels(labels, error, kind, unlabelled=unlabelled) for kind in sorted(kinds_with_lists(labels))]
        found = [*own, shared_levels(labels, error, unlabelled=unlabelled)]
        return GetPromisesResponse(
            error_at_most=error,
            version=version,
            versions=versions,
            levels=[_kind_promise(levels) for levels in found],
            curve=[
                PromisePoint(
                    error_at_most=each,
                    kept_share=kept_share(promise_levels(labels, each, unlabelled=unlabelled).first),
                )
                for each in sorted({*CURVE, error})
            ],
            stronger=stronger,
            unlabelled=unlabelled,
        )


def _step(error_at_most: float) -> float:
    """Return the next smaller thousandth, for which levels are held.

    Example:
        >>> _step(0.0505), _step(0.05), _step(0.0029)
        (0.05, 0.05, 0.002)
    """
    return floor(round(error_at_most * STEPS, DECIMALS)) / STEPS


def _kind_promise(levels: PromiseLevels) -> KindPromise:
    return KindPromise(
        kind=levels.kind,
        first=_stage(levels.first),
        went_on=_stage(levels.went_on),
        escalated=_stage(levels.escalated),
    )


def _stage(found: ProvedLevels) -> StageLevels:
    look, following = found.look, found.next_look
    counts = _counts(found.tests)
    return StageLevels(
        labels=found.labels,
        looked_at=0 if look is None else look.labels,
        error_probability=None if look is None else look.error_probability,
        next_look=None if following is None else following.labels,
        kept_share=kept_share(found),
        tests=[_tested(test) for test in found.tests],
        projection=[
            ProjectedShare(labels=each.labels, kept_share=projected_share(counts, found.error_at_most, each))
            for each in PROJECTED
        ],
    )


def _tested(test: LevelTest) -> TestedLevel:
    return TestedLevel(
        agreeing=test.level.agreeing,
        against=test.level.against,
        labels=test.labels,
        errors=test.errors,
        bound=test.bound,
        proved=test.proved,
    )


def _counts(tests: Sequence[LevelTest]) -> Sequence[LevelCount]:
    """Return the labels of each level alone; tests count each together with the stricter ones."""
    before = [(0, 0), *((test.labels, test.errors) for test in tests)]
    return [
        LevelCount(level=test.level, labels=test.labels - labels, errors=test.errors - errors)
        for test, (labels, errors) in zip(tests, before, strict=False)
    ]
