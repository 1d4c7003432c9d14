"""Batches whose router is killed, or whose database hangs: each line has one result all the same."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from openai import AsyncOpenAI

from tests.faults.conftest import Report
from tests.support.batches import begun, counts, ended, line, results
from tests.support.gateway import HELLO
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, Process, cast, process

# Lines that a router answers at once by default.
AT_ONCE = 8
LINES = [line(f"q{number}") for number in range(40)]
NAMES = {one["custom_id"] for one in LINES}


@asynccontextmanager
async def router_on(scripted: ScriptedLLM, url: str, folder: Path) -> AsyncIterator[Process]:
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": url,
        "METACOG_HOME": folder,
        "METACOG_ROUTER_LAME_DUCK_S": 0,
        "METACOG_ROUTER_JOURNAL": "durable",
    }
    async with process("router", **settings) as router:
        yield router


def client_of(router: Process) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0, timeout=60)


async def killed(router: Process) -> None:
    router.inner.kill()
    await router.ended()


@pytest.mark.timeout(300)
async def test_a_router_killed_in_the_middle_of_a_batch_goes_on_after_its_start_with_one_result_a_line(
    scripted: ScriptedLLM, database: Database, tmp_path: Path, fault: Report
) -> None:
    scripted.answer = cast()
    scripted.token_delay_s = 0.2  # so that a line takes half a second or so
    async with router_on(scripted, database.url, tmp_path) as router, client_of(router) as client:
        made = await begun(client, LINES)
        await scripted.until(lambda llm: len(llm.bodies) >= 12)
        await killed(router)
    began = time.monotonic()
    async with router_on(scripted, database.url, tmp_path) as router, client_of(router) as client:
        before = await client.batches.retrieve(made.id)
        batch = await ended(client, made)
        took_s = time.monotonic() - began
        output, errors = await results(client, batch.output_file_id), await results(client, batch.error_file_id)

    assert before.status == "in_progress"
    assert (batch.status, counts(batch)) == ("completed", [40, 40, 0])
    assert (set(output), errors) == (NAMES, {})
    assert len(scripted.bodies) <= len(LINES) + AT_ONCE  # only what was under way is asked again
    with psycopg.connect(database.url.replace("+psycopg", "")) as connection:
        rows = connection.execute(
            "SELECT request_id, run_id FROM router.runs WHERE request_id LIKE %s", [f"{made.id}-%"]
        )
        runs: dict[str, str] = dict(rows.fetchall())
    assert len(runs) == len(LINES)
    assert set(runs.values()) == {one["response"]["request_id"] for one in output.values()}
    fault(
        "the router is killed in the middle of a batch of 40 lines",
        "the batch goes on after the start, or on another replica",
        f"one result a line; {len(scripted.bodies) - len(LINES)} lines asked again",
        f"{took_s:.0f} s, of which 30 s are the lease of the lines that were under way",
    )


@pytest.mark.hard
@pytest.mark.timeout(300)
async def test_another_replica_goes_on_with_the_lines_of_a_killed_one(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    scripted.token_delay_s = 0.2  # so that a line takes half a second or so
    async with (
        router_on(scripted, database.url, tmp_path / "a") as first,
        router_on(scripted, database.url, tmp_path / "b") as second,
        client_of(second) as client,
    ):
        made = await begun(client, LINES)
        await scripted.until(lambda llm: len(llm.bodies) >= AT_ONCE + 4)
        await killed(first)
        batch = await ended(client, made)
        output = await results(client, batch.output_file_id)

    assert (batch.status, counts(batch), set(output)) == ("completed", [40, 40, 0], NAMES)


@pytest.mark.timeout(300)
async def test_a_batch_waits_without_a_busy_loop_while_the_database_is_frozen_and_loses_no_line(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    scripted.token_delay_s = 0.5
    async with router_on(scripted, database.url, tmp_path) as router, client_of(router) as client:
        made = await begun(client, LINES)
        await scripted.until(lambda llm: len(llm.bodies) >= AT_ONCE)
        database.freeze()
        await asyncio.sleep(4)  # the lines under way get their replies
        watched = psutil.Process(router.inner.pid)
        before, began = watched.cpu_times(), time.monotonic()
        await asyncio.sleep(8)
        after, took_s = watched.cpu_times(), time.monotonic() - began
        asked, scripted.token_delay_s = len(scripted.bodies), 0.0
        chat = await client.chat.completions.create(model="metacog/system1", messages=HELLO)
        database.thaw()
        batch = await ended(client, made)
        output = await results(client, batch.output_file_id)

    assert asked == AT_ONCE  # no further line begins, and none is asked twice
    assert chat.choices[0].message.content == "the system1"
    assert (after.user + after.system - before.user - before.system) / took_s < 0.3
    assert (batch.status, counts(batch), set(output)) == ("completed", [40, 40, 0], NAMES)
    assert len(scripted.bodies) == len(LINES) + 1
