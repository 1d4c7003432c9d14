"""Recorded runs in PostgreSQL."""

import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from sqlalchemy import Inspector, Table, create_engine, inspect

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.page_tokens import InvalidPageToken
from chassis.schema import migrations
from kernel.activation import Route, activation
from kernel.conversation import Turn
from kernel.envelope import Envelope, Usage
from kernel.errors import MalformedRequest, RunNotFound
from kernel.msv import MSV
from kernel.outcomes import Outcome
from services.router.service.assessment.values import RouteResponse
from services.router.service.feedback.feedback import FeedbackLabel, effects
from services.router.service.runs.values import ListRunsRequest, Run
from services.router.store import calibration, knowledge_tables
from services.router.store.feedback import PostgresFeedback
from services.router.store.runs import PostgresRuns
from services.router.store.tables import RouterTable
from tests.support.stack import NO_SERVER, ROOT, command, environment, fresh_database

DECLARING = (calibration, knowledge_tables)  # importing a module declares its tables


@pytest.fixture
async def runs(database_url: str) -> AsyncIterator[PostgresRuns]:
    engine = db.build_engine(database_url)
    yield PostgresRuns(db.build_sessions(engine))
    await engine.dispose()


@pytest.fixture
def began() -> datetime:
    """A moment of the far future that no other test uses."""
    return datetime(3000, 1, 1, tzinfo=UTC) + timedelta(seconds=uuid4().int % 10**9)


def run_of(**more: object) -> Run:
    """A run with `more`."""
    facts: dict[str, object] = {
        "run_id": new_id(),
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "messages": [Turn(role="user", content="Is it so?")],
        "messages_digest": "d" * 64,
        "envelope": Envelope(max_generations=1, max_generated_tokens=2, timeout_ms=3),
        **more,
    }
    return Run(**facts)  # type: ignore[arg-type]


def routed(system: Route) -> RouteResponse:
    return RouteResponse(
        system=system,
        strategy="dialectic",
        activation=activation(MSV(correctness=0.45, conflict=0.72)),
        msv=MSV(correctness=0.45, conflict=0.72),
        reason="activation",
        config_version="paper",
        assessor="draft",
        usage=Usage(),
        duration_ms=1.5,
    )


async def store_runs(runs: PostgresRuns, *recorded: Run) -> None:
    assert list(await runs.add([dumps(run) for run in recorded])) == []


async def test_a_run_is_read_back_as_it_was_stored(runs: PostgresRuns) -> None:
    run = run_of(route=routed(Route.SYSTEM_TWO), answer="It is.", confidence=0.75, request_id=new_id())

    await store_runs(runs, run)

    assert orjson.loads(dumps(await runs.get(run.run_id))) == orjson.loads(dumps(run))


async def test_storing_a_run_twice_leaves_the_first(runs: PostgresRuns) -> None:
    run = run_of(answer="first")

    await store_runs(runs, run)
    await store_runs(runs, run_of(run_id=run.run_id, answer="second"))

    assert (await runs.get(run.run_id)).answer == "first"


async def test_a_run_is_not_found_by_another_identifier(runs: PostgresRuns) -> None:
    for name in ("nobody", "", "a\x00b"):
        with pytest.raises(RunNotFound):
            await runs.get(name)


async def test_a_run_is_found_by_the_request_of_its_key(runs: PostgresRuns) -> None:
    request = new_id()
    run = run_of(request_id=request, key_name="ann")
    await store_runs(runs, run, run_of(request_id=request, key_name="bob"))

    found = await runs.by_request("ann", request)

    assert found is not None
    assert found.run_id == run.run_id
    assert await runs.by_request("cid", request) is None


async def test_a_run_that_ended_in_an_error_answers_no_request(runs: PostgresRuns) -> None:
    request = new_id()
    failed, answered = run_of(request_id=request, error_reason="BACKEND_UNAVAILABLE"), run_of(request_id=request)

    await store_runs(runs, failed)
    await store_runs(runs, answered)

    found = await runs.by_request("", request)
    assert found is not None
    assert found.run_id == answered.run_id
    assert (await runs.get(failed.run_id)).request_id == request


async def test_pages_lead_from_the_newest_run_to_the_oldest(runs: PostgresRuns, began: datetime) -> None:
    recorded = [run_of(created_at=began) for _ in range(5)]
    await store_runs(runs, *recorded)
    window: dict[str, Any] = {"since": began, "until": began + timedelta(microseconds=1), "page_size": 2}

    seen, token = [], ""
    for _ in range(3):
        page = await runs.page(ListRunsRequest(**window, page_token=token))
        seen += [run.run_id for run in page.runs]
        token = page.next_page_token

    assert seen == [run.run_id for run in reversed(recorded)]
    assert token == ""


async def test_runs_that_come_between_two_pages_move_nothing(runs: PostgresRuns, began: datetime) -> None:
    recorded = [run_of(created_at=began) for _ in range(4)]
    await store_runs(runs, *recorded)
    first = await runs.page(ListRunsRequest(since=began, page_size=2, until=began + timedelta(seconds=1)))

    await store_runs(runs, run_of(created_at=began))
    second = await runs.page(
        ListRunsRequest(since=began, until=began + timedelta(seconds=1), page_token=first.next_page_token)
    )

    assert [run.run_id for run in second.runs][:2] == [recorded[1].run_id, recorded[0].run_id]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"system": Route.SYSTEM_ONE}, ["one"]),
        ({"system": Route.SYSTEM_TWO}, ["degraded", "two"]),
        ({"strategy": "dialectic"}, ["two"]),
        ({"degraded": True}, ["degraded"]),
        ({"degraded": False}, ["two", "one"]),
        ({"system": Route.SYSTEM_TWO, "degraded": False}, ["two"]),
        ({"strategy": "a\x00b"}, []),
        ({}, ["degraded", "two", "one"]),
    ],
)
async def test_runs_are_filtered(
    runs: PostgresRuns, began: datetime, filters: dict[str, object], expected: list[str]
) -> None:
    await store_runs(
        runs,
        run_of(created_at=began, answer="one", strategy="system1", route=routed(Route.SYSTEM_ONE)),
        run_of(created_at=began, answer="two", strategy="dialectic", route=routed(Route.SYSTEM_TWO)),
        run_of(created_at=began, answer="degraded", strategy="system1", route=routed(Route.SYSTEM_TWO), degraded=True),
    )

    window = {"since": began, "until": began + timedelta(microseconds=1)}
    page = await runs.page(ListRunsRequest(**window, **filters))  # type: ignore[arg-type]

    assert [run.answer for run in page.runs] == expected


async def test_runs_are_filtered_by_outcome_and_feedback(
    runs: PostgresRuns, began: datetime, database_url: str
) -> None:
    answered = run_of(created_at=began, outcome=Outcome.ANSWERED, request_id=new_id(), route=routed(Route.SYSTEM_ONE))
    abstained = run_of(created_at=began, outcome=Outcome.ABSTAINED)
    failed = run_of(created_at=began, error_reason="BACKEND_UNAVAILABLE", request_id=new_id())
    await store_runs(runs, answered, abstained, failed)
    engine = db.build_engine(database_url)
    label = FeedbackLabel(
        feedback_id=new_id(),
        key_name="",
        run_id=abstained.run_id,
        score=0.5,
        note="so so",
        teaches=True,
        created_at=began,
        request_digest="d",
    )
    await PostgresFeedback(db.build_sessions(engine)).keep(
        label, lambda counts: effects(label, abstained, frozenset(), counts=counts)
    )
    await engine.dispose()

    async def found(**filters: object) -> list[Run]:
        window = {"since": began, "until": began + timedelta(microseconds=1)}
        page = await runs.page(ListRunsRequest(**window, **filters))  # type: ignore[arg-type]
        names = {answered.run_id: answered, abstained.run_id: abstained, failed.run_id: failed}
        return [names[run.run_id] for run in page.runs]

    assert await found(outcome=Outcome.ANSWERED) == [answered]
    assert await found(outcome=Outcome.ABSTAINED) == [abstained]
    assert await found(judged=True) == [abstained]
    assert await found(judged=False) == [failed, answered]
    assert await found(assessor="draft") == [answered]
    assert await found(assessor="probe") == []
    assert await found(error_reason="BACKEND_UNAVAILABLE") == [failed]
    assert await found(request_id=answered.request_id) == [answered]
    assert await found(request_id=failed.request_id) == [failed]
    assert await found(request_id="a\x00b", error_reason="a\x00b") == []


async def test_a_run_spooled_by_an_earlier_version_is_stored(runs: PostgresRuns) -> None:
    run = run_of(confidence=0.5)
    document = orjson.loads(dumps(run))
    for later in ("confidence_raw", "calibration_version", "feedback"):
        document.pop(later)

    assert list(await runs.add([orjson.dumps(document)])) == []

    assert (await runs.get(run.run_id)).confidence == 0.5


@pytest.mark.parametrize("size", [0, -1, 201])
async def test_a_page_has_its_bounds(runs: PostgresRuns, size: int) -> None:
    with pytest.raises(MalformedRequest):
        await runs.page(ListRunsRequest(page_size=size))


async def test_a_token_that_the_router_did_not_give_is_rejected(runs: PostgresRuns) -> None:
    with pytest.raises(InvalidPageToken):
        await runs.page(ListRunsRequest(page_token="the next one"))


async def test_what_the_database_cannot_store_is_returned_and_the_rest_is_stored(runs: PostgresRuns) -> None:
    good, bad, odd = run_of(), run_of(strategy="x" * 17), run_of(answer="a\x00b")

    handed_back = await runs.add([dumps(run) for run in (good, bad, odd)])

    assert list(handed_back) == [dumps(bad)]
    assert (await runs.get(good.run_id)).run_id == good.run_id
    assert (await runs.get(odd.run_id)).answer == "ab"


async def test_without_a_database_every_method_raises_that_it_is_away() -> None:
    engine = db.build_engine(f"postgresql+psycopg://nobody@{NO_SERVER}/none")
    runs = PostgresRuns(db.build_sessions(engine))

    for call in (runs.add([dumps(run_of())]), runs.get("x"), runs.by_request("", "x"), runs.page(ListRunsRequest())):
        with pytest.raises(DatabaseUnavailable, match="the database cannot be reached"):
            await call
    await engine.dispose()


def test_the_migration_creates_the_tables_columns_and_indexes_that_the_models_declare(database_url: str) -> None:
    engine = create_engine(fresh_database(database_url))
    migrations.migrate("services.router", engine.url.render_as_string(hide_password=False))

    inspector = inspect(engine)
    created = {name: of_database(inspector, name) for name in inspector.get_table_names("router")}
    engine.dispose()

    created.pop("alembic_version")
    assert created == {table.name: of_model(table) for table in RouterTable.metadata.tables.values()}


async def test_a_database_without_the_schema_is_away_until_it_is_migrated(database_url: str) -> None:
    fresh = fresh_database(database_url)
    engine = db.build_engine(fresh)
    runs, run = PostgresRuns(db.build_sessions(engine)), run_of()
    with pytest.raises(DatabaseUnavailable):
        await runs.add([dumps(run)])

    replicas = [migrating(fresh) for _ in range(3)]
    assert [replica.wait(60) for replica in replicas] == [0, 0, 0]

    await store_runs(runs, run)
    assert (await runs.get(run.run_id)).run_id == run.run_id
    await engine.dispose()


def of_database(inspector: Inspector, table: str) -> tuple[dict[str, bool], set[str | None]]:
    """The columns of a table, by name whether they may be null, and the names of its indexes."""
    constraints = {constraint["name"] for constraint in inspector.get_unique_constraints(table, "router")}
    indexes = {index["name"] for index in inspector.get_indexes(table, "router")}
    columns = inspector.get_columns(table, "router")
    return {column["name"]: column["nullable"] for column in columns}, indexes - constraints


def of_model(table: Table) -> tuple[dict[str, bool], set[str | None]]:
    """The same as a model declares it."""
    nullable = {column.name: bool(column.nullable) for column in table.columns}
    return nullable, {None if index.name is None else str(index.name) for index in table.indexes}


def migrating(url: str) -> "subprocess.Popen[bytes]":
    """A process that brings the schema up to date."""
    return subprocess.Popen([*command("router"), "migrate"], cwd=ROOT, env=environment(METACOG_DATABASE_URL=url))
