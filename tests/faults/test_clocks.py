"""Whose clock decides: leases and the age of runs follow the database's, and no run is deleted where clocks differ."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest

from chassis.schema import migrations
from configuration.services import WITH_SCHEMA
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, Process, cast, process, until

# The clock functions of a server whose clock is set to another time than that of the processes.
SHIFTED = """
CREATE SCHEMA IF NOT EXISTS shifted;
CREATE OR REPLACE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pg_catalog.now() + interval ''{by_s} seconds''';
CREATE OR REPLACE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + interval ''{by_s} seconds''';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = shifted, pg_catalog, public', current_database());
END $$;
TRUNCATE router.runs CASCADE;
"""
RUN = """
INSERT INTO router.runs (run_id, created_at, request_id, key_name, system, strategy, degraded, document)
VALUES (%s, pg_catalog.now() - %s, '', '', '', 'system1', false, '{}')
"""
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database of these tests alone."""
    with Database() as database:
        for service in WITH_SCHEMA:
            migrations.migrate(f"services.{service}", database.url)
        yield database


@asynccontextmanager
async def shifted(database: Database, by_s: int) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection to a database whose clock shows `by_s` seconds more than ours [s]."""
    url = database.url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(SHIFTED.replace("{by_s}", str(by_s)).encode())
        yield connection


async def stored(connection: psycopg.AsyncConnection) -> set[str]:
    return {row[0] for row in await (await connection.execute("SELECT run_id FROM router.runs")).fetchall()}


@asynccontextmanager
async def forgetful_router(scripted: ScriptedLLM, database: Database, folder: Path) -> AsyncIterator[Process]:
    """A router that deletes runs after a day."""
    scripted.answer = cast()
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": folder,
        "METACOG_ROUTER_RETENTION_DAYS": 1,
    }
    async with process("router", **settings) as router:
        yield router


async def test_the_age_of_a_run_follows_the_databases_clock(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    async with shifted(database, 50) as connection:
        await connection.execute(RUN, ("a-day-old-there-only", DAY - timedelta(seconds=25)))
        await connection.execute(RUN, ("not-yet-a-day-old", DAY - timedelta(minutes=10)))
        async with forgetful_router(scripted, database, tmp_path) as router:
            logged = await router.until_said("old records deleted")
            left = await stored(connection)

    assert (logged["count"], left) == (1, {"not-yet-a-day-old"})


@pytest.mark.parametrize("by_s", [-70, 70])
async def test_no_run_is_deleted_while_the_clocks_differ_by_more_than_a_minute(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, by_s: int
) -> None:
    async with shifted(database, by_s) as connection:
        await connection.execute(RUN, ("a-year-old", 365 * DAY))
        async with forgetful_router(scripted, database, tmp_path) as router:
            logged = await router.until_said("old records stay for now")
            left = await stored(connection)

    assert "the clocks of this process and of the database differ by" in logged["problem"]
    assert left == {"a-year-old"}


@pytest.mark.parametrize(("by_s", "is_over"), [(3600, True), (-3600, False)])
async def test_the_lease_of_a_task_follows_the_databases_clock(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, by_s: int, is_over: bool
) -> None:
    scripted.answer = cast()
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": tmp_path,
    }
    task = {"question": "What is 2 + 2?", "request_id": f"lease-{by_s}", "envelope": {"timeout_ms": 4000}}
    # Ours says the opposite: by our clock the lease that a lost replica took is still good, or is over.
    ours = timedelta(minutes=10) if is_over else -timedelta(minutes=10)
    async with (
        shifted(database, by_s) as connection,
        process("delegation", **settings) as delegation,
        httpx.AsyncClient(base_url=delegation.rest, timeout=60) as client,
    ):
        first = (await client.post("/v1/tasks", json=task)).raise_for_status().json()

        async def is_lost() -> bool:
            found = await connection.execute(
                "UPDATE delegation.requests SET task_id = '', expires_at = pg_catalog.now() + %s WHERE request_id = %s",
                (ours, task["request_id"]),
            )
            return found.rowcount == 1

        await until(is_lost)
        again = await client.post("/v1/tasks", json=task)

    if is_over:
        assert again.json()["task_id"] != first["task_id"]
    else:
        assert again.json()["reason"] == "REQUEST_IN_PROGRESS"
