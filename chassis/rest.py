"""The REST face every service has: problems, limits, keys, health, metrics, server-sent events."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from opentelemetry.trace import SpanKind
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.auth import ANYONE, ApiKey, Keyring
from chassis.errors import BodyTooLarge, ClientGone, PathNotFound, Unauthenticated
from chassis.health import Health
from chassis.log import logger
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, span
from chassis.wire import MalformedRequest, json_schema, malformed
from kernel.envelope import BudgetExhausted
from kernel.errors import Bug, Code, MetacogError

T = TypeVar("T")
Shape = Callable[[MetacogError], Mapping[str, Any]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})

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


class StrictRequest(Request):
    """A request whose body is JSON by the standard: no NaN, no lone surrogates, which no answer could carry."""

    async def json(self) -> Any:  # noqa: ANN401 - JSON is of any kind
        """The body as plain data.

        Raises:
            MalformedRequest: When it is not JSON; says where.
        """
        try:
            return orjson.loads(await self.body())
        except orjson.JSONDecodeError as wrong:
            raise MalformedRequest(f"the body is not JSON: {wrong}", field="body") from wrong


class StrictRoute(APIRoute):
    """A route that reads bodies strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a strict request."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await inner(StrictRequest(request.scope, request.receive))

        return handler


def build_app(title: str, *, health: Health, keyring: Keyring, max_body_bytes: int) -> FastAPI:
    """Application with everything but the service's own paths."""
    app = FastAPI(title=f"metacog {title}", version="0.1.0", redoc_url=None)
    app.add_exception_handler(MetacogError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_malformed)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _refuse_bug)
    app.state.shapes = {}
    app.router.route_class = StrictRoute

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
            REQUESTS.labels("rest", op, code_name(status)).inc()

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


def code_name(status: int) -> str:
    """Canonical code of an HTTP status, as the metrics of both faces name it.

    Example:
        >>> [code_name(status) for status in (200, 400, 429, 500)]
        ['OK', 'INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'INTERNAL']
    """
    if status < 400:
        return "OK"
    return Code.INTERNAL.name if status == Code.INTERNAL.http else Code.from_http(status).name


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
    headers = {"retry-after": error.metadata["retry_after_s"]} if "retry_after_s" in error.metadata else {}
    if isinstance(error, BudgetExhausted):
        headers["x-should-retry"] = "false"  # the same envelope would be exhausted again
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


def wants_events(request: Request) -> bool:
    """Whether the client asked for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


async def until_disconnect(request: Request, work: Awaitable[T]) -> T:
    """Result of `work`, which is cancelled as soon as the client hangs up.

    Raises:
        ClientGone: When it does; nobody reads that answer.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone("the client went away")
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
    return await _refuse(request, Bug())
