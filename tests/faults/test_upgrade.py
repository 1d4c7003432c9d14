"""Versions are exchanged under load: this one reads what the next one stored, and migrations hold no traffic up."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import psycopg
import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import make_url

from chassis.errors import ConfigurationInvalid
from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.schema import migrations
from chassis.schema.locks import SchemaLocked
from configuration.services import WITH_SCHEMA
from kernel.confidence.rules import Checker, ConfidenceSource
from services.delegation.service.task_records import StoredTask, TaskConfidence
from services.delegation.service.values import TaskFeedbackResponse
from services.router.service.feedback.feedback import SubmitFeedbackResponse
from services.router.service.runs.values import Run
from tests.integration.delegation.support import RIGHT, Scenario, scenario_at
from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.labels import delegated, run_of
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, RunningRouter, cast, fresh_database, router_at, router_settings, until
from tests.support.upgrades.next_version import ADDED, WORD, of_next_version
from tests.support.upgrades.schema import ADDED as COLUMN_ADDED
from tests.support.upgrades.schema import DROPPED, FIRST, service_at


def libpq(url: str) -> str:
    """Return the address of a database as psycopg has it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def own_database(database_url: str) -> str:
    """A database of these tests alone, whose rows they change."""
    url = fresh_database(database_url)
    for service in WITH_SCHEMA:
        migrations.migrate(f"services.{service}", url)
    return url


@pytest.fixture
async def router(scripted: ScriptedLLM, own_database: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        connection.execute("TRUNCATE router.runs, router.feedback, router.calibration_maps CASCADE")
    async with router_at(scripted, own_database, tmp_path) as running:
        yield running


@pytest.fixture(params=["rest", "rpc"])
def api(router: RunningRouter, request: pytest.FixtureRequest) -> Api:
    """Each API of the router in turn."""
    return RestApi(router.rest, ROUTER) if request.param == "rest" else RpcApi(router.grpc, ROUTER)


def change(url: str, table: str, column: str, key: tuple[str, str], kind: Any) -> Any:  # noqa: ANN401 - any JSON
    """Write a stored document anew, as the next version may have; return it as it is now."""
    name, value = key
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        found = connection.execute(f"SELECT {column} FROM {table} WHERE {name} = %s", [value]).fetchone()
        assert found is not None
        document = of_next_version(found[0], kind)
        replace(connection, table, column, key, document)
    return document


def replace(
    connection: psycopg.Connection[Any],
    table: str,
    column: str,
    key: tuple[str, str],
    document: Any,  # noqa: ANN401 - any JSON
) -> None:
    """Write a stored document."""
    name, value = key
    connection.execute(f"UPDATE {table} SET {column} = %s WHERE {name} = %s", [Jsonb(document), value])


async def answered(api: Api, router: RunningRouter, **fields: object) -> str:
    """Return the name of a run that is in the database."""
    run_id: str = (await api.ask("Answer", question="Is it so?", strategy="system1", **fields))["run"]["run_id"]
    assert await router.journal.flush(10)
    return run_id


async def stored(router: RunningRouter, *runs: Run) -> None:
    assert list(await router.runs.add([dumps(run) for run in runs])) == []


async def listed(api: Api, **fields: object) -> tuple[list[str], int]:
    """Return the names on all pages of the runs, and how many were left out."""
    names: list[str] = []
    left_out, token = 0, None
    while token != "":
        page = await api.ask("ListRuns", **{"page_size": 50, **fields, **({"page_token": token} if token else {})})
        names += [run["run_id"] for run in page["runs"]]
        left_out, token = left_out + page["unreadable"], page["next_page_token"]
    return names, left_out


async def metric(router: RunningRouter, name: str) -> float:
    """Return a number of `/metrics`; 0 where it is not there yet."""
    async with httpx.AsyncClient() as client:
        lines = (await client.get(f"{router.rest}/metrics")).text.splitlines()
    return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)), 0.0)


async def test_a_run_of_the_next_version_is_listed_read_and_gets_feedback(
    api: Api, router: RunningRouter, own_database: str
) -> None:
    older, run_id, newer = [await answered(api, router) for _ in range(3)]
    change(own_database, "router.runs", "document", ("run_id", run_id), Run)

    assert await listed(api) == ([newer, run_id, older], 0)
    run = (await api.ask("GetRun", run_id=run_id))["run"]
    assert run["answer"]
    assert run["outcome"] == (WORD if isinstance(api, RestApi) else None)
    assert not ADDED.keys() & run.keys()
    reply = await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run_id, correct=True)
    assert (reply["run_id"], reply["teaches"]) == (run_id, True)


async def test_details_of_a_run_by_the_next_version_are_read_and_their_tasks_learn(
    api: Api, router: RunningRouter, own_database: str
) -> None:
    run = delegated("t-1", "t-2")
    await stored(router, run)
    document = orjson.loads(dumps(run))
    details = {**document["deliberation"], **ADDED, "mode": WORD}
    details["profile_updates"] = [{**each, **ADDED} for each in details["profile_updates"]]
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        replace(connection, "router.runs", "document", ("run_id", run.run_id), {**document, "deliberation": details})

    assert await listed(api) == ([run.run_id], 0)
    found = (await api.ask("GetRun", run_id=run.run_id))["run"]
    assert found["deliberation" if isinstance(api, RestApi) else "task"]["task_id"] == "t-1"
    feedback = await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run.run_id, correct=True)
    assert feedback["delegation_tasks"] == 2


async def test_a_strategy_of_the_next_version_is_read(api: Api, router: RunningRouter) -> None:
    run = run_of(strategy="debate", deliberation={"rounds": 3})
    await stored(router, run)

    assert await listed(api) == ([run.run_id], 0)
    assert (await api.ask("GetRun", run_id=run.run_id))["run"]["strategy"] == "debate"


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"document_version": 2, "run": {}}, id="a later form"),
        pytest.param({}, id="empty"),
        pytest.param(["torn"], id="a list"),
        pytest.param("torn", id="a text"),
    ],
)
async def test_a_run_that_cannot_be_read_hides_only_itself(
    api: Api, router: RunningRouter, own_database: str, document: object
) -> None:
    older, run_id, newer = [await answered(api, router) for _ in range(3)]
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        replace(connection, "router.runs", "document", ("run_id", run_id), document)
    counted = await metric(router, 'metacog_stored_unreadable_total{kind="run"}')

    assert await listed(api) == ([newer, older], 1)
    assert await listed(api, page_size=1) == ([newer, older], 1)
    assert await metric(router, 'metacog_stored_unreadable_total{kind="run"}') == counted + 2

    with pytest.raises(ApiError) as raised:
        await api.ask("GetRun", run_id=run_id)
    assert (raised.value.code, raised.value.reason) == ("INTERNAL", "RECORD_UNREADABLE")
    assert run_id in raised.value.message
    assert raised.value.metadata == {"record": "run", "record_id": run_id}


async def test_a_repeated_request_gets_the_answer_that_the_next_version_stored(
    scripted: ScriptedLLM, own_database: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    request_id = new_id()
    async with router_at(scripted, own_database, tmp_path) as first:
        run_id = await answered(RestApi(first.rest, ROUTER), first, request_id=request_id)
    change(own_database, "router.runs", "document", ("run_id", run_id), Run)
    calls = len(scripted.bodies)

    async with router_at(scripted, own_database, tmp_path) as second:
        for api in (RestApi(second.rest, ROUTER), RpcApi(second.grpc, ROUTER)):
            assert await answered(api, second, request_id=request_id) == run_id
    assert len(scripted.bodies) == calls


async def test_feedback_is_repeated_from_a_reply_of_the_next_version(
    api: Api, router: RunningRouter, own_database: str
) -> None:
    run_id, feedback_id = await answered(api, router), new_id()
    first = await api.ask("SubmitFeedback", feedback_id=feedback_id, run_id=run_id, correct=True)
    change(own_database, "router.feedback", "reply", ("feedback_id", feedback_id), SubmitFeedbackResponse)

    assert await api.ask("SubmitFeedback", feedback_id=feedback_id, run_id=run_id, correct=True) == first


async def test_a_spool_that_the_next_version_left_is_written_back_and_read(
    scripted: ScriptedLLM, own_database: str, tmp_path: Path
) -> None:
    readable, unreadable = run_of(), run_of()
    later = of_next_version(orjson.loads(dumps(readable)), Run)
    lines = [dumps(later), dumps({**orjson.loads(dumps(unreadable)), "document_version": 2})]
    spool = f"runs-{router_settings().rest_port}.jsonl"
    (tmp_path / spool).write_bytes(b"\n".join(lines) + b"\n")

    async with router_at(scripted, own_database, tmp_path) as router:
        api = RestApi(router.rest, ROUTER)

        async def is_written_back() -> bool:
            return await router.journal.flush(1)

        await until(is_written_back)
        found = (await api.ask("GetRun", run_id=readable.run_id))["run"]
        with pytest.raises(ApiError, match=r"RECORD_UNREADABLE.*document_version is 2; this version reads up to 1"):
            await api.ask("GetRun", run_id=unreadable.run_id)

    assert found["outcome"] == WORD
    assert not (tmp_path / spool.replace("jsonl", "rejected")).exists()


async def test_a_map_of_the_next_version_is_in_force_and_one_that_cannot_be_read_hides_only_itself(
    api: Api, router: RunningRouter, own_database: str
) -> None:
    point, added = {"confidence": 0.5, "calibrated": 0.25}, {"confidence": 0.5, "calibrated": 0.25, **ADDED}
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        for source, method, points in (("draft", WORD, [added, point]), ("assessment", "ISOTONIC", [{"x": 1}])):
            connection.execute(
                "INSERT INTO router.calibration_maps VALUES (%s, %s, 1, %s, %s, %s, 100, 0.25, 0.2, true, now())",
                ["system1", source, f"system1-{source}-1", method, Jsonb(points)],
            )

    strategies = {each["confidence_source"]: each for each in (await api.ask("GetCalibration"))["reliabilities"]}

    assert strategies["draft"]["map"]["version"] == "system1-draft-1"
    assert strategies["draft"]["map"]["points"] == [point, point]
    assert strategies["assessment"]["map"] is None


async def test_votes_of_the_next_version_are_still_labels(router: RunningRouter, own_database: str) -> None:
    api = RestApi(router.rest, ROUTER)
    evidence = {"agreeing": 2, "valid": 2, "models": 2, "modes": 1}
    runs = [
        run_of(strategy="vote", deliberation={"evidence": each}, confidence_source="vote")
        for each in (evidence, {**evidence, **ADDED}, {"agreeing": 0, "valid": -1})
    ]
    account = {"evidence": evidence, "votes": {"by_source": []}}  # a list in this version
    runs.append(run_of(strategy="vote", deliberation=account, confidence_source="vote"))
    await stored(router, *runs)
    for run in runs:
        await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run.run_id, correct=True)

    async def both_are_counted() -> bool:
        return await metric(router, "metacog_vote_labels") == 3

    await until(both_are_counted)


async def test_a_label_whose_origin_the_next_version_added_is_read(
    api: Api, router: RunningRouter, own_database: str
) -> None:
    run_id = await answered(api, router)
    await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run_id, correct=True, origin="EXAM")
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        connection.execute("UPDATE router.feedback SET origin = %s WHERE run_id = %s", [WORD, run_id])

    [label] = (await api.ask("GetRun", run_id=run_id))["run"]["feedback"]

    assert (label["score"], label["origin"]) == (1.0, WORD if isinstance(api, RestApi) else None)
    assert await listed(api) == ([run_id], 0)


async def test_figures_count_the_runs_whose_numbers_another_version_stored_in_another_form(
    api: Api, router: RunningRouter
) -> None:
    escalation = {"model": "strong", "reason": "UNDECIDED", "answered": True}
    shadow = {"shadow_of": "", "policy": "candidate", "agrees": True}
    served = [orjson.loads(dumps(run_of(strategy="cascade"))) | {"escalation": escalation} for _ in range(2)]
    shadows = [
        orjson.loads(dumps(run_of())) | {"shadow": {**shadow, "shadow_of": run["run_id"]}, "strategy": "system1"}
        for run in served
    ]
    for known, other in (served, shadows):
        known["usage"] = {"cost": 2.0}
        other |= {"usage": {"cost": {"amount": 2}, "stages": []}, "duration_ms": "3 ms"}
    assert list(await router.runs.add([dumps(document) for document in [*served, *shadows]])) == []

    [cascade] = (await api.ask("GetCascades"))["cascades"]
    [comparison] = (await api.ask("GetShadow"))["comparisons"]

    assert (cascade["runs"], cascade["priced"], cascade["cost"]) == (2, 1, 2.0)
    assert (comparison["agreement"]["runs"], comparison["cost"]["pairs"]) == (2, 1)


@pytest.fixture
async def scenario(scripted: ScriptedLLM, own_database: str) -> AsyncIterator[Scenario]:
    async with scenario_at(scripted, own_database) as running:
        running.script(alpha=90)
        yield running


@pytest.mark.parametrize("name", ["rest", "rpc"])
async def test_a_task_of_the_next_version_is_repeated_and_gets_feedback(
    scenario: Scenario, own_database: str, name: str
) -> None:
    request_id = new_id()
    task = await scenario.process(name, request_id=request_id)
    key = ("task_id", task["task_id"])
    change(own_database, "delegation.tasks", "document", key, StoredTask)
    change(own_database, "delegation.tasks", "confidences", key, list[TaskConfidence])
    api, feedback = scenario.service.api(name), {"feedback_id": new_id(), "task_id": task["task_id"], "correct": True}

    assert (await scenario.process(name, request_id=request_id))["task_id"] == task["task_id"]
    first = await api.ask("SubmitFeedback", **feedback)
    assert first["profile_updates"]

    change(
        own_database, "delegation.feedback", "response", ("feedback_id", feedback["feedback_id"]), TaskFeedbackResponse
    )
    again = await api.ask("SubmitFeedback", **feedback)
    assert [each["competence_after"] for each in again["profile_updates"]] == [
        each["competence_after"] for each in first["profile_updates"]
    ]
    assert again["label"]["checker"] == (WORD if name == "rest" else None)


@pytest.mark.parametrize("name", ["rest", "rpc"])
async def test_labels_with_words_of_the_next_version_are_read(scenario: Scenario, own_database: str, name: str) -> None:
    task = await scenario.process(name, expected=RIGHT)
    with psycopg.connect(libpq(own_database), autocommit=True) as connection:
        connection.execute(
            "UPDATE delegation.labelled_confidences SET source = 'NEW_SOURCE' WHERE task_id = %s AND source = %s",
            [task["task_id"], ConfidenceSource.VERBALIZED],
        )
        connection.execute("UPDATE delegation.tasks SET checker = 'ORACLE', correct = true, judged_at = now()")
    api = scenario.service.api(name)

    assert (await api.ask("GetReliability"))["reliabilities"]
    reply = await api.ask("SubmitFeedback", feedback_id=new_id(), task_id=task["task_id"], correct=True)
    assert reply["label"]["checker"] == ("ORACLE" if name == "rest" else None)
    assert "ORACLE" not in list(Checker)


WAITS = "attempt_s=0.3, tables_s=30, replicas_s=30, first_pause_s=0.2, most_pause_s=0.4"
SHORT_WAITS = "attempt_s=0.2, tables_s=1, replicas_s=1, first_pause_s=0.2, most_pause_s=0.4"
LOCKING = "SELECT pg_advisory_lock(1835365473)"


@pytest.fixture
def schema(own_database: str, tmp_path: Path) -> str:
    """A schema of one test, with the table that its first migration makes."""
    name = f"s_{new_id().replace('-', '')}"
    (tmp_path / "first").mkdir()
    with service_at(tmp_path / "first", name, FIRST) as package:
        migrations.migrate(package, own_database)
    return name


@contextmanager
def next_version(tmp_path: Path, schema: str, *more: str, waits: str = WAITS, works_from: str = "") -> Iterator[str]:
    """Yield the package of the next version, which adds a column."""
    (tmp_path / "next").mkdir()
    with service_at(
        tmp_path / "next", schema, FIRST, COLUMN_ADDED, *more, waits=waits, works_from=works_from
    ) as package:
        yield package


def columns(url: str, schema: str) -> list[str]:
    with psycopg.connect(libpq(url)) as connection:
        query = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'things'"
        return [name for (name,) in connection.execute(query, [schema])]


def test_a_migration_that_waits_for_a_table_does_not_hold_up_the_traffic_behind_it(
    own_database: str, tmp_path: Path, schema: str
) -> None:
    query = f"SELECT id FROM {schema}.things"
    slowest, count = 0.0, 0
    with (
        next_version(tmp_path, schema) as package,
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(libpq(own_database)) as reader,
        psycopg.connect(libpq(own_database), autocommit=True) as traffic,
    ):
        traffic.execute("SET statement_timeout = '10s'")
        reader.execute(query)  # its transaction stays open, and with it the lock on the table
        migration = threads.submit(migrations.migrate, package, own_database)
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            began = time.monotonic()
            traffic.execute(query)
            slowest, count = max(slowest, time.monotonic() - began), count + 1
        assert not migration.done()
        assert columns(own_database, schema) == ["id"]

        reader.rollback()
        migration.result(timeout=30)

    assert slowest < 1.5  # with attempts of 0.3 s; without a bound it would be the 3 s of the transaction
    assert count > 100
    assert columns(own_database, schema) == ["id", "colour"]


# Time in which a migration has waited for its lock twice, for 2 s each, and paused between [s].
TWO_ATTEMPTS_S = 6.0


async def test_the_index_of_earlier_answers_waits_for_a_writer_of_runs_and_no_answer_waits_for_it(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    url = fresh_database(database_url)
    migrations.migrate("services.router", url)
    indexes = "SELECT indexname FROM pg_indexes WHERE schemaname = 'router' AND indexname = 'ix_runs_question'"
    async with (
        router_at(scripted, url, tmp_path) as router,
        await psycopg.AsyncConnection.connect(libpq(url)) as writer,
        await psycopg.AsyncConnection.connect(libpq(url), autocommit=True) as owner,
    ):
        await owner.execute("DROP INDEX router.ix_runs_question")
        await owner.execute("UPDATE router.alembic_version SET version_num = '0003_shadow'")
        await writer.execute("LOCK TABLE router.runs IN ROW EXCLUSIVE MODE")  # as each transaction that stores runs
        migration = asyncio.create_task(
            asyncio.to_thread(migrations.migrate, "services.router", url, "0004_earlier_answers")
        )
        rest = RestApi(router.rest, ROUTER)
        run_ids, waiting_since = list[str](), time.monotonic()

        async def has_waited() -> bool:
            run_ids.append((await rest.ask("Answer", question="Is it so?", strategy="system1"))["run"]["run_id"])
            await rest.ask("ListRuns")
            return len(run_ids) > 10 and time.monotonic() - waiting_since > TWO_ATTEMPTS_S

        await until(has_waited)
        assert not migration.done()
        assert not await (await owner.execute(indexes)).fetchall()
        await writer.rollback()
        await migration
        found = await (await owner.execute(indexes)).fetchall()
        assert await router.journal.flush(30)
        stored = {row[0] for row in await (await owner.execute("SELECT run_id FROM router.runs")).fetchall()}

    assert [name for (name,) in found] == ["ix_runs_question"]
    assert set(run_ids) <= stored


def test_a_migration_that_never_gets_its_lock_ends_with_who_holds_it_and_what_to_do(
    own_database: str, tmp_path: Path, schema: str
) -> None:
    with (
        next_version(tmp_path, schema, waits=SHORT_WAITS) as package,
        psycopg.connect(libpq(own_database)) as reader,
    ):
        reader.execute(f"SELECT id FROM {schema}.things")

        with pytest.raises(SchemaLocked) as raised:
            migrations.migrate(package, own_database)

        message = raised.value.message
        assert f"`ALTER TABLE {schema}.things ADD COLUMN colour text` did not get its lock within 0.2 s" in message
        assert (
            f"process {reader.info.backend_pid} ({schema}.things, AccessShareLock, idle in transaction for" in message
        )
        assert "SELECT pg_terminate_backend(" in message
        assert raised.value.reason == "DATABASE_UNAVAILABLE"
        assert columns(own_database, schema) == ["id"]


def test_replicas_wait_for_one_another_for_a_bounded_time(own_database: str, tmp_path: Path, schema: str) -> None:
    with (
        next_version(tmp_path, schema, waits=SHORT_WAITS) as package,
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(libpq(own_database)) as other,
    ):
        other.execute(LOCKING)
        with pytest.raises(SchemaLocked, match=f"another process is migrating: process {other.info.backend_pid} "):
            migrations.migrate(package, own_database)

        migration = threads.submit(migrations.migrate, package, own_database)
        time.sleep(0.5)  # that it goes on waiting has no event
        assert not migration.done()
        other.execute("SELECT pg_advisory_unlock_all()")
        migration.result(timeout=30)

    assert columns(own_database, schema) == ["id", "colour"]


def test_the_version_before_starts_on_the_schema_of_the_next_one(
    own_database: str, tmp_path: Path, schema: str
) -> None:
    with next_version(tmp_path, schema) as package:
        migrations.migrate(package, own_database)
    (tmp_path / "again").mkdir()

    with service_at(tmp_path / "again", schema, FIRST) as package:
        migrations.migrate(package, own_database)

    assert columns(own_database, schema) == ["id", "colour"]


def test_a_version_whose_columns_were_removed_is_rejected(own_database: str, tmp_path: Path, schema: str) -> None:
    with next_version(tmp_path, schema, DROPPED, works_from="0002") as package:
        migrations.migrate(package, own_database)
    for folder in ("first again", "second"):
        (tmp_path / folder.replace(" ", "_")).mkdir()

    with service_at(tmp_path / "second", schema, FIRST, COLUMN_ADDED) as package:
        migrations.migrate(package, own_database)
    with (
        service_at(tmp_path / "first_again", schema, FIRST) as package,
        pytest.raises(ConfigurationInvalid, match="is at revision 0003, which this build does not have"),
    ):
        migrations.migrate(package, own_database)
