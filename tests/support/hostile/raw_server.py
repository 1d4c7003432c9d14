r"""An inference server that answers with bytes of a test's choice, however wrong they are as HTTP.

async with RawServer() as server:
    server.replies = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"]
    ...                                            # one reply for each chat completion; the last one again and again
    assert server.requests[0].connection == 1
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "raw"
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A reply as it should be."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(body: bytes, size: int = 1000) -> bytes:
    """A body in chunks, with its end."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def completion(text: str) -> bytes:
    """The body of a chat completion."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    document = {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}
    return json.dumps(document).encode()


def events(text: str) -> bytes:
    """The body of the same, streamed."""
    first = {"index": 0, "delta": {"role": "assistant", "content": text}}
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    chunks: list[dict[str, Any]] = [{"choices": [first]}, {"choices": [last]}, {"choices": [], "usage": usage}]
    written = [json.dumps({"id": "c", "model": MODEL, **chunk}).encode() for chunk in chunks]
    return b"".join(b"data: %b\n\n" % data for data in (*written, b"[DONE]"))


@dataclass(frozen=True)
class RawRequest:
    """A request that was received, with the number of its connection, from 1."""

    head: bytes
    body: bytes
    connection: int

    @property
    def authorization(self) -> str:
        """The `Authorization` header; empty without one."""
        lines = self.head.decode("latin-1").split("\r\n")
        return next((line.split(": ", 1)[1] for line in lines if line.lower().startswith("authorization: ")), "")

    @property
    def document(self) -> dict[str, Any]:
        """The JSON in the body."""
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class RawServer:
    """The server, in the loop of the test; an async context.

    Attributes:
        replies: Pieces of the reply to each chat completion; the last reply is used again and again.
        hangs_up: Whether it closes the connection after each reply.
        greeting: What it sends as soon as a client connects.
        lists: The reply to a request for its models; None: it does not answer.
        requests: Chat completions received.
        listings: Requests for its models received.
        sent: Bytes of replies that the network took [bytes].
        closed: Connections that have ended [count].
    """

    replies: Sequence[bytes | Callable[[], Iterable[bytes]]] = ()
    hangs_up: bool = False
    greeting: bytes = b""
    lists: bytes | None = http(MODELS)
    requests: list[RawRequest] = field(default_factory=list)
    listings: list[RawRequest] = field(default_factory=list)
    sent: int = 0
    connections: int = 0
    closed: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._open: set[asyncio.StreamWriter] = set()
        self._asking_for_models: list[asyncio.StreamWriter] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()

    def answer_listings(self, lists: bytes) -> None:
        """Answer those who ask for its models and wait, and from now on."""
        self.lists = lists
        for writer in self._asking_for_models:
            writer.write(lists)

    @property
    def model(self) -> str:
        """The model that it serves."""
        return MODEL

    async def until(self, holds: Callable[[Self], bool]) -> None:
        """Wait until `holds` is true of this server; how long is bounded by the test's own limit."""
        while not holds(self):  # noqa: ASYNC110 - what it waits for is on the other side of a socket
            await asyncio.sleep(0.005)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        number = self.connections
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            writer.write(self.greeting)
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head, reader, writer, number)
                if self.hangs_up and head.startswith(b"POST"):
                    break
        self._open.discard(writer)
        self.closed += 1
        writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
        request = RawRequest(head, body, number)
        if head.startswith(b"GET"):
            self.listings.append(request)
            self._asking_for_models = [*self._asking_for_models, writer] if self.lists is None else []
            writer.write(self.lists or b"")
            return
        reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        for piece in [reply] if isinstance(reply, bytes) else reply():
            writer.write(piece)
            await writer.drain()
            self.sent += len(piece)
