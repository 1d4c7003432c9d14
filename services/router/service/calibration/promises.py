"""The levels of agreement that keep a promise, by the labels that this process read last.

Source: SPEC 5.3. Labels count where the question was drawn at random, and only those of the same owner, or of the
operator's exams; of one configuration of votes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import floor
from typing import Protocol

from chassis.shared_results import SharedResults, in_thread
from kernel.thresholds import DECIMALS
from kernel.values import value
from kernel.votes.agreement import VoteAgreement
from kernel.votes.promise import (
    KIND_LABELS,
    MOST_LABELS,
    LevelCount,
    LevelTest,
    PromiseLabel,
    PromiseLevels,
    ProvedLevels,
    kept_share,
    look_numbered,
    projected_share,
    promise_levels,
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

# Promises whose kept share is shown beside the one that was asked for [0..1], and that of a request that states none.
CURVE = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
USUAL_ERROR = 0.05
# Looks whose yield is projected: as many labels as count, at most.
PROJECTED = tuple(look_numbered(number) for number in range(1, 8) if look_numbered(number).labels <= MOST_LABELS)
# Levels that are held for answering [count], and the steps in which promises differ for it [1/step].
MOST_HELD, STEPS = 1_024, 1_000


@value
class StoredPromiseLabel:
    """A stored promise label is a labelled vote whose question was drawn at random.

    Attributes:
        owner: Name of the API key of its request.
        origin: How it was drawn.
        version: Configuration of votes that it was answered by.
        kind: Kind of the question; empty: unknown.
        agreement: Agreement of the votes.
        right: Whether the winner of the votes is right; false where that is not known.
        stronger: Whether other models are right on the same question, by their name in the catalogue.
    """

    owner: str
    origin: LabelOrigin
    version: str
    kind: str
    agreement: VoteAgreement
    right: bool
    stronger: Mapping[str, bool] = field(default_factory=dict)


SharedReports = SharedResults[tuple[str, GetPromisesRequest], GetPromisesResponse]


class PromiseLabelStore(Protocol):
    """This store holds labels of votes; it may raise `DatabaseUnavailable`."""

    async def promise_labels(self) -> Sequence[StoredPromiseLabel]:
        """Return the newest labels of votes that were drawn at random, the oldest first."""


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
        self._labels: Sequence[StoredPromiseLabel] = ()
        self._held: dict[tuple[str, str, str, str, float], PromiseLevels] = {}

    async def refresh(self) -> None:
        """Read the labels again.

        Raises:
            DatabaseUnavailable: When the database is away; what was read before stays.
        """
        labels = await self._store.promise_labels()
        if labels != self._labels:
            self._labels, self._held = labels, {}

    def levels(self, owner: str, version: str, kind: str, stronger: str, error_at_most: float) -> PromiseLevels:
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
        error = floor(round(error_at_most * STEPS, DECIMALS)) / STEPS
        key = (owner, version, kind, stronger, error)
        found = self._held.get(key)
        if found is None:
            found = promise_levels([_label(one, stronger) for one in self._of(owner, version)], error, kind)
            if len(self._held) >= MOST_HELD:
                self._held.pop(next(iter(self._held)))
            self._held[key] = found
        return found

    async def report(self, request: GetPromisesRequest, *, owner: str, shared: SharedReports) -> GetPromisesResponse:
        """Return what can be promised to an owner; callers who ask for the same share the work.

        Raises:
            MalformedRequest: For an error that cannot be promised.
        """
        return await shared.get((owner, request), partial(in_thread, self._report, request, owner))

    def _of(self, owner: str, version: str) -> Sequence[StoredPromiseLabel]:
        """Return the labels that count for an owner; an empty version: of every configuration."""
        return [
            one
            for one in self._labels
            if (not version or one.version == version)
            and (one.owner == owner or (one.origin is LabelOrigin.EXAM and one.owner in self._exam_keys))
        ]

    def _report(self, request: GetPromisesRequest, owner: str) -> GetPromisesResponse:
        error_at_most = request.error_at_most or self.usual or USUAL_ERROR
        stronger = request.stronger or self._stronger()
        versions = list(dict.fromkeys(one.version for one in reversed(self._of(owner, ""))))
        version = request.version or next(iter(versions), "")
        labels = [_label(one, stronger) for one in self._of(owner, version)] if version else []
        kinds = sorted({one.kind for one in labels if one.kind})
        own = [kind for kind in kinds if sum(one.kind == kind for one in labels) >= KIND_LABELS]
        return GetPromisesResponse(
            error_at_most=error_at_most,
            version=version,
            versions=versions,
            levels=[_kind_promise(labels, error_at_most, kind) for kind in (*own, "")],
            curve=[
                PromisePoint(error_at_most=each, kept_share=kept_share(promise_levels(labels, each).first))
                for each in sorted({*CURVE, error_at_most})
            ],
            stronger=stronger,
        )


def _label(stored: StoredPromiseLabel, stronger: str) -> PromiseLabel:
    return PromiseLabel(
        kind=stored.kind, agreement=stored.agreement, right=stored.right, stronger=stored.stronger.get(stronger)
    )


def _kind_promise(labels: Sequence[PromiseLabel], error_at_most: float, kind: str) -> KindPromise:
    levels = promise_levels(labels, error_at_most, kind)
    return KindPromise(
        kind=kind,
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
