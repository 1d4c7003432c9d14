"""Labelled answers and recalibration maps in memory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from chassis.page_tokens import parts_of
from kernel.learning.gains import LabelledPair
from kernel.learning.kind_shares import KindRecord
from kernel.statistics.recalibration import FittedMap, Method, Point
from kernel.votes.competence import SourceRecord
from kernel.votes.probability import LabelCount
from services.router.core.calibration import Progress, version_in_force
from services.router.errors import CalibrationNotFound
from services.router.service.calibration.cascades import CascadeCount
from services.router.service.calibration.promises import PromiseCounts, StoredPromiseLabel
from services.router.service.calibration.values import (
    ActivationBin,
    ActivationsSeen,
    CalibrationMap,
    CalibrationState,
    GetActivationsRequest,
    GetCalibrationRequest,
    GetCascadesRequest,
    MapChoice,
    ObservedOutcomes,
    with_in_force,
)
from services.router.service.shadow.values import GetShadowRequest, ShadowPair


def made(version: str, method: Method = Method.ISOTONIC) -> CalibrationMap:
    """A map that halves every confidence."""
    return CalibrationMap(
        version=version,
        strategy="system1",
        confidence_source="assessment",
        method=method,
        points=(Point(confidence=0.0, calibrated=0.0), Point(confidence=1.0, calibrated=0.5)),
        observations=120,
        brier_score_before=0.25,
        brier_score_after=0.125,
        fitted_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


class FakeCalibration:
    """Two maps of System 1, newest first; of the arbiter no label yet.

    Args:
        pairs: Questions labelled for both systems.
    """

    def __init__(self, pairs: Sequence[LabelledPair] = ()) -> None:
        self._pairs = pairs
        self._maps = (made("system1-assessment-2", Method.PLATT), made("system1-assessment-1"))
        self._pin: str | None = None

    async def source_records(self) -> Sequence[SourceRecord]:
        """Return no record of a source."""
        return ()

    async def system_one_records(self, model: str) -> Sequence[KindRecord]:
        """Return no labelled answer of System 1."""
        return ()

    async def newest_label(self) -> datetime | None:
        """Return that there is no label."""
        return None

    async def promise_labels(self, after: int, /) -> Sequence[StoredPromiseLabel]:
        """Return no label that proves a promise."""
        return ()

    async def promise_counts(self) -> PromiseCounts:
        """Return that there is none."""
        return PromiseCounts()

    async def vote_labels(self) -> Sequence[LabelCount]:
        """Return no labelled vote: probabilities are the prior's."""
        return ()

    async def labelled_pairs(self, system_two: Sequence[str], model: str) -> Sequence[LabelledPair]:
        """Return the questions labelled for both systems."""
        return self._pairs

    async def in_force(self) -> Sequence[CalibrationMap]:
        """Return no map: confidences are served as they are."""
        return ()

    async def progress(self) -> Sequence[Progress]:
        """Return nothing to fit."""
        return ()

    async def keep(self, progress: Progress, fitted: FittedMap, fitted_at: datetime) -> bool:
        """Store no map."""
        return False

    async def pairs(self, ask: GetCalibrationRequest) -> Sequence[tuple[str, str]]:
        """Both pairs."""
        every = [("arbiter", "arbiter"), ("system1", "assessment")]
        return [
            pair
            for pair in every
            if ask.strategy in ("", pair[0]) and (not ask.page_token or pair > parts_of(ask.page_token, 2))
        ]

    async def observed(self, strategy: str, _source: str, _ask: GetCalibrationRequest) -> ObservedOutcomes:
        """Four answers of System 1, served at half of what came."""
        raw = np.array([0.25, 0.75, 0.75, 1.0] if strategy == "system1" else [])
        return ObservedOutcomes(raw=raw, served=raw / 2, scores=np.array([0.0, 1.0, 0.0, 1.0][: len(raw)]))

    async def state(self, strategy: str, _source: str) -> CalibrationState:
        """The maps as they stand."""
        if strategy != "system1":
            return CalibrationState()
        version = version_in_force(self._maps[0].version, improves=True, pinned=self._pin)
        return with_in_force(self._maps, version, pinned=self._pin is not None)

    async def choose(self, choice: MapChoice) -> tuple[CalibrationState, CalibrationState]:
        """Pin what is chosen."""
        if choice.version and choice.version not in [one.version for one in self._maps]:
            raise CalibrationNotFound(f"there is no recalibration map {choice.version!r}", version=choice.version)
        before = await self.state(choice.strategy, choice.confidence_source)
        self._pin = choice.version
        return before, await self.state(choice.strategy, choice.confidence_source)


async def fake_cascades(asked: GetCascadesRequest) -> Sequence[CascadeCount]:
    """Three decided votes and one that a model answered; none of another time."""
    if asked.until is not None:
        return ()
    return [
        CascadeCount(model="strong", reason="", answered=False, runs=3, priced=3, cost=3.0, labelled=2, right=1),
        CascadeCount(
            model="strong", reason="UNDECIDED", answered=True, runs=1, priced=1, cost=11.0, answers=1, answers_cost=10.0
        ),
    ]


async def fake_shadows(asked: GetShadowRequest) -> Sequence[ShadowPair]:
    """Twelve shadow runs: ten agree, one is unknown, one was stopped; none of another time."""
    if asked.until is not None:
        return ()
    agreeing = ShadowPair(
        policy="p1",
        strategy="vote",
        answered=True,
        agrees=True,
        cost=1.0,
        duration_ms=300.0,
        served_strategy="system1",
        served_cost=2.0,
        served_duration_ms=100.0,
        served_right=True,
    )
    unknown = replace(agreeing, agrees=None, not_compared="LONG_ANSWER", served_right=None)
    stopped = ShadowPair(policy="p1", strategy="vote", answered=False, error_reason="CANCELLED")
    return [*[agreeing] * 10, unknown, stopped]


async def fake_seen(ask: GetActivationsRequest) -> ActivationsSeen:
    """Three runs, one of which went to System 2; none under another configuration than the paper's."""
    runs = 3 if ask.config_version in ("", "paper") else 0
    edges = [step / ask.bins for step in range(ask.bins + 1)]
    return ActivationsSeen(
        runs=runs,
        system_two=1 if runs else 0,
        system_two_share=1 / 3 if runs else None,
        runs_by_reason={"activation": runs} if runs else {},
        bins=[ActivationBin(lower=a, upper=b, runs=0, system_two=0) for a, b in pairwise(edges)],
        mean=0.25 if runs else None,
        quantiles={"0.5": 0.25} if runs else {},
        judged=0,
        auroc=None,
        auroc_low=None,
        auroc_high=None,
    )
