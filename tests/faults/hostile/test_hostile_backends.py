"""A hostile model server behind the whole router: its callers get one named error, and the next one gets an answer."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.apis import RpcApi
from tests.support.hostile.raw_server import RawServer, chunked, completion, events, http
from tests.support.stack import ROUTER, RunningRouter, router_at, until

MIXED_FRAMING = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with RawServer() as listening:
        yield listening


@pytest.fixture
async def router(server: RawServer, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    async with router_at(server, database_url, tmp_path) as running:
        yield running


@pytest.fixture
async def client(router: RunningRouter) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as http_client:
        yield http_client


async def asked(client: httpx.AsyncClient, way: str) -> httpx.Response:
    """A chat completion."""
    messages = [{"role": "user", "content": "Say hello."}]
    body = {"model": "metacog/system1", "messages": messages, "stream": way == "streamed"}
    return await client.post("/v1/chat/completions", json=body)


def good(way: str, text: str, **usage: int) -> bytes:
    """A good reply, with this usage."""
    body = events(text) if way == "streamed" else completion(text)
    for name, count in usage.items():
        known = {"completion_tokens": 2, "prompt_tokens": 3}[name]
        body = body.replace(f'"{name}": {known}'.encode(), f'"{name}": {count}'.encode())
    return body


@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_what_is_no_reply_is_a_named_error_and_the_next_caller_gets_an_answer(
    server: RawServer, client: httpx.AsyncClient, way: str
) -> None:
    server.replies = [MIXED_FRAMING + chunked(good(way, "wrong"))]
    rejected = await asked(client, way)
    server.replies = [b"", http(good(way, "right"))]
    answered = await asked(client, way)

    assert (rejected.status_code, rejected.json()["error"]["code"]) == (503, "backend_reply_invalid")
    assert (answered.status_code, "right" in answered.text) == (200, True)


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("count", [2**31, 2**53, 2**63 - 1, 10**30, -1])
async def test_a_usage_that_cannot_be_is_no_internal_error_and_its_run_is_kept(
    server: RawServer, router: RunningRouter, client: httpx.AsyncClient, count: int, way: str
) -> None:
    server.replies = [http(good(way, "well", completion_tokens=count, prompt_tokens=count))]

    reply = await asked(client, way)

    assert (reply.status_code, "well" in reply.text) == (200, True)
    run_id = reply.headers["x-metacog-run-id"]
    await until(lambda: is_kept(client, run_id))
    found = await RpcApi(router.grpc, ROUTER).ask("GetRun", run_id=run_id)
    assert found["run"]["run_id"] == run_id


async def is_kept(client: httpx.AsyncClient, run_id: str) -> bool:
    """Whether the run is there; it is written behind its answer."""
    return (await client.get(f"/v1/runs/{run_id}")).status_code == 200
