"""Faults of each part while clients ask: what they see, what is kept, and how long it takes until all is well again."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from chassis.schema import migrations
from configuration.services import WITH_SCHEMA
from tests.faults.conftest import Report
from tests.support.models.encoder import EncoderProcess
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, Process, cast, free_port, process, until

CLIENTS = 8
# Answers that are awaited before a fault, and after it [count].
ENOUGH = 40

# Every insert fails as it does when there is no space left.
FULL = """
CREATE OR REPLACE FUNCTION router.fail_as_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON router.runs EXECUTE FUNCTION router.fail_as_full();
"""

# An inference server as a process of its own, which can be killed.
SERVER = """
import json
import sys
import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

app = FastAPI()

@app.get("/v1/models")
async def models():
    return {"object": "list", "data": [{"id": "small", "object": "model", "max_model_len": 4096}]}

@app.post("/v1/chat/completions")
async def chat(body: dict):
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "small"}
    chunks = [{**head, "choices": [choice]}, {**head, "choices": [], "usage": usage}]
    lines = [f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks]
    return PlainTextResponse("".join(lines) + "data: [DONE]\\n\\n", media_type="text/event-stream")

uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""

pytestmark = pytest.mark.hard


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with Database() as database:
        for service in WITH_SCHEMA:
            migrations.migrate(f"services.{service}", database.url)
        yield database


@pytest.fixture
def database(server: Database, scripted: ScriptedLLM) -> Iterator[Database]:
    scripted.answer = cast()
    try:
        yield server
    finally:
        server.thaw()
        server.start()


@dataclass
class Load:
    """Clients who ask one question after another.

    Attributes:
        router: Its REST address.
        body: What they ask.
        seen: How requests ended [count]: the strategy that answered, the reason of an error, or `cut off`.
        answered: Runs that were answered.
        slowest_s: Longest time of a request [s].
    """

    router: str
    body: dict[str, Any]
    seen: Counter[str] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    slowest_s: float = 0.0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator["Load"]:
        """Ask until the block ends; what is in flight then is finished."""
        stop = asyncio.Event()
        async with (
            httpx.AsyncClient(base_url=self.router, timeout=60) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(CLIENTS):
                group.create_task(self._ask(client, stop))
            try:
                yield self
            finally:
                stop.set()

    async def more(self, count: int = ENOUGH) -> None:
        """Wait for so many further answers."""
        wanted = len(self.answered) + count
        while len(self.answered) < wanted:  # noqa: ASYNC110 - counted by other tasks
            await asyncio.sleep(0.01)

    async def _ask(self, client: httpx.AsyncClient, stop: asyncio.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            try:
                reply = await client.post("/v1/answers", json=self.body)
            except httpx.HTTPError:
                self.seen["cut off"] += 1
                await asyncio.sleep(0.05)
                continue
            finally:
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            if reply.status_code == 200:
                run = reply.json()["run"]
                self.answered.add(run["run_id"])
                self.seen[run["strategy"]] += 1
            else:
                self.seen[reply.json()["reason"]] += 1
                await asyncio.sleep(0.05)

    def summary(self) -> str:
        """Return what clients saw, for the table."""
        counts = ", ".join(f"{name} {count}" for name, count in self.seen.most_common())
        return f"{counts}; slowest {self.slowest_s:.1f} s"


def settings(scripted: ScriptedLLM, database: Database, folder: Path, **more: object) -> dict[str, object]:
    return {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": folder,
        **more,
    }


async def stored(database: Database) -> set[str]:
    async with await psycopg.AsyncConnection.connect(database.url.replace("+psycopg", "")) as connection:
        rows = await (await connection.execute("SELECT run_id FROM router.runs")).fetchall()
    return {row[0] for row in rows}


async def recovered(router: Process, database: Database, load: Load) -> float:
    """Time until all runs are stored and readiness reports nothing of journal and database [s]."""
    began = time.monotonic()

    async def is_well() -> bool:
        async with httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
            parts = (await client.get("/readyz")).json()["parts"]
        return parts["journal"] == parts["database"] == "ok" and load.answered <= await stored(database)

    async with asyncio.timeout(60):
        await until(is_well)
    return time.monotonic() - began


def kept(load: Load, found: set[str]) -> str:
    return f"{len(load.answered & found):,} of {len(load.answered):,} runs"


async def test_a_database_that_is_frozen_for_ten_seconds(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    async with process("router", **settings(scripted, database, tmp_path)) as router:
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            await load.more()
            database.freeze()
            await asyncio.sleep(10)  # the fault itself
            await load.more()
            database.thaw()
            await load.more()
        took_s = await recovered(router, database, load)

    assert set(load.seen) == {"system1"}
    fault("PostgreSQL frozen for 10 s (SIGSTOP)", load.summary(), kept(load, await stored(database)), f"{took_s:.1f} s")


async def test_a_database_whose_processes_are_killed(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    async with process("router", **settings(scripted, database, tmp_path)) as router:
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            await load.more()
            database.kill()
            await load.more()
            await asyncio.to_thread(database.start)
            await load.more()
        took_s = await recovered(router, database, load)

    assert set(load.seen) == {"system1"}
    fault(
        "PostgreSQL killed (SIGKILL), started again",
        load.summary(),
        kept(load, await stored(database)),
        f"{took_s:.1f} s",
    )


@pytest.mark.timeout(240)
async def test_a_table_that_is_locked_for_sixty_seconds(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    url = database.url.replace("+psycopg", "")
    async with (
        process("router", **settings(scripted, database, tmp_path)) as router,
        await psycopg.AsyncConnection.connect(url) as locking,
    ):
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            await load.more()
            await locking.execute("LOCK TABLE router.runs IN ACCESS EXCLUSIVE MODE")
            await asyncio.sleep(60)  # the fault itself
            await load.more()
            await locking.rollback()
        took_s = await recovered(router, database, load)

    assert set(load.seen) == {"system1"}
    fault("table of runs locked for 60 s", load.summary(), kept(load, await stored(database)), f"{took_s:.1f} s")


async def test_a_database_whose_disk_is_full(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    url = database.url.replace("+psycopg", "")
    async with (
        process("router", **settings(scripted, database, tmp_path)) as router,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as owner,
    ):
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            await load.more()
            await owner.execute(FULL)
            await load.more(200)
            await owner.execute("DROP TRIGGER full_disk ON router.runs")
        took_s = await recovered(router, database, load)

    assert set(load.seen) == {"system1"}
    fault(
        "PostgreSQL's disk full (its error 53100)",
        load.summary(),
        kept(load, await stored(database)),
        f"{took_s:.1f} s",
    )


@pytest.mark.parametrize(
    ("journal", "frozen"), [("fast", False), ("durable", False), ("durable", True)], ids=["fast", "durable", "frozen"]
)
async def test_a_router_that_is_killed(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report, journal: str, frozen: bool
) -> None:
    own = settings(
        scripted,
        database,
        tmp_path,
        METACOG_ROUTER_JOURNAL=journal,
        METACOG_ROUTER_REST_PORT=free_port(),
    )
    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(process("router", **own))
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            if frozen:
                await load.more()
                database.freeze()
            await load.more(200)
            router.inner.kill()
            await router.inner.wait()
            database.thaw()
            killed_at, before = time.monotonic(), set(load.answered)
            again = await stack.enter_async_context(process("router", **own))
            took_s = time.monotonic() - killed_at
            await load.more()

        async def is_well() -> bool:
            return load.answered - before <= await stored(database)

        async with asyncio.timeout(60):
            await until(is_well)
        async with httpx.AsyncClient(base_url=again.rest, timeout=30) as client:
            ready = (await client.get("/readyz")).json()["parts"]["journal"]

    found = await stored(database)
    assert ready == "ok"
    assert set(load.seen) == {"system1", "cut off"}
    if journal == "durable":
        assert load.answered <= found
    and_frozen = ", while PostgreSQL is frozen" if frozen else ""
    fault(
        f"router killed (SIGKILL), journal {journal}{and_frozen}",
        load.summary(),
        kept(load, found),
        f"{took_s:.1f} s, its start",
    )


@pytest.mark.parametrize(
    ("service", "strategy"), [("arbiter", "vote"), ("assigner", "dialectic"), ("delegation", "delegation")]
)
async def test_a_service_that_is_killed_and_started_again(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report, service: str, strategy: str
) -> None:
    port = free_port()
    own = settings(scripted, database, tmp_path)
    there = own | {f"METACOG_{service.upper()}_GRPC_PORT": port, "METACOG_ARBITER_PROGRAMS": "false"}
    async with AsyncExitStack() as stack:
        killed = await stack.enter_async_context(process(service, **there))
        router = await stack.enter_async_context(
            process("router", **own, **{f"METACOG_{service.upper()}_ADDRESS": f"127.0.0.1:{port}"})
        )
        body = {"question": "What is 2 + 2?", "answer_type": "NUMBER", "strategy": strategy}
        load = Load(router.rest, body)
        async with load.going_on():
            await load.more(16)
            killed.inner.kill()
            await load.more(16)
            await stack.enter_async_context(process(service, **there))
            began, by_strategy = time.monotonic(), load.seen[strategy]

            async def is_back() -> bool:
                return load.seen[strategy] > by_strategy

            async with asyncio.timeout(60):
                await until(is_back)
            took_s = time.monotonic() - began
        await recovered(router, database, load)

    assert set(load.seen) <= {strategy, "system1", "dialectic"}
    fault(
        f"{service} killed (SIGKILL), started again",
        load.summary(),
        kept(load, await stored(database)),
        f"{took_s:.1f} s",
    )


async def test_the_whole_group_of_a_hung_service_is_not_waited_for(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    port = free_port()
    own = settings(scripted, database, tmp_path)
    there = own | {"METACOG_ARBITER_GRPC_PORT": port, "METACOG_ARBITER_PROGRAMS": "false"}
    async with (
        process("arbiter", **there) as arbiter,
        process("router", **own, METACOG_ARBITER_ADDRESS=f"127.0.0.1:{port}") as router,
    ):
        question = {"question": "What is 2 + 2?", "answer_type": "NUMBER", "strategy": "vote"}
        load = Load(router.rest, {**question, "envelope": {"timeout_ms": 3000}})
        async with load.going_on():
            await load.more(16)
            os.kill(arbiter.inner.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(8)  # the fault itself
            finally:
                os.kill(arbiter.inner.pid, signal.SIGCONT)
            began, by_votes = time.monotonic(), load.seen["vote"]

            async def is_back() -> bool:
                return load.seen["vote"] > by_votes

            async with asyncio.timeout(60):
                await until(is_back)
            took_s = time.monotonic() - began
        await recovered(router, database, load)

    assert load.slowest_s < 3.0 + 0.5 + 1.0  # the last second is the test machine's
    fault(
        "arbiter frozen for 8 s, requests of 3 s", load.summary(), kept(load, await stored(database)), f"{took_s:.1f} s"
    )


@asynccontextmanager
async def inference_server(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The small server on `port`, once it answers."""
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, str(port))

    async def answers() -> bool:
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{port}/v1/models")).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        await until(answers)
        yield server
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def test_an_inference_server_that_is_killed_and_started_again(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    port = free_port()
    own = settings(scripted, database, tmp_path) | {"METACOG_INFERENCE_URL": f"http://127.0.0.1:{port}/v1"}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(inference_server(port))
        router = await stack.enter_async_context(process("router", **own))
        load = Load(router.rest, {"question": "Is it so?", "strategy": "system1"})
        async with load.going_on():
            await load.more()
            server.kill()
            await asyncio.sleep(5)  # the fault itself
            await stack.enter_async_context(inference_server(port))
            began, before = time.monotonic(), len(load.answered)

            async def is_back() -> bool:
                return len(load.answered) > before

            async with asyncio.timeout(60):
                await until(is_back)
            took_s = time.monotonic() - began
        await recovered(router, database, load)

    assert set(load.seen) == {"system1", "BACKEND_UNAVAILABLE"}
    fault(
        "inference server killed (SIGKILL), started after 5 s",
        load.summary(),
        kept(load, await stored(database)),
        f"{took_s:.1f} s",
    )


async def test_an_encoder_that_is_killed_and_started_again(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    encoder = EncoderProcess()
    try:
        await asyncio.to_thread(encoder.start)
        own = settings(scripted, database, tmp_path, METACOG_ENCODER_URL=encoder.url)
        async with process("router", **own) as router:
            load = Load(router.rest, {"question": "Is it so?"})
            async with load.going_on():
                await load.more()
                encoder.kill()
                await load.more()
                await asyncio.to_thread(encoder.start)
                await load.more()
            took_s = await recovered(router, database, load)
    finally:
        encoder.kill()

    assert not [name for name in load.seen if name.isupper()]
    fault(
        "encoder killed (SIGKILL), started again", load.summary(), kept(load, await stored(database)), f"{took_s:.1f} s"
    )
