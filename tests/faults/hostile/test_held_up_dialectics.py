"""A dialectic whose assigner, or whose connection to the model server, is held up: no stage begins twice for that."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chassis import database as db
from kernel.roles import CHAIN
from tests.support.hostile.suite import suite
from tests.support.models.llm_replies import Body
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, cast, stage_of

TEXT = "The whole text of the synthesis, down to its last word."


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with Database() as database:
        for service in ("router", "delegation"):
            db.migrate(f"services.{service}", database.url)
        yield database


async def test_a_synthesis_whose_text_came_while_the_assigner_was_held_up_does_not_begin_again(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    timeout_s, loop = 20.0, asyncio.get_running_loop()
    async with suite(scripted.url, database.url, tmp_path) as running:
        assigner = running.services["assigner"].inner.pid
        answers = cast(synthesis=TEXT)
        is_held_up = asyncio.Event()

        def answer(body: Body) -> Sequence[Any]:
            if stage_of(body) == "synthesis" and not is_held_up.is_set():
                os.kill(assigner, signal.SIGSTOP)  # so that the text comes while it sleeps
                loop.call_soon_threadsafe(is_held_up.set)
            return answers(body)

        scripted.answer = answer
        began = loop.time()
        asked = asyncio.create_task(
            running.client.post(
                "/v1/answers",
                json={
                    "question": "Is it so?",
                    "strategy": "dialectic",
                    "fallback": False,
                    "envelope": {"timeout_ms": int(timeout_s * 1000)},
                },
            )
        )
        try:
            await is_held_up.wait()
            left_s = timeout_s - (loop.time() - began)
            await asyncio.sleep(left_s / 2)  # the fault itself: longer than the third that a stage may take to begin
        finally:
            os.kill(assigner, signal.SIGCONT)
        reply = await asked

    stages = reply.json()["run"]["deliberation"]["stages"]
    assert [(stage["stage"], stage["attempts"]) for stage in stages if stage["stage"] == "SYNTHESIS"] == [
        ("SYNTHESIS", 1)
    ]
    assert reply.json()["run"]["answer"] == TEXT


@asynccontextmanager
async def closing_kept_connections(server: str) -> AsyncIterator[str]:
    """Pass requests on to `server`, the first one of each connection; at the second one the connection is closed.

    So it is with a server that closes an idle connection just when a request is under way.
    """
    host, _, port = server.removeprefix("http://").partition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.TaskGroup() as group:
                replies = group.create_task(passed_on(upstream_reader, writer))
                seen = b""
                while part := await reader.read(65_536):
                    seen += part
                    if seen.count(b" HTTP/1.1\r\n") > 1:
                        break
                    upstream_writer.write(part)
                replies.cancel()
        finally:
            writer.close()
            upstream_writer.close()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            writer.write(part)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_kept_connections_that_the_model_server_closes_cost_a_dialectic_nothing(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast(synthesis=TEXT)
    async with closing_kept_connections(scripted.url) as url, suite(url, database.url, tmp_path) as running:
        envelope = {"max_generations": len(CHAIN)}  # a generation for each stage, and none to repeat one
        body = {"question": "Is it so?", "strategy": "dialectic", "fallback": False, "envelope": envelope}
        reply = await running.client.post("/v1/answers", json=body)

    assert reply.status_code == 200, reply.text
    run = reply.json()["run"]
    assert run["answer"] == TEXT
    assert {stage["attempts"] for stage in run["deliberation"]["stages"]} == {1}
