"""A scripted OpenAI-compatible server: a test double for exact cases, which a real model does not give twice.

    with ScriptedLLM(LLAMACPP) as llm:
        llm.reply("Four.", "Five.")                    # the texts of the next choices, in order
        ...                                            # send requests to llm.url
        assert llm.bodies[0]["n"] == 2

A choice that is not scripted is `sample <seed + index>`, as servers number the samples of one request, or a document
that follows the schema of the request. `llm.answer` may be set to a function from the request to the texts of its
choices. Faults are queued, one for each coming request: `llm.fault(Refuse(429, "busy", {"retry-after": "1"}))`. The
shapes `VLLM`, `LLAMACPP` and `MINIMAL` differ as such servers do (`llm_replies`).
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from tests.support.models.llm_replies import (
    LLAMACPP,
    MINIMAL,
    VLLM,
    Body,
    ScriptedChoice,
    Shape,
    chunks,
    completion,
    embeddings,
    request_error,
    unscripted,
)
from tests.support.models.passed_replies import EMBEDDINGS, PASSED_PATHS, passed_chunks, passed_reply

__all__ = [
    "LLAMACPP",
    "MINIMAL",
    "VLLM",
    "Body",
    "Cut",
    "ErrorReply",
    "Hangup",
    "Late",
    "RawReply",
    "ScriptedChoice",
    "ScriptedLLM",
    "Shape",
    "Stall",
    "Trickle",
]  # fmt: skip


@dataclass(frozen=True)
class ErrorReply:
    """Answer with an error."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stall:
    """Never answer; it ends when the client goes away."""


@dataclass(frozen=True)
class Trickle:
    """Answer 200, send blanks for ever, and never end the reply."""


@dataclass(frozen=True)
class Hangup:
    """Read the request, and close the connection before a reply."""


@dataclass(frozen=True)
class Cut:
    """Stream `events` events, then close the connection."""

    events: int


@dataclass(frozen=True)
class Late:
    """Stream `events` events, then an error event, as servers do when a generation fails midway."""

    events: int
    code: int = 500


@dataclass(frozen=True)
class RawReply:
    """Answer 200 with exactly these bytes."""

    body: bytes
    content_type: str = "application/json"


Fault = ErrorReply | Stall | Trickle | Hangup | Cut | Late | RawReply


@dataclass(frozen=True)
class Received:
    """A chat completion that was received, with the port of its connection on the client's side."""

    body: Body
    headers: Mapping[str, str]
    port: int


class ScriptedLLM:
    """The server, in a thread of its own; a context manager.

    Args:
        shape: The server that it imitates.
        model: The model that it serves.
        keep_alive_s: Time after which it closes an idle connection [s].

    Attributes:
        url: Its address.
        requests: Chat completions received.
        listings: Requests for its models [count].
        disconnects: Clients that went away before their reply was complete [count].
        under_way: Chat completions being answered now [count].
        answer: From a request to the texts of its choices; used before queued texts.
        token_delay_s: Time that each token takes [s].
        ready: Whether it is done loading; answers 503 until then.
        passed: Requests to other places than chat completions, with their paths.
        serves: Those of these places that it has.
    """

    def __init__(self, shape: Shape = VLLM, *, model: str = "scripted", keep_alive_s: float = 60.0) -> None:
        self.shape = shape
        self.model = model
        self.url = ""
        self.requests: list[Received] = []
        self.listings = 0
        self.disconnects = 0
        self.in_flight = 0
        self.answer: Callable[[Body], Sequence[str | ScriptedChoice]] | None = None
        self.token_delay_s = 0.0
        self.ready = True
        self.passed: list[tuple[str, Body]] = []
        self.serves = frozenset(PASSED_PATHS)
        self._keep_alive_s = keep_alive_s
        self._replies: deque[str | ScriptedChoice] = deque()
        self._faults: deque[Fault | None] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop.is_closed():  # a test ended it before
            return
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reply(self, *texts: str | ScriptedChoice) -> None:
        """Queue the texts of the next choices."""
        self._replies.extend(texts)

    def fault(self, *faults: Fault | None) -> None:
        """Queue a fault for each of the next requests; None lets one pass."""
        self._faults.extend(faults)

    def forget_faults(self) -> None:
        """Let the next requests pass, whatever is queued for them."""
        self._faults.clear()

    @property
    def bodies(self) -> list[Body]:
        """The bodies of the requests received."""
        return [received.body for received in self.requests]

    async def until(self, holds: Callable[[Self], bool]) -> None:
        """Wait until `holds` is true of this server; how long is bounded by the test's own limit."""
        while not holds(self):  # noqa: ASYNC110 - its state changes in another thread
            await asyncio.sleep(0.005)

    async def _start(self) -> int:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        for path in PASSED_PATHS:
            app.router.add_post(path, self._passed)
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, keepalive_timeout=self._keep_alive_s, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _health(self, _: web.Request) -> web.Response:
        if not self.ready:
            return _error(503, "Loading model")
        return web.json_response({"status": "ok"}) if self.shape is LLAMACPP else web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        self.listings += 1
        if not self.ready:
            return _error(503, "Loading model")
        if not self.shape.lists_models:
            return _error(404, "Not Found")
        entry: Body = {"id": self.model, "object": "model"}
        if self.shape is VLLM:
            entry["max_model_len"] = self.shape.context
        if self.shape is LLAMACPP:
            entry |= {"meta": {"n_ctx": self.shape.context}, "owned_by": "llamacpp"}
        return web.json_response({"object": "list", "data": [entry]})

    async def _passed(self, request: web.Request) -> web.StreamResponse:
        body: Body = await request.json()
        self.passed.append((request.path, body))
        fault = self._faults.popleft() if self._faults else None
        if isinstance(fault, ErrorReply):
            return _error(fault.status, fault.message, fault.headers)
        if isinstance(fault, RawReply):
            return web.Response(body=fault.body, content_type=fault.content_type)
        if isinstance(fault, Stall):
            try:
                await asyncio.Event().wait()
            finally:
                self.disconnects += 1
        if request.path not in self.serves:
            return web.json_response({"detail": "Not Found"}, status=404)
        if body.get("stream"):
            assert request.transport is not None
            return await self._stream(request, request.transport, passed_chunks(self.model, body), fault)
        if request.path == EMBEDDINGS:
            texts: list[str] = [body["input"]] if isinstance(body["input"], str) else body["input"]
            return web.json_response(embeddings(self.model, texts))
        return web.json_response(passed_reply(request.path, self.model, body))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = await request.json()
        assert request.transport is not None
        port = request.transport.get_extra_info("peername")[1]
        self.requests.append(Received(body, dict(request.headers), port))
        fault = self._faults.popleft() if self._faults else None
        self.in_flight += 1
        try:
            return await self._answer(request, request.transport, body, fault)
        except (asyncio.CancelledError, ConnectionResetError):
            self.disconnects += 1
            raise
        finally:
            self.in_flight -= 1

    async def _answer(
        self, request: web.Request, transport: asyncio.Transport, body: Body, fault: Fault | None
    ) -> web.StreamResponse:
        match fault:
            case ErrorReply(status, message, headers):
                return _error(status, message, headers)
            case Stall():
                await asyncio.Event().wait()
            case Trickle():
                return await _trickle(request)
            case Hangup():
                transport.abort()
                return web.Response()
            case RawReply(content, content_type):
                return web.Response(body=content, content_type=content_type)
        if error := request_error(self.shape, self.model, body):
            return _error(*error)
        choices = self._choices(body)
        if body.get("stream"):
            return await self._stream(request, transport, chunks(self.shape, self.model, body, choices), fault)
        await asyncio.sleep(self.token_delay_s * max(len(each.tokens) for each in choices))
        return web.json_response(completion(self.shape, self.model, body, choices))

    async def _stream(
        self, request: web.Request, transport: asyncio.Transport, events: Iterable[Body], fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number, chunk in enumerate(events):
            if isinstance(fault, Cut) and number == fault.events:
                transport.close()
                return response
            if isinstance(fault, Late) and number == fault.events:
                await response.write(_event({"error": {"message": "it broke", "code": fault.code}}))
                return response
            await response.write(_event(chunk))
            await asyncio.sleep(self.token_delay_s)
        await response.write(b"data: [DONE]\n\n")
        return response

    def _choices(self, body: Body) -> list[ScriptedChoice]:
        n = body.get("n", 1) if self.shape.serves_n else 1
        scripted: list[str | ScriptedChoice] = list(self.answer(body))[:n] if self.answer else []
        while len(scripted) < n:
            scripted.append(self._replies.popleft() if self._replies else unscripted(self.shape, body, len(scripted)))
        return [
            (each if isinstance(each, ScriptedChoice) else ScriptedChoice(each)).shortened(body) for each in scripted
        ]


def _event(chunk: Body) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def _trickle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b"\n")
        await asyncio.sleep(0.01)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status, headers=headers)
