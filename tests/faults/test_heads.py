"""Requests that never become one: endless headers, half-sent requests, and too many connections, on every REST port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf

import httpx
import pytest

from chassis.settings import HttpSettings, read
from configuration.services import SERVICES
from tests.support.console import console_at
from tests.support.hostile.raw_http import connection, peak_mib, resident_mib
from tests.support.models.encoder import encoder
from tests.support.stack import NO_SERVER, Process, process

START = b"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
ALONE: dict[str, object] = {
    "METACOG_INFERENCE_MODEL": "any",
    "METACOG_INFERENCE_URL": f"http://{NO_SERVER}/v1",
    "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
}
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
SHORT = {"METACOG_HTTP_HEAD_TIMEOUT_S": 0.3, "METACOG_HTTP_BODY_TIMEOUT_S": 0.3}


@asynccontextmanager
async def server(name: str, **settings: object) -> AsyncIterator[str]:
    """One process that serves HTTP; its URL."""
    if name == "console":
        async with console_at(f"http://{NO_SERVER}", f"http://{NO_SERVER}", **settings) as console:
            yield console.url
    elif name == "encoder":
        with encoder(**settings) as url:
            yield url
    else:
        async with process(name, **ALONE, **settings) as service:
            yield service.rest


@pytest.fixture
async def assigner() -> AsyncIterator[Process]:
    async with process("assigner", **ALONE, **SHORT) as running:
        yield running


@pytest.mark.parametrize("name", [*SERVICES, "console", pytest.param("encoder", marks=pytest.mark.hard)])
async def test_endless_headers_and_half_a_request_end_on_every_port(name: str) -> None:
    async with server(name, **SHORT) as url:
        async with connection(url) as endless:
            await endless.send(START)
            sent = 0
            while sent < 64 << 20 and await endless.send(b"x-more: " + b"x" * 8_000 + b"\r\n"):
                sent += 8_010
            too_large = await endless.reply()
        async with connection(url) as half:
            await half.send(START)
            too_late = await half.reply()

    assert sent < 16 << 20
    assert too_large.status in (431, 0)  # 0: the connection was reset while more was on its way
    assert too_late.status == 408
    assert "connection: close" in too_late.head


async def test_a_head_over_the_limit_is_rejected_by_name(assigner: Process) -> None:
    async with connection(assigner.rest) as line:
        await line.send(START + b"x-long: " + b"x" * 70_000 + b"\r\n\r\n")
        reply = await line.reply()

    assert (reply.status, reply.body["reason"]) == (431, "HEAD_TOO_LARGE")
    assert reply.body["metadata"] == {"limit_bytes": "65536"}


async def test_a_head_below_the_limit_is_served(assigner: Process) -> None:
    async with connection(assigner.rest) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"x" * 60_000 + b"\r\n\r\n")
        reply = await line.answer()

    assert (reply.status, reply.body) == (200, {"status": "alive"})


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"GET /" + b"x" * 8_000, id="path"),
        pytest.param(b"GET / HTTP/1.1\r\nx-one: ", id="one header"),
        pytest.param(START + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: ", id="one trailer"),
        pytest.param(START + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", id="many trailers"),
        pytest.param(START + b"transfer-encoding: chunked\r\n\r\n2;", id="one chunk extension"),
    ],
)
async def test_what_has_no_end_is_not_kept_in_memory(endless: bytes) -> None:
    async with process("assigner", **ALONE) as assigner:
        before = resident_mib(assigner.inner.pid)
        async with connection(assigner.rest) as line:
            await line.send(endless)
            more = b"x-trailer: xxxxxxxxxx\r\n" * 3_000 if endless.endswith(b"\r\n0\r\n") else b"x" * 65_536
            sent = 0
            while sent < 96 << 20 and await line.send(more):
                sent += len(more)
        peak = peak_mib(assigner.inner.pid)

    assert sent < 16 << 20
    assert peak - before < 24


async def test_a_body_that_does_not_arrive_is_given_up_in_the_shape_of_its_path() -> None:
    async with process("router", **ALONE, **SHORT) as router:
        replies = []
        for path in (b"/v1/chat/completions", b"/v1/answers"):
            async with connection(router.rest) as line:
                await line.send(
                    b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                    b"content-length: 100\r\n\r\n{"
                )
                replies.append(await line.reply())
        router.terminate()
        await router.until_said("stopped")

    openai, own = replies
    assert (openai.status, openai.body["error"]["code"]) == (408, "request_timeout")
    assert (own.status, own.body["reason"]) == (408, "REQUEST_TIMEOUT")
    assert not [line for line in router.lines if line.get("level") == "error"]


async def test_a_slow_upload_goes_on_while_its_parts_come_and_its_error_comes_after_its_end() -> None:
    form = b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nwrong\r\n'
    form += b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    async with process("router", **ALONE, **SHORT) as router, connection(router.rest) as line:
        await line.send(
            b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"content-type: multipart/form-data; boundary=x\r\n"
            b"content-length: %d\r\n\r\n" % (len(form) + 1000) + form
        )
        taken = []
        for _ in range(10):
            await asyncio.sleep(0.1)
            taken.append(await line.send(b"y" * 100))
        reply = await line.reply()

    assert taken == [True] * 10
    assert (reply.status, reply.body["error"]["param"]) == (400, "purpose")


async def test_an_upload_that_comes_steadily_ends_after_the_time_that_it_has_in_all() -> None:
    form = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    settings = {"METACOG_HTTP_BODY_TIMEOUT_S": 30, "METACOG_HTTP_UPLOAD_TIMEOUT_S": 0.4}
    async with process("router", **ALONE, **settings) as router, connection(router.rest) as line:
        await line.send(
            b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=x\r\n"
            b"content-length: 100000000\r\n\r\n" + form
        )
        replying = asyncio.create_task(line.reply())
        while not replying.done() and await line.send(b"y" * 100):  # noqa: ASYNC110 - each round sends
            await asyncio.sleep(0)
        reply = await replying

    assert (reply.status, reply.body["error"]["code"]) == (408, "request_timeout")
    assert "within 0.4 s" in reply.body["error"]["message"]


async def test_an_upload_that_stops_is_given_up() -> None:
    async with process("router", **ALONE, **SHORT) as router, connection(router.rest) as line:
        await line.send(
            b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=x\r\n"
            b"content-length: 1000\r\n\r\n--x\r\n"
        )
        reply = await line.reply()

    assert (reply.status, reply.body["error"]["code"]) == (408, "request_timeout")


async def test_half_sent_requests_do_not_pile_up(assigner: Process) -> None:
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(connection(assigner.rest)) for _ in range(200)]
        for line in lines:
            await line.send(START)
        replies = [await line.reply() for line in lines]

    assert {reply.status for reply in replies} == {408}


async def test_bytes_between_requests_do_not_keep_a_connection(assigner: Process) -> None:
    async with connection(assigner.rest) as line:
        await line.send(WHOLE)
        first = await line.answer()
        await line.send(b"\r\n")
        rest = await line.reply()

    assert first.status == 200
    assert rest.status == 408


async def test_a_connection_is_used_again_and_again(assigner: Process) -> None:
    statuses = []
    async with connection(assigner.rest) as line:
        for _ in range(20):
            await line.send(WHOLE)
            statuses.append((await line.answer()).status)
        await asyncio.sleep(0.4)  # longer than a head may take: an idle connection owes none
        await line.send(WHOLE)
        statuses.append((await line.answer()).status)

    assert set(statuses) == {200}


async def test_one_connection_too_many_is_rejected_and_the_others_go_on() -> None:
    async with process("assigner", **ALONE, METACOG_HTTP_MAX_CONNECTIONS=5) as assigner, AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(connection(assigner.rest)) for _ in range(5)]
        async with connection(assigner.rest) as too_many:
            rejected = await too_many.reply()
        for line in lines:
            await line.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        served = [await line.reply() for line in lines]
        async with httpx.AsyncClient(base_url=assigner.rest) as client:
            after = await client.get("/healthz")

    assert (rejected.status, rejected.body["reason"]) == (503, "TOO_MANY_CALLERS")
    assert "retry-after: 1" in rejected.head
    assert [reply.status for reply in served] == [200] * 5
    assert after.status_code == 200


async def test_a_connection_too_many_takes_the_place_of_the_one_idle_for_longest() -> None:
    async with process("assigner", **ALONE, METACOG_HTTP_MAX_CONNECTIONS=3) as assigner, AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(connection(assigner.rest)) for _ in range(3)]
        for line in lines:
            await line.send(WHOLE)
            await line.answer()
        newcomer = await stack.enter_async_context(connection(assigner.rest))
        await newcomer.send(WHOLE)
        taken = await newcomer.answer()
        closed = await lines[0].reply()
        kept = []
        for line in lines[1:]:
            await line.send(WHOLE)
            kept.append((await line.answer()).status)

    assert (taken.status, closed.status, kept) == (200, 0, [200, 200])


async def test_an_idle_connection_is_closed_after_the_time_that_is_set() -> None:
    async with (
        process("assigner", **ALONE, METACOG_HTTP_IDLE_TIMEOUT_S=1) as assigner,
        connection(assigner.rest) as line,
    ):
        await line.send(WHOLE)
        served = await line.answer()
        closed = await line.reply()

    assert (served.status, closed.status) == (200, 0)


def test_clients_close_their_idle_connections_before_the_server_does() -> None:
    assert (httpx.Limits().keepalive_expiry or inf) < read(HttpSettings).http_idle_timeout_s
