"""Confidence is served by the recalibration map in force, and maps are fitted as feedback comes in.

Answers read the maps from memory and never wait for the database: while it is away the last maps stay in force.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from chassis.log import logger
from chassis.worker import BackgroundWorker, round_within, wait_within
from kernel.errors import MetacogError
from kernel.learning.gains import LabelledPair
from kernel.learning.kind_shares import KindRecord
from kernel.msv.assessors import AssessorName
from kernel.policy import VOTING
from kernel.statistics.recalibration import FittedMap, calibrated, recalibration
from kernel.votes.competence import SourceRecord
from kernel.votes.probability import LabelCount
from kernel.votes.states import ProbabilityState
from services.router.core.calibration import FittingRules, Progress, is_due
from services.router.metrics import MAPS_FITTED, MAPS_IN_FORCE
from services.router.service.calibration.calibration_error import FITTING, CalibrationErrors
from services.router.service.calibration.promises import PromiseCounts, Promises, StoredPromiseLabel
from services.router.service.calibration.values import CalibrationMap, GetCalibrationRequest, ObservedOutcomes
from services.router.service.calibration.vote_probability import VoteProbability

REFRESH_S = 30.0
# Time that a round may take before it counts as hung [s].
ROUND_WITHIN_S = 300.0
# The newest label before any was read.
NOT_READ = ""
# Feedback that comes in at a rush is read together [s].
PAUSE_S = 5.0


# Returns the confidence that is served, the version of its map, empty for none, and the labels that this was fitted on;
# takes strategy, source and confidence.
Recalibration = Callable[[str, str, float], tuple[float, str, int]]

# Strategies whose confidence is a probability that is fitted to labels itself.
SELF_FITTED = frozenset[str](VOTING)
# Sources of such confidences of other strategies.
SELF_FITTED_SOURCES = frozenset({AssessorName.ANSWERS})

_log = logger(__name__)


def without_map(_strategy: str, _source: str, confidence: float) -> tuple[float, str, int]:
    """Return the confidence unchanged, without any map."""
    return confidence, "", 0


def is_self_fitted(strategy: str, source: str) -> bool:
    """Return whether a confidence is a probability that is fitted to labels itself, so that it needs no map."""
    return strategy in SELF_FITTED or source in SELF_FITTED_SOURCES


def served_confidence(
    recalibrated: Recalibration,
    strategy: str,
    source: str,
    confidence: float | None,
    *,
    unmapped: ProbabilityState = ProbabilityState.UNCALIBRATED,
) -> Mapping[str, Any]:
    """Return the fields of a run about its confidence: as served, as it came, and the map between them.

    Args:
        recalibrated: Maps a confidence to the one that is served.
        strategy: Strategy that gave it.
        source: Its source.
        confidence: The confidence [0..1]; None where there is none.
        unmapped: What it is while no map is in force.
    """
    if confidence is None:
        return {"confidence": None}
    mapped, version, labels = recalibrated(strategy, source, confidence)
    return {
        "confidence": mapped,
        "confidence_raw": confidence,
        "calibration_version": version,
        "confidence_state": ProbabilityState.FITTED if version else unmapped,
        "confidence_labels": labels,
    }


class RecalibrationStore(Protocol):
    """This store holds labelled answers and maps; every method may raise `DatabaseUnavailable`."""

    async def in_force(self) -> Sequence[CalibrationMap]:
        """Return the maps in force."""

    async def progress(self) -> Sequence[Progress]:
        """Return the progress of each strategy and source."""

    async def source_records(self) -> Sequence[SourceRecord]:
        """Return how often each source of votes was right."""

    async def vote_labels(self) -> Sequence[LabelCount]:
        """Return the newest labelled votes, counted by their evidence."""

    async def system_one_records(self, model: str, /) -> Sequence[KindRecord]:
        """Return how often System 1 was right on each kind of question."""

    async def labelled_pairs(self, system_two: Sequence[str], model: str, /) -> Sequence[LabelledPair]:
        """Return the newest questions that are labelled for System 1 and for one of these strategies."""

    async def newest_label(self) -> datetime | None:
        """Return when the newest label that counts was received; None without one."""

    async def promise_labels(self, after: int, /) -> Sequence[StoredPromiseLabel]:
        """Return the labels of questions drawn at random that were stored after the one of this number."""

    async def promise_counts(self) -> PromiseCounts:
        """Return how many of these labels there are."""

    async def observed(self, strategy: str, source: str, request: GetCalibrationRequest) -> ObservedOutcomes:
        """Return the newest labelled answers."""

    async def keep(self, progress: Progress, fitted: FittedMap, fitted_at: datetime) -> bool:
        """Store a map as the one after those of `progress`; return False when another replica was first."""


async def refit(
    store: RecalibrationStore, rules: FittingRules, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Sequence[FittedMap]:
    """Fit a map for each strategy and source for which it is time, and return those that were stored.

    Replicas may do this at the same time: of the maps fitted to the same feedback one is stored.

    Raises:
        DatabaseUnavailable: When the database is away.
    """
    stored = []
    for progress in await store.progress():
        if is_self_fitted(progress.strategy, progress.confidence_source) or not is_due(progress, rules):
            continue
        began = now()
        observed = await store.observed(progress.strategy, progress.confidence_source, GetCalibrationRequest())
        if len(observed.scores) < rules.minimum:
            continue
        fitted = await FITTING.run(recalibration, observed.raw, observed.scores)
        if await store.keep(progress, fitted, began):
            MAPS_FITTED.labels(progress.strategy, progress.confidence_source, str(fitted.improves).lower()).inc()
            stored.append(fitted)
    return stored


class Calibrator:
    """The calibrator holds the maps in force in memory, and fits new ones; it is a `Recalibration`.

    Args:
        store: Stores labelled answers and maps.
        rules: When a map is fitted.
        promises: Which levels of agreement keep a promise; None: they are read from `store` too.
        refresh_s: Time after which the maps that other replicas put in force are in force here [s].
        pause_s: Least time between two rounds [s].
        votes: What labelled votes teach; None: it is read from `store` too.
        round_within_s: Time that a round may take before it counts as hung [s].
    """

    def __init__(  # noqa: PLR0913 - most are times that tests set
        self,
        store: RecalibrationStore,
        *,
        rules: FittingRules = FittingRules(),  # noqa: B008 - an immutable value
        promises: Promises | None = None,
        refresh_s: float = REFRESH_S,
        pause_s: float = PAUSE_S,
        votes: VoteProbability | None = None,
        round_within_s: float = ROUND_WITHIN_S,
    ) -> None:
        self._store = store
        self._rules = rules
        self._refresh_s = refresh_s
        self._pause_s = pause_s
        self._round_within_s = round_within_s
        self._maps: Mapping[tuple[str, str], CalibrationMap] = {}
        self._errors = CalibrationErrors(store)
        self.votes = votes or VoteProbability(store)
        self.promises = promises or Promises(store)
        self._newest_label: datetime | str | None = NOT_READ
        self._pending = True
        self._wake = asyncio.Event()
        self._pause_ends, self._round_is_due = 0.0, 0.0
        self._worker = BackgroundWorker("calibration", self._run_round)

    def __call__(self, strategy: str, source: str, confidence: float) -> tuple[float, str, int]:
        """Return `confidence` as it is served, the version of its map, and the labels of this; never waits."""
        found = self._maps.get((strategy, source))
        if found is None:
            return confidence, "", 0
        return calibrated(found.points, confidence), found.version, found.observations

    def start(self) -> None:
        """Begin to follow the maps in force, and to fit."""
        self._worker.start()

    def on_feedback(self) -> None:
        """Report that there is new feedback, so that a fit may be due; never waits."""
        self._pending = True
        self._errors.on_feedback()
        self._wake.set()

    async def refresh(self) -> None:
        """Read the maps in force; while the database is away the last ones stay."""
        try:
            self._maps = {(found.strategy, found.confidence_source): found for found in await self._store.in_force()}
        except MetacogError as error:  # the database is away, or a stored map cannot be read
            _log.warning("recalibration maps stay as they are", reason=error.message)
        MAPS_IN_FORCE.set(len(self._maps))
        try:
            await self._read_labels()
        except MetacogError as error:
            self._newest_label = NOT_READ
            _log.warning("what labels teach stays as it is", reason=error.message)

    async def _read_labels(self) -> None:
        """Read what labels teach again, if there is a label that was not read yet, here or of another replica."""
        newest = await self._store.newest_label()
        if newest != self._newest_label or self._pending:
            await self.votes.refresh()
            await self.promises.refresh()
        self._newest_label = newest

    async def check(self) -> None:
        """Return while maps are followed.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Stop, after the fit under way."""
        self._wake.set()
        await self._worker.close()

    async def _run_round(self, stop: asyncio.Event) -> None:
        """Refresh, fit and measure once, `refresh_s` after the last time; after `pause_s` if there is feedback."""
        await wait_within(stop, self._pause_ends - time.monotonic())
        await wait_within(self._wake, self._round_is_due - time.monotonic())
        if stop.is_set():
            return
        self._wake.clear()
        async with round_within(self._round_within_s):
            await self.refresh()
            if self._pending and await self._refit():
                await self.refresh()
            await self._measure()
        self._pause_ends = time.monotonic() + self._pause_s
        self._round_is_due = time.monotonic() + self._refresh_s

    async def _refit(self) -> bool:
        """Fit what is due, and return whether a map was fitted; what fails is tried again in the next round."""
        self._pending = False
        try:
            return bool(await refit(self._store, self._rules))
        except MetacogError as error:
            self._pending = True
            _log.warning("no recalibration map was fitted", reason=error.message)
            return False
        except BaseException:
            self._pending = True
            raise

    async def _measure(self) -> None:
        try:
            await self._errors.measure()
        except MetacogError as error:
            _log.warning("the calibration error was not measured", reason=error.message)
