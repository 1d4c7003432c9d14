"""Clients that hang up in the middle of a stream: each run ends and is stored, however they leave."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import cast, process, until

HANG_UPS = 120
BODY = {"messages": [{"role": "user", "content": "Tell me."}], "model": "metacog/system1", "stream": True}


@pytest.fixture(scope="module")
def database(new_database: Callable[[], str]) -> str:
    """A database of these tests alone."""
    return new_database()


async def stored(database: str) -> set[str]:
    async with await psycopg.AsyncConnection.connect(database.replace("+psycopg", "")) as connection:
        rows = await (await connection.execute("SELECT run_id FROM router.runs")).fetchall()
    return {row[0] for row in rows}


async def test_the_run_of_a_client_that_hangs_up_ends_and_is_stored(
    scripted: ScriptedLLM, database: str, tmp_path: Path
) -> None:
    scripted.answer = cast(system1="word " * 40)
    scripted.token_delay_s = 0.002
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database,
        "METACOG_HOME": tmp_path,
    }
    async with (
        process("router", **settings) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60) as client,
    ):

        async def hang_up(after: int) -> str:
            """Leave after so many lines, and return the run."""
            async with client.stream("POST", "/v1/chat/completions", json=BODY) as reply:
                lines = reply.aiter_lines()
                for _ in range(after):
                    await anext(lines)
                return reply.headers["x-metacog-run-id"]

        async with asyncio.TaskGroup() as group:
            left = [group.create_task(hang_up(number % 12)) for number in range(HANG_UPS)]
        runs = {task.result() for task in left}

        async def are_stored() -> bool:
            return runs <= await stored(database)

        await until(are_stored)
        await scripted.until(lambda server: server.in_flight == 0)
        metrics = (await client.get("/metrics")).text.splitlines()

    assert len(runs) == HANG_UPS
    assert 'metacog_admitted_in_flight{kind="requests"} 0.0' in metrics
