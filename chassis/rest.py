"""The REST face every service has: problems, limits, keys, health, metrics, server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from opentelemetry.trace import SpanKind
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.auth import ANYONE, ApiKey, Keyring
from chassis.errors import BodyTooLarge, PathNotFound, Unauthenticated
from chassis.health import Health
from chassis.log import logger
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, span
from chassis.wire import MalformedRequest, event_name, json_schema, malformed
from kernel.errors import Code, MetacogError

T = TypeVar("T")
Shape = Callable[[MetacogError], Mapping[str, Any]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
HEARTBEAT_S = 15.0

_log = logger(__name__)


class Json(Response):
    """A JSON answer made straight from values; non-finite numbers become null."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Bytes of `content`."""
        return dumps(content)


def dumps(content: object) -> bytes:
    """JSON of plain data and values."""
    return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)


def build_app(title: str, *, health: Health, keyring: Keyring, max_body_bytes: int) -> FastAPI:
    """Application with everything but the service's own paths."""
    app = FastAPI(title=f"metacog {title}", version="0.1.0", redoc_url=None)
    app.add_exception_handler(MetacogError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_malformed)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _refuse_bug)
    app.state.shapes = {}

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Json({"status": "alive"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        report = await health.report()
        return Json(report, status_code=200 if report.ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    app.add_middleware(Edge, keyring=keyring, max_body_bytes=max_body_bytes, shapes=app.state.shapes)
    return app


class Edge:
    """Outermost layer of a REST face: keys, body limit, trace, metrics, and bugs answered as INTERNAL."""

    def __init__(self, app: ASGIApp, keyring: Keyring, max_body_bytes: int, shapes: Mapping[str, Shape]) -> None:
        self._app = app
        self._keyring = keyring
        self._max = max_body_bytes
        self._shapes = shapes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]}
        began, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        IN_FLIGHT.labels("rest").inc()
        try:
            with span(f"{scope['method']} {scope['path']}", SpanKind.SERVER, headers):
                await self._guarded(scope, headers, receive, note)
        finally:
            IN_FLIGHT.labels("rest").dec()
            op = getattr(scope.get("route"), "path", "other")
            REQUEST_SECONDS.labels("rest", op).observe(time.perf_counter() - began)
            REQUESTS.labels("rest", op, str(status)).inc()

    async def _guarded(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        try:
            scope["metacog.key"] = (
                ANYONE if scope["path"] in OPEN_PATHS else self._keyring.holder(headers.get("authorization", ""))
            )
            declared = headers.get("content-length", "0")
            if declared.isdigit() and int(declared) > self._max:
                raise _too_large(self._max)
            await self._app(scope, _limited(receive, self._max), send)
        except (Unauthenticated, BodyTooLarge) as refusal:
            await problem(refusal, self._shapes.get(scope["path"]))(scope, receive, send)


def _limited(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body is over the limit of {limit} bytes", limit_bytes=str(limit))


def caller(request: Request) -> ApiKey:
    """Key that the request came in with."""
    key: ApiKey = request.scope["metacog.key"]
    return key


def problem_body(error: MetacogError) -> dict[str, Any]:
    """RFC 9457 problem document of a refusal."""
    return {
        "type": f"urn:metacog:error:{error.reason.lower().replace('_', '-')}",
        "title": error.reason.replace("_", " ").capitalize(),
        "status": error.code.http,
        "detail": error.message,
        "code": error.code.name,
        "reason": error.reason,
        "metadata": error.metadata,
    }


def problem(error: MetacogError, shape: Shape | None = None, *, status: int | None = None) -> Response:
    """Answer that carries a refusal, as a problem document or in the `shape` that its path has.

    Args:
        error: The refusal.
        shape: How the path spells refusals; None for problem documents.
        status: HTTP status, where it says more than the canonical code's.
    """
    status = status or error.code.http
    document = shape(error) if shape else {**problem_body(error), "status": status}
    headers = {"retry-after": error.metadata["retry_after_s"]} if "retry_after_s" in error.metadata else None
    media = "application/json" if shape else "application/problem+json"
    return Response(dumps(document), status_code=status, media_type=media, headers=headers)


def query_parameters(kind: type) -> dict[str, Any]:
    """OpenAPI's account of a query string that is read into a value of `kind`."""
    schema = json_schema(kind)
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": about}
            for name, about in schema["properties"].items()
        ]
    }


def sse(name: str, data: object) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def wants_events(request: Request) -> bool:
    """Whether the client asked for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


def named_event(item: object) -> tuple[str, object]:
    """Name and content of an event value."""
    return event_name(item), item


async def event_stream(
    events: AsyncIterator[T],
    *,
    named: Callable[[T], tuple[str, object]] = named_event,
    heartbeat_s: float = HEARTBEAT_S,
) -> Response:
    """Stream events under the names that `named` gives them.

    A refusal before the first becomes a plain problem document, a later one a last event `error` with that document.
    """
    first = await anext(events, None)

    async def body() -> AsyncIterator[bytes]:
        try:
            if first is not None:
                yield sse(*named(first))
            async for item in with_heartbeat(events, heartbeat_s):
                yield b": still here\n\n" if item is None else sse(*named(item))
        except MetacogError as refusal:
            yield sse("error", problem_body(refusal))

    return StreamingResponse(body(), media_type="text/event-stream", headers={"cache-control": "no-store"})


async def with_heartbeat(items: AsyncIterator[T], every_s: float) -> AsyncIterator[T | None]:
    """The items, with None whenever `every_s` passed without one; closing it closes `items`."""
    pending: asyncio.Task[T] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({pending}, timeout=every_s)
            if not done:
                yield None
                continue
            finished, pending = pending, None
            try:
                yield finished.result()
            except StopAsyncIteration:
                return
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def until_disconnect(request: Request, work: Awaitable[T]) -> T:
    """Result of `work`, which is cancelled as soon as the client hangs up."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise asyncio.CancelledError("the client went away")
        return task.result()
    finally:
        for waiting in (task, gone):
            waiting.cancel()
        await asyncio.wait({task, gone})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, MetacogError)
    return problem(error, request.app.state.shapes.get(request.url.path))


async def _refuse_malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _refuse(request, malformed(error.errors()))


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, MetacogError):
        return await _refuse(request, error.__cause__)
    said = f"{request.method} {request.url.path}: {error.detail}"
    known = error.status_code in (404, 405)
    refusal = PathNotFound(f"{said}; /docs lists what there is") if known else MalformedRequest(said)
    return problem(refusal, request.app.state.shapes.get(request.url.path), status=error.status_code)


async def _refuse_bug(request: Request, error: Exception) -> Response:
    _log.error("a bug reached the edge", path=request.url.path, exc_info=error)
    bug = MetacogError("something went wrong inside the service; its log has the details")
    bug.code, bug.reason = Code.INTERNAL, "INTERNAL"
    return await _refuse(request, bug)
