"""The outermost layer of a REST face: keys, body limits, the caller's trace, metrics."""

import time
from collections.abc import Callable, Mapping

from fastapi.responses import Response
from opentelemetry.trace import SpanKind
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.errors import BodyTooLarge, Unauthenticated
from chassis.serving.auth import ANYONE, Keyring
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, TRACE_FIELDS, child, is_sending, span
from kernel.errors import Code, MetacogError

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
# Where the operation that a request asks for is noted for the metrics.
OPERATION = "metacog.operation"

Headers = Mapping[bytes, bytes]


class RestEdge:
    """Serves requests that may come in, and counts all.

    Args:
        app: What it is the edge of.
        keyring: Keys that are accepted.
        max_body_bytes: Largest request body by path [bytes]; under the empty name, that of all other paths.
        refused: The answer that carries a refusal, as a path spells it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keyring: Keyring,
        max_body_bytes: Mapping[str, int],
        refused: Callable[[MetacogError, str], Response],
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._max = max_body_bytes
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        began, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        in_flight = child(IN_FLIGHT, "rest")
        in_flight.inc()
        try:
            if is_sending() or not TRACE_FIELDS.isdisjoint(headers):
                with span(f"{scope['method']} {scope['path']}", SpanKind.SERVER, _as_text(headers)):
                    await self._guarded(scope, headers, receive, note)
            else:
                await self._guarded(scope, headers, receive, note)
        finally:
            in_flight.dec()
            operation = scope.get(OPERATION) or getattr(scope.get("route"), "path", "other")
            child(REQUEST_SECONDS, "rest", operation).observe(time.perf_counter() - began)
            child(REQUESTS, "rest", operation, code_name(status)).inc()

    async def _guarded(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        path = scope["path"]
        try:
            presented = headers.get(b"authorization", b"").decode("latin-1")
            scope["metacog.key"] = ANYONE if path in OPEN_PATHS else self._keyring.holder(presented)
            most = self._max.get(path, self._max[""])
            declared = headers.get(b"content-length", b"0")
            if declared.isdigit() and int(declared) > most:
                raise _too_large(most)
            await self._app(scope, _limited(receive, most), send)
        except (Unauthenticated, BodyTooLarge) as refusal:
            await self._refused(refusal, path)(scope, receive, send)


def code_name(status: int) -> str:
    """Return canonical code of an HTTP status, as the metrics of both faces name it.

    Example:
        >>> [code_name(status) for status in (200, 400, 429, 500)]
        ['OK', 'INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'INTERNAL']
    """
    if status < 400:
        return "OK"
    return Code.INTERNAL.name if status == Code.INTERNAL.http else Code.from_http(status).name


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


def _as_text(headers: Headers) -> Mapping[str, str]:
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in headers.items()}
