"""One caller's failures close a model server to nobody else; a server that fails by itself is left alone.

A caller may have a request that the server fails at, a time limit that it cannot keep, or hang up: none of it says
anything about the server.
"""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from chassis.serving.auth import ApiKey, Keyring
from tests.support.models.scripted_llm import ErrorReply, Hangup, ScriptedLLM, Stall
from tests.support.stack import router_at

RING = Keyring([ApiKey(name=name, sha256=sha256(name.encode()).hexdigest()) for name in ("ann", "bob", "carol")])
# As many failed requests as open a circuit, and more.
MANY = 12


class Client:
    """A client of a router with keys, which asks for single-pass answers."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, key: str, **metacog: object) -> httpx.Response:
        """A chat completion of the holder of `key`."""
        body: dict[str, Any] = {"model": "metacog/system1", "messages": [{"role": "user", "content": "Say hello."}]}
        headers = {"Authorization": f"Bearer {key}"}
        return await self._http.post("/v1/chat/completions", json={**body, "metacog": metacog}, headers=headers)

    async def reason(self, key: str, **metacog: object) -> str:
        """The reason of the error that is the answer; empty for a good answer."""
        reply = await self.ask(key, **metacog)
        return "" if reply.status_code == 200 else str(reply.json()["error"]["code"])

    async def message(self, key: str) -> str:
        """The message of the error that is the answer."""
        return str((await self.ask(key)).json()["error"]["message"])


@pytest.fixture
async def client(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        router_at(scripted, database_url, tmp_path, keyring=RING) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60) as http,
    ):
        yield Client(http)


@pytest.mark.parametrize("failure", [ErrorReply(500, "provoked"), Hangup()], ids=["500", "crash"])
async def test_failures_that_one_caller_provokes_leave_the_server_to_the_others(
    client: Client, scripted: ScriptedLLM, failure: ErrorReply | Hangup
) -> None:
    for _ in range(MANY):
        scripted.fault(*[failure] * 4)
        assert await client.reason("ann")
        scripted.forget_faults()

    assert await client.reason("bob") == ""
    assert await client.reason("ann") == ""


async def test_a_callers_own_time_limit_leaves_the_server_to_the_others(client: Client, scripted: ScriptedLLM) -> None:
    scripted.fault(*[Stall()] * MANY)
    async with asyncio.TaskGroup() as group:
        late = [group.create_task(client.reason("ann", envelope={"timeout_ms": 10_500})) for _ in range(MANY)]

    assert {each.result() for each in late} == {"deadline_exceeded"}
    assert await client.reason("bob") == ""


async def test_callers_who_hang_up_leave_the_server_to_the_others(client: Client, scripted: ScriptedLLM) -> None:
    scripted.fault(*[Stall()] * MANY)
    held = [asyncio.create_task(client.ask("ann")) for _ in range(MANY)]
    await scripted.until(lambda it: it.in_flight == MANY)
    for each in held:
        each.cancel()
    await scripted.until(lambda it: it.disconnects == MANY)

    assert await client.reason("bob") == ""


async def test_a_server_that_fails_for_several_callers_is_left_alone(client: Client, scripted: ScriptedLLM) -> None:
    scripted.fault(*[ErrorReply(500, "broken")] * 1000)
    for _ in range(8):
        for key in ("ann", "bob"):
            await client.ask(key)

    received = len(scripted.requests)
    assert "failed 8 requests of 2 callers just now; it is tried again in" in await client.message("carol")
    assert len(scripted.requests) == received


async def test_a_server_that_is_away_is_left_alone_and_used_again_once_it_is_back(
    client: Client, scripted: ScriptedLLM
) -> None:
    scripted.ready = False
    scripted.fault(*[ErrorReply(500, "broken")] * 1000)
    while "does not answer a probe: status 503" not in await client.message("ann"):
        pass
    received = len(scripted.requests)
    assert "does not answer a probe" in await client.message("bob")
    assert len(scripted.requests) == received

    scripted.ready = True
    scripted.forget_faults()
    while await client.reason("bob") != "":  # after its pause, the next request is preceded by a probe
        pass
