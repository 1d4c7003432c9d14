"""Recalibration maps, and the activations seen, in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.ids import new_id
from chassis.page_tokens import InvalidPageToken
from chassis.serving.auth import ANYONE, ApiKey, Keyring
from chassis.shared_results import SharedResults
from kernel.msv.assessors import AssessorName
from kernel.statistics.recalibration import FittedMap, Method, Point
from kernel.statistics.reliability import calibration_error
from services.router.core.calibration import FittingRules, Progress
from services.router.errors import CalibrationNotFound
from services.router.service.calibration.calibration import get_calibration, rollback_calibration
from services.router.service.calibration.recalibration import Calibrator, refit
from services.router.service.calibration.values import (
    GetActivationsRequest,
    GetCalibrationRequest,
    GetCalibrationResponse,
    RollbackCalibrationRequest,
    RollbackCalibrationResponse,
)
from services.router.store.calibration import (
    CalibrationMapRow,
    CalibrationPinRow,
    PostgresActivations,
    PostgresCalibration,
)
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import RunRow
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, cast, router_at, until

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
RULES = FittingRules(minimum=50, growth=0.2)
SYSTEM_ONE = ("system1", "assessment")


@pytest.fixture(scope="module")
def own_database(new_database: Callable[[], str]) -> str:
    """A database of these tests alone: their feedback would change the confidences of others."""
    return new_database()


@pytest.fixture
async def engine(own_database: str) -> AsyncIterator[AsyncEngine]:
    """The database, empty."""
    engine = db.build_engine(own_database)
    async with engine.begin() as connection:
        for table in (RunFeedbackRow, RunRow, CalibrationMapRow, CalibrationPinRow):
            await connection.execute(delete(table))
    yield engine
    await engine.dispose()


@pytest.fixture
def store(engine: AsyncEngine) -> PostgresCalibration:
    return PostgresCalibration(db.build_sessions(engine))


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
def clock() -> Iterator[datetime]:
    """Moments, a second apart."""
    return (BEGAN + timedelta(seconds=second) for second in range(10**9))


def run_row(**more: object) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "run_id": new_id(),
        "created_at": BEGAN,
        "request_id": "",
        "key_name": "",
        "system": "SYSTEM_ONE",
        "strategy": "system1",
        "degraded": False,
        "activation": None,
        "outcome": "ANSWERED",
        "error_reason": "",
        "confidence": 0.5,
        "confidence_raw": 0.5,
        "confidence_source": "assessment",
        "assessor": "",
        "config_version": "paper",
        "reason": "activation",
        "document": {},
    }
    return {**facts, **more}


def feedback_row(run_id: str, score: float, **more: object) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "key_name": "",
        "feedback_id": new_id(),
        "run_id": run_id,
        "score": score,
        "note": "",
        "teaches": True,
        "counts": True,
        "created_at": BEGAN,
        "request_digest": "",
        "reply": {},
    }
    return {**facts, **more}


async def store_rows(
    engine: AsyncEngine, runs: Sequence[dict[str, Any]], labels: Sequence[dict[str, Any]] = ()
) -> None:
    async with engine.begin() as connection:
        await connection.execute(insert(RunRow), runs)
        if labels:
            await connection.execute(insert(RunFeedbackRow), labels)


def overconfident(n: int, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return confidences of .5 to 1 for answers that are right half as often."""
    confidences = np.round(chance.uniform(0.5, 1, n), 3)
    return confidences, (chance.random(n) < confidences / 2).astype(float)


async def judged(
    engine: AsyncEngine,
    confidences: Sequence[float] | np.ndarray,
    scores: Sequence[float] | np.ndarray,
    *,
    at: datetime = BEGAN,
    **more: object,
) -> None:
    """Store answers with these confidences, and feedback on them."""
    runs = [run_row(confidence=float(c), confidence_raw=float(c), **more) for c in confidences]
    labels = [feedback_row(run["run_id"], float(s), created_at=at) for run, s in zip(runs, scores, strict=True)]
    await store_rows(engine, runs, labels)


async def chosen(store: PostgresCalibration, **target: Any) -> RollbackCalibrationResponse:  # noqa: ANN401
    async def refresh() -> None:
        pass

    ask = RollbackCalibrationRequest(strategy="system1", confidence_source="assessment", **target)
    return await rollback_calibration(ask, key=ANYONE, store=store, refresh=refresh)


async def reliabilities(store: PostgresCalibration, **request: Any) -> GetCalibrationResponse:  # noqa: ANN401
    """A page of reliabilities that nobody else asks for."""
    return await get_calibration(
        GetCalibrationRequest(**request), store=store, minimum=50, pairs=SharedResults(), shared=SharedResults()
    )


async def test_maps_are_fitted_to_feedback_that_counts_on_answers_with_a_confidence(
    engine: AsyncEngine, store: PostgresCalibration
) -> None:
    good, failed, abstained, silent = (
        run_row(),
        run_row(error_reason="DEADLINE_EXCEEDED", outcome=""),
        run_row(outcome="ABSTAINED"),
        run_row(confidence=None, confidence_raw=None, confidence_source=""),
    )
    unlabelled, barred = run_row(), run_row()
    labels = [feedback_row(run["run_id"], 1.0) for run in (good, failed, abstained, silent)]
    again = feedback_row(good["run_id"], 1.0, counts=False, key_name="ann")
    untaught = feedback_row(barred["run_id"], 0.0, teaches=False, counts=False)
    await store_rows(engine, [good, failed, abstained, silent, unlabelled, barred], [*labels, again, untaught])

    assert await store.progress() == [
        Progress(strategy="system1", confidence_source="assessment", judged=1, fits=0, fitted_on=0, since=1)
    ]


async def test_too_little_feedback_makes_no_map(
    engine: AsyncEngine, store: PostgresCalibration, chance: np.random.Generator
) -> None:
    await judged(engine, *overconfident(RULES.minimum - 1, chance))

    assert await refit(store, RULES) == []
    assert (await store.state(*SYSTEM_ONE)).maps == []


async def test_a_map_makes_confidences_of_other_answers_more_reliable(
    engine: AsyncEngine, store: PostgresCalibration, chance: np.random.Generator
) -> None:
    await judged(engine, *overconfident(400, chance))
    calibrator = Calibrator(store)

    [fitted] = await refit(store, RULES)
    await calibrator.refresh()

    confidences, scores = overconfident(4000, chance)
    mapped = [calibrator(*SYSTEM_ONE, float(confidence)) for confidence in confidences]
    before, after = calibration_error(confidences, scores), calibration_error([m for m, _, _ in mapped], scores)
    assert before is not None
    assert after is not None
    assert fitted.improves
    assert {version for _, version, _ in mapped} == {"system1-assessment-1"}
    assert before > 0.35
    assert after < 0.087


async def test_a_map_that_is_no_better_is_stored_and_not_in_force(
    engine: AsyncEngine, store: PostgresCalibration
) -> None:
    tenths = range(1, 10)
    await judged(engine, [n / 10 for n in tenths for _ in range(20)], [i < 2 * n for n in tenths for i in range(20)])

    [fitted] = await refit(store, RULES)

    state = await store.state(*SYSTEM_ONE)
    assert not fitted.improves
    assert (len(state.maps), state.in_force, state.pinned) == (1, None, False)
    assert await store.in_force() == []


async def test_the_next_map_is_fitted_when_a_fifth_more_has_come_in(
    engine: AsyncEngine, store: PostgresCalibration, chance: np.random.Generator, clock: Iterator[datetime]
) -> None:
    fitted = []
    for labels in (100, 19, 1, 0):
        if labels:
            await judged(engine, *overconfident(labels, chance), at=next(clock))
        fitted.append([one.observations for one in await refit(store, RULES, now=lambda: next(clock))])

    assert fitted == [[100], [], [120], []]
    assert [one.version for one in (await store.state(*SYSTEM_ONE)).maps] == [
        "system1-assessment-2",
        "system1-assessment-1",
    ]


async def test_the_choice_of_a_person_stays_until_the_newest_is_requested(
    engine: AsyncEngine, store: PostgresCalibration, chance: np.random.Generator, clock: Iterator[datetime]
) -> None:
    for _ in range(2):
        await judged(engine, *overconfident(100, chance), at=next(clock))
        await refit(store, RULES, now=lambda: next(clock))

    back = await chosen(store, version="system1-assessment-1")
    await judged(engine, *overconfident(100, chance), at=next(clock))
    later = await refit(store, RULES, now=lambda: next(clock))
    pinned = await store.state(*SYSTEM_ONE)
    none = await chosen(store, none=True)
    newest = await chosen(store, newest=True)

    assert (back.previous_version, back.pinned) == ("system1-assessment-2", True)
    assert len(later) == 1
    assert pinned.in_force is not None
    assert (pinned.in_force.version, pinned.pinned) == ("system1-assessment-1", True)
    assert [one.version for one in pinned.maps if not one.in_force] == ["system1-assessment-3", "system1-assessment-2"]
    assert (none.map, none.pinned, none.previous_version) == (None, True, "system1-assessment-1")
    assert newest.map is not None
    assert (newest.map.version, newest.pinned, newest.previous_version) == ("system1-assessment-3", False, "")


async def test_no_map_can_be_chosen_before_there_is_one(
    engine: AsyncEngine, store: PostgresCalibration, chance: np.random.Generator
) -> None:
    await chosen(store, none=True)
    await judged(engine, *overconfident(100, chance))
    await refit(store, RULES)

    state = await store.state(*SYSTEM_ONE)

    assert (len(state.maps), state.in_force, state.pinned) == (1, None, True)


async def test_a_map_of_another_source_is_not_found(store: PostgresCalibration) -> None:
    other = Progress(strategy="arbiter", confidence_source="arbiter", judged=1)
    await store.keep(other, halving(), BEGAN)

    with pytest.raises(CalibrationNotFound):
        await chosen(store, version="arbiter-arbiter-1")
    with pytest.raises(CalibrationNotFound):
        await chosen(store, version="a\x00b")


async def test_an_old_map_that_is_pinned_is_among_those_shown(store: PostgresCalibration) -> None:
    for fits in range(30):
        progress = Progress(strategy="system1", confidence_source="assessment", judged=1, fits=fits)
        await store.keep(progress, halving(), BEGAN)
    await chosen(store, version="system1-assessment-1")

    page = await reliabilities(store)

    [row] = page.reliabilities
    assert row.map is not None
    assert (row.map.version, row.map.in_force, row.pinned) == ("system1-assessment-1", True, True)
    assert [one.version for one in row.earlier_maps] == [f"system1-assessment-{number}" for number in range(30, 10, -1)]


async def test_replicas_that_fit_at_the_same_time_make_one_map(
    engine: AsyncEngine, own_database: str, chance: np.random.Generator
) -> None:
    await judged(engine, *overconfident(100, chance))
    engines = [db.build_engine(own_database) for _ in range(3)]
    replicas = [PostgresCalibration(db.build_sessions(engine)) for engine in engines]

    async with asyncio.TaskGroup() as group:
        fits = [group.create_task(refit(replica, RULES)) for replica in replicas]

    assert sorted(len(fit.result()) for fit in fits) == [0, 0, 1]
    assert len((await replicas[0].state(*SYSTEM_ONE)).maps) == 1
    for one in engines:
        await one.dispose()


async def test_the_rows_of_calibration_have_raw_and_served_figures_and_page_by_name(
    engine: AsyncEngine, store: PostgresCalibration
) -> None:
    halved = [run_row(confidence_raw=1.0, confidence=0.5) for _ in range(4)]
    await store_rows(engine, halved, [feedback_row(run["run_id"], n % 2) for n, run in enumerate(halved)])
    await judged(engine, [0.75], [1.0], strategy="arbiter", confidence_source="arbiter", created_at=BEGAN)

    first = await reliabilities(store, page_size=1)
    second = await reliabilities(store, page_size=1, page_token=first.next_page_token)
    later = await reliabilities(store, since=BEGAN + timedelta(1))

    assert [row.strategy for row in (*first.reliabilities, *second.reliabilities)] == ["arbiter", "system1"]
    [row] = second.reliabilities
    assert (row.raw.calibration_error, row.raw.brier_score) == (0.5, 0.5)
    assert (row.served.calibration_error, row.served.brier_score) == (0.0, 0.25)
    # the mean distance of four coins from two heads, (1·2 + 4·1 + 6·0 + 4·1 + 1·2) / 16 = .75, over 4 answers
    assert row.chance_calibration_error == pytest.approx(0.1875)
    assert (second.next_page_token, later.reliabilities) == ("", [])


async def test_a_token_that_the_router_did_not_give_is_rejected(store: PostgresCalibration) -> None:
    with pytest.raises(InvalidPageToken):
        await store.pairs(GetCalibrationRequest(page_token="the next one"))


def halving() -> FittedMap:
    """A map that serves half of what comes."""
    return FittedMap(
        method=Method.PLATT,
        points=(Point(confidence=0.0, calibrated=0.0), Point(confidence=1.0, calibrated=0.5)),
        observations=100,
        brier_before=0.5,
        brier_after=0.25,
        gain_error=0.01,
    )


async def test_other_replicas_follow_and_a_database_that_is_away_changes_nothing(
    engine: AsyncEngine, store: PostgresCalibration
) -> None:
    calibrator = Calibrator(store, refresh_s=0.05, pause_s=0.01)
    calibrator.start()

    async def served() -> bool:
        return calibrator(*SYSTEM_ONE, 0.8)[:2] == (0.4, "system1-assessment-1")

    assert calibrator(*SYSTEM_ONE, 0.8) == (0.8, "", 0)
    await store.keep(Progress(strategy="system1", confidence_source="assessment", judged=100), halving(), BEGAN)
    await until(served)
    await calibrator.check()
    await calibrator.close()

    away = db.build_engine(f"postgresql+psycopg://nobody@{NO_SERVER}/none")
    calibrator._store = PostgresCalibration(db.build_sessions(away))
    await calibrator.refresh()
    assert await served()
    assert calibrator("arbiter", "arbiter", 0.8) == (0.8, "", 0)
    await away.dispose()


async def test_without_a_database_every_method_raises_that_it_is_away() -> None:
    engine = db.build_engine(f"postgresql+psycopg://nobody@{NO_SERVER}/none")
    store, seen = PostgresCalibration(db.build_sessions(engine)), PostgresActivations(db.build_sessions(engine))
    progress = Progress(strategy="system1", confidence_source="assessment", judged=100)

    for call in (
        store.pairs(GetCalibrationRequest()),
        store.observed(*SYSTEM_ONE, GetCalibrationRequest()),
        store.state(*SYSTEM_ONE),
        store.in_force(),
        store.progress(),
        store.keep(progress, halving(), BEGAN),
        chosen(store, none=True),
        seen.seen(GetActivationsRequest()),
    ):
        with pytest.raises(DatabaseUnavailable, match="the database cannot be reached"):
            await call
    await engine.dispose()


@pytest.fixture
def activations(engine: AsyncEngine) -> PostgresActivations:
    return PostgresActivations(db.build_sessions(engine))


async def test_the_activations_seen_are_counted_by_range_and_reason(
    engine: AsyncEngine, activations: PostgresActivations
) -> None:
    levels = [0.0, 0.1, 0.25, 0.29, 0.45, 1.0]
    runs = [run_row(activation=level, system="SYSTEM_TWO" if level >= 0.45 else "SYSTEM_ONE") for level in levels]
    named = run_row(system="SYSTEM_TWO", reason="requested")
    nowhere = run_row(system="", error_reason="CANCELLED", outcome="")
    await store_rows(engine, [*runs, named, nowhere])

    seen = await activations.seen(GetActivationsRequest(bins=20))

    assert (seen.runs, seen.system_two, seen.system_two_share) == (7, 3, 3 / 7)
    assert seen.runs_by_reason == {"activation": 6, "requested": 1}
    filled = {bin.lower: (bin.runs, bin.system_two) for bin in seen.bins if bin.runs}
    assert filled == {0.0: (1, 0), 0.1: (1, 0), 0.25: (2, 0), 0.45: (1, 1), 0.95: (1, 1)}
    assert seen.mean == pytest.approx(2.09 / 6)
    # between the third and the fourth of six: .25 + .5 (.29 - .25)
    assert seen.quantiles["0.5"] == pytest.approx(0.27)
    assert list(seen.quantiles) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert (seen.judged, seen.auroc) == (0, None)


async def test_how_well_the_activation_separates_wrong_from_right_is_measured_on_system_one_answers(
    engine: AsyncEngine, activations: PostgresActivations
) -> None:
    response = [(0.1, 1.0), (0.2, 0.0), (0.3, 1.0), (0.4, 0.25)]
    runs = [run_row(activation=level) for level, _ in response]
    deliberated = run_row(activation=0.9, strategy="dialectic", system="SYSTEM_TWO")
    labels = [feedback_row(run["run_id"], score) for run, (_, score) in zip(runs, response, strict=True)]
    await store_rows(engine, [*runs, deliberated], [*labels, feedback_row(deliberated["run_id"], 1.0)])

    seen = await activations.seen(GetActivationsRequest())

    # wrong at .2 and .4, right at .1 and .3: three of the four pairs are in order
    assert (seen.judged, seen.auroc) == (4, 0.75)
    assert seen.auroc_low is not None
    assert seen.auroc_high is not None
    assert seen.auroc_low < 0.75 < seen.auroc_high


async def test_a_turn_with_a_cached_decision_does_not_count_among_activations(
    engine: AsyncEngine, activations: PostgresActivations
) -> None:
    runs = [run_row(activation=0.1), run_row(activation=0.2), run_row(activation=0.9, reason="cached")]
    labels = [feedback_row(run["run_id"], score) for run, score in zip(runs, (1.0, 0.0, 1.0), strict=True)]
    await store_rows(engine, runs, labels)

    seen = await activations.seen(GetActivationsRequest())

    assert (seen.runs, seen.runs_by_reason) == (3, {"activation": 2, "cached": 1})
    assert sum(bin.runs for bin in seen.bins) == 2
    assert seen.mean == pytest.approx(0.15)
    assert (seen.judged, seen.auroc) == (2, 1.0)


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ({}, 3),
        ({"since": BEGAN + timedelta(1)}, 1),
        ({"until": BEGAN + timedelta(1)}, 2),
        ({"config_version": "mine"}, 1),
        ({"assessor": "draft"}, 1),
        ({"assessor": "a\x00b"}, 0),
    ],
)
async def test_activations_are_filtered(
    engine: AsyncEngine, activations: PostgresActivations, filters: dict[str, Any], runs: int
) -> None:
    await store_rows(
        engine,
        [
            run_row(activation=0.5),
            run_row(activation=0.5, assessor="draft", created_at=BEGAN + timedelta(2)),
            run_row(activation=0.5, config_version="mine"),
        ],
    )

    seen = await activations.seen(GetActivationsRequest(**filters))

    assert (seen.runs, sum(bin.runs for bin in seen.bins)) == (runs, runs)
    assert (seen.mean is None) == (runs == 0)


@asynccontextmanager
async def router(url: str, llm: ScriptedLLM, spool: Path) -> AsyncIterator[RestApi]:
    async with router_at(llm, url, spool, fitting=RULES) as running:
        yield RestApi(running.rest, ROUTER)


async def test_an_answer_is_served_with_the_confidence_of_the_map_fitted_to_feedback(
    engine: AsyncEngine, own_database: str, scripted: ScriptedLLM, tmp_path: Path, chance: np.random.Generator
) -> None:
    scripted.answer = cast()
    pair = {"strategy": "system1", "confidence_source": AssessorName.VERBALIZED}
    await judged(engine, *overconfident(300, chance), confidence_source=AssessorName.VERBALIZED)
    async with router(own_database, scripted, tmp_path) as api:
        await api.ask("RollbackCalibration", **pair, none=True)
        unmapped = (await api.ask("Answer", question="What is two and two?"))["run"]

        async def fitted() -> bool:
            return (await api.ask("RollbackCalibration", **pair, newest=True))["map"] is not None

        await until(fitted)
        mapped = (await api.ask("Answer", question="What is two and three?"))["run"]

        async def recorded() -> bool:
            return [r["run_id"] for r in (await api.ask("ListRuns", page_size=1))["runs"]] == [mapped["run_id"]]

        await until(recorded)
        stored_run = (await api.ask("GetRun", run_id=mapped["run_id"]))["run"]

    assert unmapped["confidence"] == unmapped["confidence_raw"] == mapped["confidence_raw"] == 0.9
    assert unmapped["calibration_version"] == ""
    assert mapped["calibration_version"] == "system1-verbalized-1"
    assert mapped["confidence"] == pytest.approx(0.45, abs=0.1)
    assert (stored_run["confidence"], stored_run["confidence_raw"]) == (mapped["confidence"], 0.9)


async def test_new_feedback_leads_to_a_fit(
    engine: AsyncEngine, own_database: str, scripted: ScriptedLLM, tmp_path: Path, chance: np.random.Generator
) -> None:
    scripted.answer = cast()
    await judged(engine, *overconfident(RULES.minimum - 1, chance), confidence_source=AssessorName.VERBALIZED)
    async with router(own_database, scripted, tmp_path) as api:
        run = (await api.ask("Answer", question="What is two and two?"))["run"]
        before = await api.ask("GetCalibration")
        response = await api.ask("SubmitFeedback", feedback_id="f-1", run_id=run["run_id"], correct=False)

        async def fitted() -> bool:
            [row] = (await api.ask("GetCalibration"))["reliabilities"]
            return row["map"] is not None

        await until(fitted)
        [row] = (await api.ask("GetCalibration"))["reliabilities"]

    assert before["reliabilities"][0]["map"] is None
    assert response["calibrates"] is True
    assert (row["map"]["version"], row["map"]["observations"]) == ("system1-verbalized-1", RULES.minimum)


@pytest.mark.parametrize("transport", ["rest", "rpc"])
async def test_on_neither_api_may_a_key_that_does_not_teach_choose_a_map(
    engine: AsyncEngine, own_database: str, scripted: ScriptedLLM, tmp_path: Path, transport: str
) -> None:
    keyring = Keyring([ApiKey(name="pupil", sha256=sha256(b"secret").hexdigest())])
    bearer = "Bearer secret"
    async with router_at(scripted, own_database, tmp_path, keyring=keyring) as running:
        rest = RestApi(running.rest, ROUTER, {"authorization": bearer})
        api = rest if transport == "rest" else RpcApi(running.grpc, ROUTER, (("authorization", bearer),))

        with pytest.raises(ApiError) as failed:
            await api.ask("RollbackCalibration", strategy="system1", confidence_source="draft", none=True)
        page = await api.ask("GetCalibration")

    assert (failed.value.code, failed.value.reason) == ("PERMISSION_DENIED", "TEACHING_NOT_ALLOWED")
    assert failed.value.metadata["key_name"] == "pupil"
    assert page["reliabilities"] == []
