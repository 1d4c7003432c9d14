"""This bench measures what one call of each HTTP client costs, and whether cancelling it reaches the server.

A trivial server in another process answers a chat completion's JSON. Each client sends `CALLS` requests, 64 in flight,
three times; the best round counts, since noise only ever adds. The last column decides as much as the first: a client
that drops the task but not the connection leaves the model generating for nobody. Our own client, which stands on
aiohttp, comes last: with its envelope, pools, breaker, deadline and parsing.

    python -m bench.http_clients
"""

import asyncio
import multiprocessing
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import httpx
import orjson
import uvloop
from pyreqwest.client import ClientBuilder

from inference import Backend, BackendConfig, Call, Endpoint, Spend, WorkKind
from kernel.envelope import Limits

CALLS = 3000
IN_FLIGHT = 64
ROUNDS = 3
SLOW_ROUNDS = 1
CANCEL_PATIENCE_S = 1.0

MESSAGES = [{"role": "user", "content": "How are you? " * 20}]
REQUEST = orjson.dumps({"model": "m", "messages": MESSAGES, "max_tokens": 64})
KEY = "key"
REPLY = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Well. " * 40}}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 64, "total_tokens": 124},
    }
)
CONTENT_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
HEADERS = {"content-type": "application/json", "authorization": "Bearer key"}

Post = Callable[[str], Awaitable[bytes]]


# -- the server -------------------------------------------------------------------------------------------------------


class Trivial(asyncio.Protocol):
    """This server answers every POST at once, but none to `/stall`; it counts stalled connections that closed."""

    closed_while_stalled = 0

    def __init__(self) -> None:
        self._got = b""
        self._stalled = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        if not found or (length and len(body) < int(length.group(1))):
            return
        self._got = b""
        if head.startswith(b"POST /stall"):
            self._stalled = True
            return
        reply = REPLY if head.startswith(b"POST") else str(Trivial.closed_while_stalled).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(reply), reply)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a stalled connection."""
        Trivial.closed_while_stalled += self._stalled


def serve(ready: "Connection[int, None]") -> None:
    """Run the server until the process is ended; send its port through `ready`."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Trivial, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(forever())


# -- the clients ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def raw_asyncio() -> AsyncIterator[Post]:
    """Return the floor: streams of asyncio, and as little HTTP as passes."""
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(url: str) -> bytes:
        at = urlsplit(url)
        reader, writer = idle.pop() if idle else await asyncio.open_connection(at.hostname, at.port)
        try:
            writer.write(
                f"POST {at.path} HTTP/1.1\r\nhost: {at.netloc}\r\ncontent-length: {len(REQUEST)}\r\n\r\n".encode()
            )
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        except BaseException:
            writer.transport.abort()
            raise
        idle.append((reader, writer))
        return body

    yield post
    for _, writer in idle:
        writer.close()


@asynccontextmanager
async def with_pyreqwest() -> AsyncIterator[Post]:
    """Return client `pyreqwest`."""
    async with ClientBuilder().follow_redirects(False).build() as client:

        async def post(url: str) -> bytes:
            reply = await client.post(url).headers(HEADERS).body_bytes(REQUEST).build().send()
            return (await reply.bytes()).to_bytes()

        yield post


@asynccontextmanager
async def with_aiohttp() -> AsyncIterator[Post]:
    """Return client `aiohttp`."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4), cookie_jar=aiohttp.DummyCookieJar()
    ) as client:

        async def post(url: str) -> bytes:
            async with client.post(url, data=REQUEST, headers=HEADERS, allow_redirects=False) as reply:
                return await reply.read()

        yield post


@asynccontextmanager
async def with_httpx() -> AsyncIterator[Post]:
    """Return client `httpx`."""
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=None) as client:

        async def post(url: str) -> bytes:
            return (await client.post(url, content=REQUEST, headers=HEADERS)).content

        yield post


@asynccontextmanager
async def with_complete() -> AsyncIterator[Post]:
    """Return our client, drawing one sample."""
    backends: dict[str, Backend] = {}
    limits = Limits(max_generations=1, max_generated_tokens=64, timeout_ms=60_000)
    call = Call(messages=MESSAGES, max_tokens=64, stage="bench", work=WorkKind.SYSTEM_ONE)

    async def post(url: str) -> bytes:
        if url not in backends:
            backends[url] = Backend(BackendConfig(name="bench", endpoints=[Endpoint(url=url, api_key=KEY)], model="m"))
        await backends[url].complete(call, Spend(limits))
        return REPLY

    yield post
    for backend in backends.values():
        await backend.aclose()


@asynccontextmanager
async def with_forward() -> AsyncIterator[Post]:
    """Return our client, passing a request on."""
    backends: dict[str, Backend] = {}
    limits = Limits(max_generations=1, max_generated_tokens=64, timeout_ms=60_000)
    body = {"model": "m", "messages": MESSAGES, "max_tokens": 64}

    async def post(url: str) -> bytes:
        if url not in backends:
            backends[url] = Backend(BackendConfig(name="bench", endpoints=[Endpoint(url=url, api_key=KEY)], model="m"))
        return (await backends[url].forward(body, Spend(limits), "bench")).body

    yield post
    for backend in backends.values():
        await backend.aclose()


CLIENTS = {
    "raw asyncio": raw_asyncio,
    "pyreqwest": with_pyreqwest,
    "aiohttp": with_aiohttp,
    "httpx": with_httpx,
    "ours, complete": with_complete,
    "ours, forward": with_forward,
}


# -- the measurement --------------------------------------------------------------------------------------------------


async def round_of_calls(post: Post, url: str, calls: int) -> tuple[float, float]:
    """Return CPU [ms] and wall time [ms] per call, with `IN_FLIGHT` calls at any time."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            if len(await post(url)) != len(REPLY):
                raise RuntimeError("the server's reply was cut")

    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
    return (time.process_time() - cpu) * 1000 / calls, (time.perf_counter() - wall) * 1000 / calls


async def closed_connections(url: str) -> int:
    """Return stalled connections that the server has seen closed so far."""
    async with aiohttp.ClientSession() as client, client.get(url) as reply:
        return int(await reply.read())


async def cancelling_reaches_the_server(post: Post, url: str) -> bool:
    """Return whether cancelling a call that waits for its reply closes the connection within `CANCEL_PATIENCE_S`."""
    before = await closed_connections(url)
    call = asyncio.ensure_future(post(url + "stall"))
    await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.wait([call])
    until = time.monotonic() + CANCEL_PATIENCE_S
    while time.monotonic() < until:
        if await closed_connections(url) > before:
            return True
        await asyncio.sleep(0.05)
    return False


async def measure(port: int) -> None:
    """Print one line per client."""
    url = f"http://127.0.0.1:{port}/"
    sys.stdout.write(f"{'client':<14} {'CPU ms/call':>12} {'calls/s':>9}   cancelling closes the connection\n")
    for name, client in CLIENTS.items():
        async with client() as post:
            calls, rounds = (CALLS // 4, SLOW_ROUNDS) if name == "httpx" else (CALLS, ROUNDS)
            await round_of_calls(post, url, IN_FLIGHT)
            best = min([await round_of_calls(post, url, calls) for _ in range(rounds)])
            reaches = await cancelling_reaches_the_server(post, url)
        label = "yes" if reaches else "NO"
        sys.stdout.write(f"{name:<14} {best[0]:>12.3f} {1000 / best[1]:>9.0f}   {label}\n")


def main() -> None:
    """Start the server, measure, stop the server."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    uvloop.run(measure(here.recv()))
    server.terminate()


if __name__ == "__main__":
    main()
