import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pytest

from chassis.errors import DatabaseUnavailable
from chassis.worker import WorkerFailing
from kernel.learning.gains import LabelledPair
from kernel.learning.kind_shares import KindRecord
from kernel.statistics.recalibration import FittedMap, Method, Point
from kernel.votes.competence import SourceRecord
from kernel.votes.probability import LabelCount
from kernel.votes.states import ProbabilityState
from services.router.core.calibration import FittingRules, Progress, is_due, version_in_force, version_of_fit
from services.router.service.calibration.promises import PromiseCounts, StoredPromiseLabel
from services.router.service.calibration.recalibration import Calibrator, refit, served_confidence, without_map
from services.router.service.calibration.values import CalibrationMap, GetCalibrationRequest, ObservedOutcomes

RULES = FittingRules(minimum=60, growth=0.2)
SYSTEM_ONE = {"strategy": "system1", "confidence_source": "assessment"}
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("judged", "fitted_on", "since", "due"),
    [
        (59, 0, 59, False),
        (60, 0, 60, True),
        (71, 60, 11, False),
        (72, 60, 12, True),
        (59, 60, 40, False),
        (60, 60, 40, True),
        (60, 60, 0, False),
    ],
    ids=["too few", "enough", "not yet a fifth more", "a fifth more", "too few are left", "renewed", "nothing new"],
)
def test_when_a_map_is_fitted(judged: int, fitted_on: int, since: int, due: bool) -> None:
    fits = 1 if fitted_on else 0
    progress = Progress(**SYSTEM_ONE, judged=judged, fits=fits, fitted_on=fitted_on, since=since)

    assert is_due(progress, RULES) is due


def test_no_map_is_fitted_without_new_feedback_however_small_the_growth() -> None:
    progress = Progress(**SYSTEM_ONE, judged=60, fits=1, fitted_on=60, since=0)

    assert not is_due(progress, FittingRules(minimum=60, growth=1e-9))


@pytest.mark.parametrize(
    ("newest", "improves", "pinned", "expected"),
    [
        ("b", True, None, "b"),
        ("b", False, None, ""),
        ("", False, None, ""),
        ("b", True, "a", "a"),
        ("b", True, "", ""),
        ("b", False, "b", "b"),
    ],
    ids=["newest", "no better", "none yet", "pinned", "pinned to none", "pinned though no better"],
)
def test_which_map_is_in_force(newest: str, improves: bool, pinned: str | None, expected: str) -> None:
    assert version_in_force(newest, improves=improves, pinned=pinned) == expected


def test_versions_differ_by_strategy_source_and_number() -> None:
    versions = {version_of_fit(s, c, n) for s in ("system1", "arbiter") for c in ("a", "a-1") for n in (1, 11)}

    assert len(versions) == 8


def test_a_run_has_its_confidence_before_and_after_the_map() -> None:
    def halved(_strategy: str, _source: str, confidence: float) -> tuple[float, str, int]:
        return confidence / 2, "v", 90

    fields = served_confidence(halved, "system1", "assessment", 0.8)

    assert fields == {
        "confidence": 0.4,
        "confidence_raw": 0.8,
        "calibration_version": "v",
        "confidence_state": ProbabilityState.FITTED,
        "confidence_labels": 90,
    }
    unmapped = served_confidence(without_map, "system1", "assessment", 0.8)
    assert (unmapped["confidence"], unmapped["confidence_state"]) == (0.8, ProbabilityState.UNCALIBRATED)
    panel = served_confidence(without_map, "delegation", "delegation", 0.58, unmapped=ProbabilityState.PRIOR)
    assert (panel["confidence_state"], panel["confidence_labels"]) == (ProbabilityState.PRIOR, 0)
    assert served_confidence(halved, "system1", "", None) == {"confidence": None}


class FakeMaps:
    """Eighty overconfident answers of System 1, and what is fitted to them."""

    def __init__(self, judged: int = 80) -> None:
        self.stored: list[FittedMap] = []
        self.away = False
        self.looks = 0
        self.fitting = 0
        self.most_fitting = 0
        self._judged = judged

    async def source_records(self) -> Sequence[SourceRecord]:
        return ()

    async def system_one_records(self, model: str) -> Sequence[KindRecord]:
        return ()

    async def newest_label(self) -> datetime | None:
        return None

    async def promise_labels(self, after: int, /) -> Sequence[StoredPromiseLabel]:
        return ()

    async def promise_counts(self) -> PromiseCounts:
        return PromiseCounts()

    async def vote_labels(self) -> Sequence[LabelCount]:
        self._demand()
        return ()

    async def labelled_pairs(self, system_two: Sequence[str], model: str) -> Sequence[LabelledPair]:
        return ()

    async def in_force(self) -> Sequence[CalibrationMap]:
        self._demand()
        versions = [
            CalibrationMap(
                **SYSTEM_ONE,
                version=f"v{number}",
                method=one.method,
                points=one.points,
                observations=one.observations,
                brier_score_before=one.brier_before,
                brier_score_after=one.brier_after,
                fitted_at=BEGAN,
                in_force=True,
            )
            for number, one in enumerate(self.stored, 1)
        ]
        return versions[-1:]

    async def progress(self) -> Sequence[Progress]:
        self._demand()
        self.looks += 1
        fitted_on = self._judged if self.stored else 0
        since = 0 if self.stored else self._judged
        return [
            Progress(**SYSTEM_ONE, judged=self._judged, fits=len(self.stored), fitted_on=fitted_on, since=since),
            Progress(strategy="arbiter", confidence_source="arbiter", judged=3, since=3),
        ]

    async def observed(self, strategy: str, source: str, ask: GetCalibrationRequest) -> ObservedOutcomes:
        if strategy == "arbiter":  # too few to fit a map to; they are looked at for the metrics alone
            return ObservedOutcomes(raw=np.full(3, 0.5), served=np.full(3, 0.5), scores=np.ones(3))
        self.fitting += 1
        self.most_fitting = max(self.most_fitting, self.fitting)
        await asyncio.sleep(0)
        raw = np.linspace(0.5, 1, self._judged)
        return ObservedOutcomes(raw=raw, served=raw, scores=(np.arange(self._judged) % 3 // 2).astype(np.float64))

    async def keep(self, progress: Progress, fitted: FittedMap, fitted_at: datetime) -> bool:
        self.fitting -= 1
        self.stored.append(fitted)
        return True

    def _demand(self) -> None:
        if self.away:
            raise DatabaseUnavailable("the database cannot be reached")


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - the worker has no event for it
            await asyncio.sleep(0.001)


async def until_ready(check: Callable[[], Awaitable[None]]) -> None:
    """Wait until a readiness check passes."""
    async with asyncio.timeout(10):
        while True:
            with suppress(WorkerFailing):
                return await check()
            await asyncio.sleep(0.001)


async def test_only_what_is_due_is_fitted() -> None:
    store = FakeMaps()

    first, second = await refit(store, RULES), await refit(store, RULES)

    assert ([one.observations for one in first], second) == ([80], [])


async def test_maps_are_fitted_one_at_a_time() -> None:
    store = FakeMaps()
    calibrator = Calibrator(store, rules=RULES, refresh_s=60, pause_s=0)
    calibrator.start()

    for _ in range(20):
        calibrator.on_feedback()
        await asyncio.sleep(0)
    await until(lambda: bool(store.stored))
    await calibrator.check()
    await calibrator.close()

    assert (store.most_fitting, len(store.stored)) == (1, 1)


async def test_a_database_that_is_away_leaves_the_last_map_and_the_fit_for_later() -> None:
    store = FakeMaps()
    store.stored.append(
        FittedMap(
            method=Method.PLATT,
            points=(Point(confidence=0.0, calibrated=0.0), Point(confidence=1.0, calibrated=0.5)),
            observations=80,
            brier_before=0.5,
            brier_after=0.25,
            gain_error=0.0,
        )
    )
    calibrator = Calibrator(store, rules=RULES, refresh_s=0.002, pause_s=0.001)
    await calibrator.refresh()
    store.away = True
    calibrator.on_feedback()
    calibrator.start()
    await asyncio.sleep(0.02)

    assert calibrator("system1", "assessment", 0.8)[:2] == (0.4, "v1")
    assert calibrator("dialectic", "assessment", 0.8) == (0.8, "", 0)
    assert store.looks == 0
    store.away = False
    await until(lambda: store.looks > 0)
    await calibrator.close()


async def test_a_bug_in_one_round_does_not_end_the_calibrator_and_readiness_names_it() -> None:
    class Broken(FakeMaps):
        broken = True
        broken_rounds = 0

        async def progress(self) -> Sequence[Progress]:
            if self.broken:
                self.broken_rounds += 1
                raise ZeroDivisionError("a bug")
            return await super().progress()

    store = Broken()
    calibrator = Calibrator(store, rules=RULES, refresh_s=60, pause_s=0)
    calibrator.start()
    await until(lambda: store.broken_rounds > 0)
    with pytest.raises(WorkerFailing, match=r"the worker calibration failed .* ZeroDivisionError: a bug"):
        await calibrator.check()

    store.broken = False
    await until(lambda: calibrator("system1", "assessment", 0.8)[1] == "v1")
    await until_ready(calibrator.check)
    await calibrator.close()


async def test_a_calibrator_that_is_not_started_is_not_ready() -> None:
    with pytest.raises(WorkerFailing, match="the worker calibration has not been started"):
        await Calibrator(FakeMaps()).check()
