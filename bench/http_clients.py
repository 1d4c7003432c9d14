"""This bench measures what one call of each HTTP client costs, and whether cancelling it reaches the server.

A trivial server in another process answers a chat completion's JSON. Each client sends `CALLS` requests, 64 in flight,
three times; the best round counts, since noise only ever adds. The last column decides as much as the first: a client
that drops the task but not the connection leaves the model generating for nobody. Our own client comes last: with its
envelope, pools, circuits, deadline and parsing.

`transports` compares our own transport with one of aiohttp (docs/adr/0018): both in one process, round by round in
turns, so that what else the machine does meets both; each round gives one ratio. It takes five minutes.

    python -m bench.http_clients
    python -m bench.http_clients transports
"""

import asyncio
import multiprocessing
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from multiprocessing.connection import Connection
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import httpx
import orjson
import uvloop
from pyreqwest.client import ClientBuilder

from inference import Backend, BackendConfig, Call, Endpoint, Spend, WorkKind
from inference.http.http_transport import HttpTransport
from inference.http.transport import (
    HttpReply,
    HttpStream,
    LostBeforeReply,
    LostMidReply,
    NotSent,
    Transport,
    TransportFailure,
)
from kernel.envelope import Limits

CALLS = 3000
IN_FLIGHT = 64
ROUNDS = 3
SLOW_ROUNDS = 1
CANCEL_PATIENCE_S = 1.0
# Of the comparison of transports: rounds, calls of a round, and events of a streamed reply [count].
TURNS = 11
WHOLE_CALLS = 3000
STREAMED_CALLS = 500
EVENTS = 64

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
EVENT = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":" well"}}]}\n\n'
LAST_EVENTS = (
    b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":64,"total_tokens":124}}\n\n',
    b"data: [DONE]\n\n",
)
STREAM = (*[EVENT] * EVENTS, *LAST_EVENTS)
CONTENT_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
HEADERS = {"content-type": "application/json", "authorization": "Bearer key"}

Post = Callable[[str], Awaitable[bytes]]


# -- the server -------------------------------------------------------------------------------------------------------


class Trivial(asyncio.Protocol):
    """This server answers every POST at once, but none to `/stall`; it counts stalled connections that closed.

    A request for a stream gets its events one by one, each in a write and a turn of the event loop of its own.
    """

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
        if b'"stream":true' in body:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            self._send_event(0)
            return
        reply = REPLY if head.startswith(b"POST") else str(Trivial.closed_while_stalled).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(reply), reply)
        )

    def _send_event(self, place: int) -> None:
        if place < len(STREAM):
            self._transport.write(b"%x\r\n%b\r\n" % (len(STREAM[place]), STREAM[place]))
            asyncio.get_running_loop().call_soon(self._send_event, place + 1)
        else:
            self._transport.write(b"0\r\n\r\n")

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


# -- the comparison of transports ------------------------------------------------------------------------------------


class AiohttpTransport:
    """This transport is what ours would be on aiohttp."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=2.0),
            auto_decompress=False,
            headers={"accept-encoding": "identity"},
        )

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""
        async with self._session.get(url, headers=headers, allow_redirects=False) as reply:
            return HttpReply(status=reply.status, headers=_lower(reply.headers), body=await reply.read())

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> AbstractAsyncContextManager[HttpStream]:
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""
        return self._stream(url, headers, body)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._session.close()

    @asynccontextmanager
    async def _stream(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpStream]:
        began = False
        try:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as reply:
                began = True
                yield HttpStream(status=reply.status, headers=_lower(reply.headers), chunks=_chunks(reply))
        except aiohttp.ClientError as failure:
            raise _failure(failure, began=began) from failure


async def _chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except aiohttp.ClientError as failure:
        raise LostMidReply(str(failure)) from failure


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): text for name, text in headers.items()}


def _failure(failure: aiohttp.ClientError, *, began: bool) -> TransportFailure:
    if isinstance(failure, aiohttp.ClientConnectorError):
        return NotSent(str(failure))
    return LostMidReply(str(failure)) if began else LostBeforeReply(str(failure))


def _transports() -> Mapping[str, Transport]:
    return {"own": HttpTransport(connect_timeout_s=2.0, idle_timeout_s=4.0), "aiohttp": AiohttpTransport()}


def _transport_calls(transport: Transport) -> Mapping[str, Post]:
    """Return the two kinds of calls of a bare transport; each returns the whole body."""
    streamed_body = orjson.dumps({**orjson.loads(REQUEST), "stream": True})

    async def whole(url: str) -> bytes:
        async with transport.stream(url, HEADERS, REQUEST) as reply:
            return await reply.read()

    async def streamed(url: str) -> bytes:
        async with transport.stream(url, HEADERS, streamed_body) as reply:
            return await reply.read()

    return {"transport, whole": whole, "transport, streamed": streamed}


def _client_calls(transport: Transport, url: str) -> Mapping[str, Post]:
    """Return the two kinds of calls of our client on a transport; each returns what is passed on."""
    endpoints = [Endpoint(url=url, api_key=KEY)]
    backend = Backend(BackendConfig(name="bench", endpoints=endpoints, model="m"), transport=transport)
    limits = Limits(max_generations=1, max_generated_tokens=64, timeout_ms=60_000)
    body = {"model": "m", "messages": MESSAGES, "max_tokens": 64}
    usage = {**body, "stream": True, "stream_options": {"include_usage": True}}

    async def whole(_: str) -> bytes:
        return (await backend.forward(body, Spend(limits), "bench")).body

    async def streamed(_: str) -> bytes:
        async with await backend.forward_stream(usage, Spend(limits), "bench") as stream:
            return b"".join([event.raw async for event in stream])

    return {"client, whole": whole, "client, streamed": streamed}


async def cpu_ms(post: Post, url: str, calls: int, expected: int) -> float:
    """Return the CPU time of this process for a call, with `IN_FLIGHT` calls at any time [ms]."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            if len(await post(url)) != expected:
                raise RuntimeError("the server's reply was cut")

    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
    return (time.process_time() - began) * 1000 / calls


async def compare(port: int) -> None:
    """Print one line per kind of call: both transports, and the ratio of each round."""
    url = f"http://127.0.0.1:{port}/"
    transports = _transports()
    calls = {name: {**_transport_calls(each), **_client_calls(each, url)} for name, each in transports.items()}
    sys.stdout.write(f"{'CPU of a call [ms]':<22} {'own':>7} {'aiohttp':>8}   aiohttp / own: median (least..most)\n")
    for kind in calls["own"]:
        is_streamed = kind.endswith("streamed")
        count, expected = (STREAMED_CALLS, len(b"".join(STREAM))) if is_streamed else (WHOLE_CALLS, len(REPLY))
        for name in transports:
            await cpu_ms(calls[name][kind], url, IN_FLIGHT, expected)
        rounds: list[Mapping[str, float]] = []
        for turn in range(TURNS):
            order: Sequence[str] = ("own", "aiohttp") if turn % 2 else ("aiohttp", "own")
            rounds.append({name: await cpu_ms(calls[name][kind], url, count, expected) for name in order})
        own, other = (statistics.median([each[name] for each in rounds]) for name in ("own", "aiohttp"))
        ratios = sorted(each["aiohttp"] / each["own"] for each in rounds)
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f}), {TURNS} rounds of {count}"
        sys.stdout.write(f"{kind:<22} {own:>7.3f} {other:>8.3f}   {spread}\n")
        sys.stdout.flush()
    for transport in transports.values():
        await transport.aclose()


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
    uvloop.run((compare if sys.argv[1:] == ["transports"] else measure)(here.recv()))
    server.terminate()


if __name__ == "__main__":
    main()
