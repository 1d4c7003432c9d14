"""Load comes from clients in a process of their own that send the next request as soon as the last is answered."""

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import cast

import uvloop

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
CHUNKED_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Job:
    """A job sends `requests` requests to `port`, from `clients` connections that are kept alive."""

    port: int
    body: bytes
    clients: int
    requests: int


@dataclass
class Times:
    """Times hold how long a job took: each answer, its first event [ms each], and all of it [s]."""

    whole_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Client(asyncio.Protocol):
    """A client is one connection that does the least HTTP possible.

    Args:
        request: What to send, over and over.
        left: Ends when enough were sent.
        times: Collects the times.
        done: Set when this client is done; fails with the first answer that is not 200.
    """

    def __init__(self, request: bytes, left: Iterator[int], times: Times, done: "asyncio.Future[None]") -> None:
        self._request = request
        self._left = left
        self._times = times
        self._done = done
        self._received, self._first, self._began = b"", 0.0, 0.0
        self._end: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail when the server disconnects early."""
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Take the time when the answer is complete, and go on."""
        now = time.perf_counter()
        self._received += data
        if self._end is None:
            self._read_head()
        if not self._first and b"data:" in self._received:
            self._first = now
        if not (len(self._received) >= self._end if self._end else self._received.endswith(CHUNKED_END)):
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(RuntimeError(self._received[:2000].decode(errors="replace")))
            self._transport.close()
            return
        self._times.whole_ms.append((now - self._began) * 1000)
        self._times.first_ms.append(((self._first or now) - self._began) * 1000)
        self._next()

    def _read_head(self) -> None:
        head, found, _ = self._received.partition(b"\r\n\r\n")
        if found:
            length = _LENGTH.search(head)
            self._end = len(head) + 4 + int(length.group(1)) if length else 0

    def _next(self) -> None:
        if next(self._left, None) is None:
            self._done.set_result(None)
            self._transport.close()
            return
        self._received, self._end, self._first = b"", None, 0.0
        self._began = time.perf_counter()
        self._transport.write(self._request)


async def done(job: Job) -> Times:
    """Do the job."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{job.port}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(job.body)}\r\n\r\n".encode() + job.body
    times, left, loop = Times(), iter(range(job.requests)), asyncio.get_running_loop()
    ends = [loop.create_future() for _ in range(job.clients)]
    began = time.perf_counter()
    for end in ends:
        await loop.create_connection(lambda end=end: Client(request, left, times, end), "127.0.0.1", job.port)  # type: ignore[misc]
    for end in ends:
        await end
    times.seconds = time.perf_counter() - began
    return times


def generate(jobs: "Connection[Times, Job]") -> None:
    """Do jobs as they come."""
    while True:
        jobs.send(uvloop.run(done(jobs.recv())))
