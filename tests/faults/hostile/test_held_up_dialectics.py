"""A dialectic whose assigner, or whose connection to the model server, is held up: no stage begins twice for that."""

import asyncio
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from kernel.roles import CHAIN
from tests.support.hostile.suite import suite
from tests.support.models.llm_replies import Body
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import cast, stage_of

TEXT = "The whole text of the synthesis, down to its last word."


@pytest.fixture(scope="module")
def database(new_database: Callable[[], str]) -> str:
    """A database of these tests alone."""
    return new_database()


async def test_a_synthesis_whose_text_came_while_the_assigner_was_held_up_does_not_begin_again(
    scripted: ScriptedLLM, database: str, tmp_path: Path
) -> None:
    timeout_s, loop = 20.0, asyncio.get_running_loop()
    async with suite(scripted.url, database, tmp_path) as running:
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


def serve_once(connection: socket.socket, server: str) -> None:
    """Pass on one request, and close the connection when the next one has come, without reading it.

    So it is with a server that closes an idle connection just when a request is under way.
    """
    with connection, connection.makefile("rb") as reading:
        head = b"".join(iter(reading.readline, b"\r\n"))
        length = next(
            (int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")), 0
        )
        host, _, port = server.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as upstream:
            upstream.sendall(head + b"\r\n" + reading.read(length))
            with HTTPResponse(upstream) as reply:
                reply.begin()
                body = reply.read()
        kind = reply.getheader("content-type")
        head = f"HTTP/1.1 {reply.status} OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        select.select([connection], [], [])


@contextmanager
def closing_kept_connections(server: str) -> Iterator[str]:
    """Serve what `server` replies, each time once on a connection that is then kept."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):  # the listening socket was closed
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=serve_once, args=(connection, server), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


async def test_kept_connections_that_the_model_server_closes_cost_a_dialectic_nothing(
    scripted: ScriptedLLM, database: str, tmp_path: Path
) -> None:
    scripted.answer = cast(synthesis=TEXT)
    envelope = {"max_generations": len(CHAIN)}  # a generation for each stage, and none to repeat one
    body = {"question": "Is it so?", "strategy": "dialectic", "fallback": False, "envelope": envelope}
    with closing_kept_connections(scripted.url) as url:
        async with suite(url, database, tmp_path) as running:
            reply = await running.client.post("/v1/answers", json=body)

    assert reply.status_code == 200, reply.text
    run = reply.json()["run"]
    assert run["answer"] == TEXT
    assert {stage["attempts"] for stage in run["deliberation"]["stages"]} == {1}
