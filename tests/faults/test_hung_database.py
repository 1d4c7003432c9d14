"""A database that hangs, which is worse than one that refuses: answers go on, no run is lost, and every wait ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text

from chassis import database as db
from chassis.clock import LEAST_S
from chassis.errors import DatabaseUnavailable
from tests.support.apis import RestApi
from tests.support.arbiter import arbiter_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, Database, Process, cast, process, router_at, until

# What a request may take beyond its time-out, by the promise of the suite; the rest is for a busy test machine [s].
OVER_S, SPARE_S = 0.5, 1.5


@asynccontextmanager
async def router_on(scripted: ScriptedLLM, url: str, folder: Path, **more: object) -> AsyncIterator[Process]:
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": url,
        "METACOG_HOME": folder,
        "METACOG_ROUTER_LAME_DUCK_S": 0,
        **more,
    }
    async with process("router", **settings) as router:
        yield router


async def answer(client: httpx.AsyncClient, **fields: object) -> dict[str, Any]:
    reply = await client.post("/v1/answers", json={"question": "Is it so?", "strategy": "system1", **fields})
    run: dict[str, Any] = reply.raise_for_status().json()["run"]
    return run


async def answers(router: Process, count: int) -> set[str]:
    """Names of the runs of `count` questions, ten at a time."""
    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        names: set[str] = set()
        for _ in range(count // 10):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(answer(client)) for _ in range(10)]
            names |= {task.result()["run_id"] for task in asked}
    return names


def spooled(folder: Path) -> set[str]:
    """Names of the runs on disk."""
    lines = [line for file in (folder / "spool").glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return {json.loads(line)["run_id"] for line in lines if line.strip() and line.endswith(b"}")}


async def stored(url: str) -> set[str]:
    """Names of the runs in the database."""
    async with await psycopg.AsyncConnection.connect(url.replace("+psycopg", "")) as connection:
        rows = await (await connection.execute("SELECT run_id FROM router.runs")).fetchall()
    return {row[0] for row in rows}


async def parts(router: Process) -> dict[str, str]:
    """What readiness says of each part."""
    async with httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
        found: dict[str, str] = (await client.get("/readyz")).json()["parts"]
    return found


async def test_while_the_database_is_frozen_runs_go_to_disk_and_the_router_stops_with_all_of_them(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with router_on(scripted, database.url, tmp_path) as router:
        known = await answers(router, 10)

        async def is_stored() -> bool:
            return known <= await stored(database.url)

        await until(is_stored)
        database.freeze()
        names = await answers(router, 50)

        async def is_spooled() -> bool:
            return names <= spooled(tmp_path)

        async with asyncio.timeout(20):
            await until(is_spooled)

        async def is_reported() -> bool:
            return "of runs wait on disk" in (await parts(router))["journal"]

        async with asyncio.timeout(20):
            await until(is_reported)
        late = await answers(router, 10)  # just before the end
        router.terminate()
        async with asyncio.timeout(30):
            status = await router.ended()

    assert status == 0
    assert names | late <= spooled(tmp_path)
    database.thaw()
    async with router_on(scripted, database.url, tmp_path):

        async def is_written_back() -> bool:
            return known | names | late <= await stored(database.url)

        async with asyncio.timeout(30):
            await until(is_written_back)


async def test_a_vote_is_answered_while_the_database_is_frozen_and_its_instability_is_unknown(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = lambda body: ["Final Answer: 4" if "Final Answer" in str(body["messages"]) else "It is 4."]
    vote = {"question": "What is 2 + 2?", "strategy": "vote", "envelope": {"timeout_ms": 20_000}}
    async with (
        arbiter_at(scripted, programs=False) as arbiter,
        router_at(scripted, database.url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
    ):
        rest = RestApi(router.rest, ROUTER)
        known = (await rest.ask("Answer", **vote))["run"]
        assert await router.journal.flush(10)
        stable = (await rest.ask("Answer", **vote))["run"]
        database.freeze()
        frozen = (await rest.ask("Answer", **vote))["run"]
        database.thaw()

    assert known["answer"] == stable["answer"] == frozen["answer"] == "It is 4."
    assert stable["state"]["parts"]["instability"] == 0.0
    assert "instability" not in frozen["state"]["parts"]
    assert frozen["state"]["unknown_reasons"]["instability"].startswith("DATABASE_UNAVAILABLE")
    assert frozen["state"]["conflict"] == 0.0


async def test_a_request_with_an_identifier_is_answered_in_time_and_says_that_repetitions_are_not_recognised(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_on(scripted, database.url, tmp_path) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60) as client,
    ):
        healthy = await answer(client, request_id="first")
        database.freeze()
        began = time.monotonic()
        run = await answer(client, request_id="second", envelope={"timeout_ms": 2000})
        took_s = time.monotonic() - began
        again = await answer(client, request_id="second", envelope={"timeout_ms": 2000})

    assert healthy["idempotency"] is None
    assert run["idempotency"] == "UNAVAILABLE"
    assert took_s < 2.0  # the model answers at once; the look-up is given up after half a second
    assert again["run_id"] == run["run_id"]  # what the process holds itself is recognised


@pytest.mark.hard
async def test_looking_at_runs_fails_in_bounded_time_while_the_database_is_frozen(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_on(scripted, database.url, tmp_path) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60) as client,
    ):
        await client.get("/v1/runs")
        database.freeze()
        began = time.monotonic()
        reply = await client.get("/v1/runs")
        took_s = time.monotonic() - began

    assert (reply.status_code, reply.json()["reason"]) == (503, "DATABASE_UNAVAILABLE")
    assert took_s < db.CALL_WITHIN_S + OVER_S + SPARE_S


async def test_a_task_of_delegation_ends_at_its_deadline_while_the_database_is_frozen(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": tmp_path,
    }
    async with process("delegation", **settings) as delegation:
        database.freeze()
        async with httpx.AsyncClient(base_url=delegation.rest, timeout=60) as client:
            began = time.monotonic()
            reply = await client.post(
                "/v1/tasks", json={"question": "So?", "request_id": "r", "envelope": {"timeout_ms": 2000}}
            )
            took_s = time.monotonic() - began

    assert reply.status_code in {503, 504}
    assert took_s < 2.0 + OVER_S + SPARE_S


@pytest.mark.hard
async def test_a_port_that_never_answers_is_as_a_database_that_is_away(scripted: ScriptedLLM, tmp_path: Path) -> None:
    scripted.answer = cast()

    async def swallow(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass

    black_hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = black_hole.sockets[0].getsockname()[1]
    async with router_on(scripted, f"postgresql+psycopg://me@127.0.0.1:{port}/metacog", tmp_path) as router:
        names = await answers(router, 10)

        async def is_spooled() -> bool:
            return names <= spooled(tmp_path)

        async with asyncio.timeout(20):
            await until(is_spooled)
        router.terminate()
        async with asyncio.timeout(30):
            status = await router.ended()
    black_hole.close()

    assert status == 0
    assert names <= spooled(tmp_path)


@pytest.mark.hard
async def test_a_locked_table_holds_up_no_answer_and_its_runs_are_written_when_the_lock_is_gone(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    url = database.url.replace("+psycopg", "")
    async with (
        router_on(scripted, database.url, tmp_path) as router,
        await psycopg.AsyncConnection.connect(url) as locking,
    ):
        await locking.execute("LOCK TABLE router.runs IN ACCESS EXCLUSIVE MODE")
        names = await answers(router, 20)

        async def is_spooled() -> bool:
            return names <= spooled(tmp_path)

        async with asyncio.timeout(20):
            await until(is_spooled)
        await locking.rollback()

        async def is_stored() -> bool:
            return names <= await stored(database.url)

        async with asyncio.timeout(30):
            await until(is_stored)


@pytest.mark.parametrize("frozen", [False, True], ids=["database_up", "database_frozen"])
async def test_a_durable_journal_loses_no_answered_run_when_the_process_is_killed(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, frozen: bool
) -> None:
    scripted.answer = cast()
    async with router_on(scripted, database.url, tmp_path, METACOG_ROUTER_JOURNAL="durable") as router:
        answered = await answers(router, 10)

        async def ask(client: httpx.AsyncClient) -> None:
            while True:
                answered.add((await answer(client))["run_id"])

        if frozen:
            database.freeze()
        async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
            asking = [asyncio.create_task(ask(client)) for _ in range(8)]

            async def is_busy() -> bool:
                return len(answered) >= 100

            await until(is_busy)
            router.inner.kill()
            await asyncio.wait(asking)
    database.thaw()

    assert len(answered) >= 100
    assert answered <= spooled(tmp_path) | await stored(database.url)


async def test_with_the_disk_full_too_runs_wait_in_memory_until_the_database_answers(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "runs-0.jsonl").symlink_to("/dev/full")
    async with router_on(scripted, database.url, tmp_path) as router:
        with_database = await answers(router, 10)

        async def is_stored() -> bool:
            return with_database <= await stored(database.url)

        async with asyncio.timeout(30):
            await until(is_stored)
        database.freeze()
        without = await answers(router, 20)

        async def is_reported() -> bool:
            return "No space left on device" in (await parts(router))["journal"]

        async with asyncio.timeout(20):
            await until(is_reported)
        database.thaw()

        async def are_all_stored() -> bool:
            return without <= await stored(database.url)

        async with asyncio.timeout(30):
            await until(are_all_stored)


async def test_a_commit_that_hangs_holds_up_no_answer_and_loses_no_run(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    url = database.url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        await owner.execute("SET synchronous_commit = off")

        async def wait_for_standby(name: str) -> None:
            await owner.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            await owner.execute("SELECT pg_reload_conf()")

        async with router_on(scripted, database.url, tmp_path) as router:
            await wait_for_standby("missing")  # from now on each COMMIT waits for a server that is not there
            try:
                async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
                    began = time.monotonic()
                    run = await answer(client, request_id="once", envelope={"timeout_ms": 2000})
                    took_s = time.monotonic() - began
                names = await answers(router, 10) | {run["run_id"]}

                async def is_safe() -> bool:
                    return names <= spooled(tmp_path) | await stored(database.url)

                async with asyncio.timeout(10):
                    await until(is_safe)
                router.terminate()
                async with asyncio.timeout(30):
                    status = await router.ended()
            finally:
                await wait_for_standby("")

    assert status == 0
    assert took_s < 2.0 + OVER_S
    assert names <= spooled(tmp_path) | await stored(database.url)


async def test_a_rollback_after_the_time_of_its_request_keeps_the_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "ROLLBACK_WITHIN_S", 60.0)
    within_s = 0.5
    engine = db.build_engine(database.url, connections=1)
    sessions = db.build_sessions(engine, within_s=within_s)
    servers: list[int] = []

    async def hang_after_a_statement() -> None:
        async with db.transaction(sessions) as session:
            servers.append(await session.scalar(text("SELECT pg_backend_pid()")))
            database.freeze()
            asyncio.get_running_loop().call_later(within_s + 5 * LEAST_S, database.thaw)
            await asyncio.Event().wait()

    try:
        with pytest.raises(DatabaseUnavailable, match="does not answer within"):
            await hang_after_a_statement()
        async with db.transaction(sessions) as session:
            servers.append(await session.scalar(text("SELECT pg_backend_pid()")))
    finally:
        database.thaw()
        await engine.dispose()

    assert servers[0] == servers[1]
