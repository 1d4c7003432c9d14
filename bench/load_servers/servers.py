"""This module holds the servers that a bench needs; each runs in a process of its own until that is ended."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from multiprocessing.connection import Connection
from typing import cast

import aiohttp
import orjson
import uvicorn
import uvloop
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pyreqwest.client import ClientBuilder

Ready = Connection
Post = Callable[[bytes], Awaitable[bytes]]

TOKENS = 16
USAGE = {"prompt_tokens": 60, "completion_tokens": TOKENS, "total_tokens": 60 + TOKENS}
JSON = {"content-type": "application/json"}

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


# -- a model server that takes a fixed time ---------------------------------------------------------------------------


def _head(kind: str) -> dict[str, object]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "fixed"}


def _completion() -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Well. " * TOKENS}}
    return orjson.dumps({**_head("chat.completion"), "choices": [choice], "usage": USAGE})


def _events() -> list[bytes]:
    head = _head("chat.completion.chunk")
    deltas = [{"role": "assistant", "content": ""}, *({"content": "Well. "} for _ in range(TOKENS))]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({**head, "choices": [], "usage": USAGE})
    return [b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


REPLY = _whole(_completion())
MODELS = _whole(orjson.dumps({"object": "list", "data": [{"id": "fixed", "object": "model"}]}))
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM = [b"%x\r\n%b\r\n" % (len(event), event) for event in _events()]
STREAM_END = b"0\r\n\r\n"


class FixedTime(asyncio.Protocol):
    """This server answers a chat completion after a fixed time, whole or as a stream whose events fill that time.

    `GET /latency/<ms>` sets the time. It does as little as it can, so that time beyond the fixed one belongs to the
    measured call.
    """

    latency_s = 0.0

    def __init__(self) -> None:
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or (length and len(body) < int(length.group(1))):
            return
        self._received = b""
        if head.startswith(b"GET /latency/"):
            FixedTime.latency_s = int(head.split(b" ")[1].rpartition(b"/")[2]) / 1000
            self._write(_whole(b"{}"))
        elif head.startswith(b"GET"):
            self._write(MODELS)
        elif b'"stream":true' in body:
            self._stream()
        else:
            self._after(self.latency_s, REPLY)

    def _stream(self) -> None:
        step_s = self.latency_s / len(STREAM)
        for number, event in enumerate(STREAM, start=1):
            first, last = number == 1, number == len(STREAM)
            self._after(number * step_s, (STREAM_HEAD if first else b"") + event + (STREAM_END if last else b""))

    def _after(self, wait_s: float, data: bytes) -> None:
        if wait_s > 0.0:
            self._loop.call_later(wait_s, self._write, data)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def serve_fixed_time(ready: "Ready[int, None]") -> None:
    """Run the model server; send its port through `ready`."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(FixedTime, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(forever())


# -- the barest proxy that FastAPI allows: what the router could reach if it did nothing -----------------------------


@asynccontextmanager
async def through_pyreqwest(url: str) -> AsyncIterator[Post]:
    """Post with `pyreqwest`."""
    async with ClientBuilder().follow_redirects(False).build() as client:

        async def post(body: bytes) -> bytes:
            reply = await client.post(url).headers(JSON).body_bytes(body).build().send()
            return (await reply.bytes()).to_bytes()

        yield post


@asynccontextmanager
async def through_aiohttp(url: str) -> AsyncIterator[Post]:
    """Post with `aiohttp`."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as client:

        async def post(body: bytes) -> bytes:
            async with client.post(url, data=body, headers=JSON, allow_redirects=False) as reply:
                return await reply.read()

        yield post


def serve_proxy(
    ready: "Ready[int, None]", through: Callable[[str], AbstractAsyncContextManager[Post]], url: str
) -> None:
    """Run a proxy that passes bodies on to `url` and does nothing else; send its port through `ready`."""

    async def forever() -> None:
        app = FastAPI()
        async with through(url) as post:

            @app.post("/v1/chat/completions")
            async def forward(request: Request) -> Response:
                return Response(await post(await request.body()), media_type="application/json")

            config = uvicorn.Config(app, port=0, access_log=False, log_level="warning", server_header=False)
            sock = config.bind_socket()
            sock.listen(2048)
            ready.send(sock.getsockname()[1])
            await uvicorn.Server(config).serve(sockets=[sock])

    uvloop.run(forever())
