"""As many requests as a router takes at a time, each as large as it takes: the bodies that it holds are bounded."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.soak.model_server import model_server
from chassis.schema import migrations
from tests.faults.conftest import Report
from tests.support.hostile.raw_http import Reply, connection, peak_mib, resident_mib
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, cast, process, router_at

REQUESTS, CHARACTERS, MOST_MIB = 512, (1 << 20) - 1024, 1024


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with Database() as database:
        migrations.migrate("services.router", database.url)
        yield database


@pytest.mark.hard
@pytest.mark.timeout(600)
async def test_512_parallel_requests_of_a_mebibyte_take_less_than_a_gibibyte(
    database: Database, tmp_path: Path, fault: Report
) -> None:
    body = json.dumps({"question": "x" * CHARACTERS, "strategy": "system1"}).encode()
    with model_server() as models:
        settings = {
            "METACOG_INFERENCE_URL": f"{models}/v1",
            "METACOG_DATABASE_URL": database.url,
            "METACOG_HOME": tmp_path,
        }
        limits = httpx.Limits(max_connections=REQUESTS)
        async with (
            process("router", **settings) as router,
            httpx.AsyncClient(base_url=router.rest, timeout=300, limits=limits) as client,
        ):
            before = resident_mib(router.inner.pid)

            async def ask() -> str:
                headers = {"content-type": "application/json"}
                reply = await client.post("/v1/answers", content=body, headers=headers)
                return "answered" if reply.status_code == 200 else str(reply.json()["reason"])

            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(ask()) for _ in range(REQUESTS)]
            seen = Counter(task.result() for task in asked)
            again = await client.post("/v1/answers", json={"question": "Is it so?", "strategy": "system1"})
            peak = peak_mib(router.inner.pid)

    assert peak < MOST_MIB
    assert set(seen) <= {"answered", "OVERLOADED", "BACKEND_UNAVAILABLE"}  # the last: the model server
    assert seen["answered"]
    assert again.status_code == 200
    ends = ", ".join(f"{name} {count}" for name, count in seen.most_common())
    fault("512 parallel requests of 1 MiB", ends, f"memory {before:.0f} MiB, at most {peak:.0f} MiB", "none needed")


def post(body: bytes, length: int, more: str = "") -> bytes:
    """Return a request for an answer that announces `length` bytes and sends these of them."""
    head = "POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}{more}content-length: {length}\r\n\r\n".encode() + body


async def test_bodies_beyond_what_a_router_holds_are_rejected_with_a_time_to_retry_until_others_have_ended(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    body = json.dumps({"question": "x" * 3000, "strategy": "system1"}).encode()
    async with router_at(scripted, database.url, tmp_path, max_held_body_bytes=4096) as router:
        async with connection(router.rest) as slow, connection(router.rest) as further:
            await slow.send(post(b"", len(body), "expect: 100-continue\r\n"))  # it holds what it has announced
            await slow.reader.readuntil(b"HTTP/1.1 100 Continue\r\n\r\n")
            await further.send(post(body, len(body)))
            rejected = await further.reply()
            small = await asked(router.rest, json.dumps({"question": "Is it so?", "strategy": "system1"}).encode())
            await slow.send(body)
            answered = await slow.reply()
        again = await asked(router.rest, body)

    assert (rejected.status, rejected.body["reason"]) == (429, "OVERLOADED")
    assert "retry-after: 1" in rejected.head
    assert "request bodies in progress hold" in rejected.body["detail"]
    assert [small.status, answered.status, again.status] == [200, 200, 200]


async def asked(url: str, body: bytes) -> Reply:
    """Return the reply to a whole request."""
    async with connection(url) as line:
        await line.send(post(body, len(body)))
        return await line.reply()
