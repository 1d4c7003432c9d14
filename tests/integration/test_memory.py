"""What the router holds of large requests is bounded by bytes, and nothing is lost by that."""

import asyncio
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from chassis import database as db
from tests.support.apis import Body
from tests.support.hostile.raw_http import resident_mib
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import process, until

MIB = 1024 * 1024
REQUESTS = 80
# Python holds four bytes for each letter of a text that has a snake.
LARGE = "\N{SNAKE} " + "x" * 1_000_000


async def run_of(client: httpx.AsyncClient, number: int) -> Body:
    """Send a request of 1 MB with an identifier; return its run."""
    body = {"question": f"{number} {LARGE}", "strategy": "system1", "request_id": f"request-{number}"}
    reply = await client.post("/v1/answers", json=body)
    assert reply.status_code == 200, reply.text[:500]
    run: Body = reply.json()["run"]
    return run


async def run_ids(client: httpx.AsyncClient) -> list[str]:
    """Send the requests, four at a time; return their runs."""
    places = asyncio.Semaphore(4)

    async def one(number: int) -> str:
        async with places:
            return str((await run_of(client, number))["run_id"])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(REQUESTS)]
    return [task.result() for task in tasks]


async def are_stored(database_url: str, names: list[str]) -> bool:
    """Return whether the database has these runs."""
    engine = db.build_engine(database_url)
    async with engine.connect() as connection:
        query = text("SELECT count(*) FROM router.runs WHERE run_id = ANY(:names)")
        count = await connection.scalar(query, {"names": names})
    await engine.dispose()
    return bool(count == len(names))


async def recognised(client: httpx.AsyncClient, names: list[str]) -> tuple[str, str]:
    """Send earlier requests again until one is looked up in time; return its run, and that of the first time."""
    for number, name in enumerate(names):
        run = await run_of(client, number)
        if run["idempotency"] is None:
            return run["run_id"], name
    raise AssertionError("the database answered no lookup in time")


@pytest.mark.timeout(600)
async def test_large_requests_with_identifiers_do_not_stay_in_memory_and_are_still_answered_once(
    scripted: ScriptedLLM, own_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = lambda _: ["Yes."]
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": own_database_url,
        "METACOG_ROUTER_SPOOL_DIR": tmp_path,
        "METACOG_ROUTER_RECENT_MAX_BYTES": 16 * MIB,
        "METACOG_ROUTER_QUEUE_MAX_BYTES": 16 * MIB,
    }
    async with process("router", **settings) as router:
        before = resident_mib(router.inner.pid)
        async with httpx.AsyncClient(base_url=router.rest, timeout=300) as client:
            names = await run_ids(client)
            grown = resident_mib(router.inner.pid) - before
            await until(lambda: are_stored(own_database_url, names))
            again, first_time = await recognised(client, names)

    assert len(set(names)) == REQUESTS
    assert again == first_time
    assert grown < 420
