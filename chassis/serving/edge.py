"""The edge is the outermost layer of a REST API: hosts, keys, body limits, the caller's trace, metrics."""

import time
from collections.abc import Callable, Iterable, Mapping

from fastapi.responses import Response
from opentelemetry.trace import SpanKind
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.admission import CALLER_KEY, ByteLimit, ByteShare
from chassis.errors import (
    EXACT_STATUSES,
    BodyTooLarge,
    ClientGone,
    HostNotAllowed,
    OriginNotAllowed,
    Unauthenticated,
    UnsupportedMediaType,
)
from chassis.ids import new_id
from chassis.serving.auth import ANYONE, Keyring
from chassis.serving.origins import AllowedHosts, check_media_type, check_origin
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, TRACE_FIELDS, child, is_sending, span
from kernel.errors import Code, MetacogError, Overloaded

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
# What an upload counts as held, which is passed on as it comes [bytes].
UPLOAD_HOLDS_BYTES = 1024 * 1024
# Key under which the operation of a request is noted for the metrics.
OPERATION = "metacog.operation"
# Statuses of rejected requests that no canonical code has.
ONLY_HTTP = frozenset(EXACT_STATUSES.values())
REJECTIONS = (Unauthenticated, BodyTooLarge, HostNotAllowed, OriginNotAllowed, UnsupportedMediaType, Overloaded)

# The header of a reply to a request whose key was not checked, as none is configured.
UNCHECKED_KEY = (b"x-metacog-key", b"not checked")
# The header by which a reply names its run.
RUN_ID = b"x-metacog-run-id"

Headers = Mapping[bytes, bytes]


class RestEdge:
    """The edge lets requests in that may come in, and counts all.

    Args:
        app: The application behind the edge.
        keyring: Keys that are accepted.
        max_body_bytes: Largest request body by path [bytes]; under the empty name, that of all other paths.
        max_held_bytes: Bodies of all requests in progress together [bytes].
        error_response: Returns the response that carries an error, as a path spells it.

    Attributes:
        allowed_hosts: Hosts that a request may name where no keys are configured.
        open_paths: Paths that need no key.
        uploads: Methods and paths whose body is a form with a file, which is passed on as it comes and not held.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keyring: Keyring,
        max_body_bytes: Mapping[str, int],
        max_held_bytes: int,
        error_response: Callable[[MetacogError, str], Response],
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._max = max_body_bytes
        self._bodies = ByteLimit("request bodies", max_held_bytes)
        self._error_response = error_response
        self.allowed_hosts = AllowedHosts()
        self.open_paths = OPEN_PATHS
        self.uploads: frozenset[tuple[str, str]] = frozenset()

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
                message = self._named(message, headers)
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

    def _named(self, start: Message, headers: Headers) -> Message:
        """Return the start of a reply with its identifier, and whether a key among the `headers` was not checked."""
        more = [UNCHECKED_KEY] if self._keyring.is_unchecked(authorization(headers)) else []
        return {**start, "headers": [*with_request_id(start.get("headers", ())), *more]}

    async def _guarded(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        path = scope["path"]
        try:
            if self._keyring:
                is_open = path in self.open_paths
                scope["metacog.key"] = ANYONE if is_open else self._keyring.holder(authorization(headers))
            else:  # a page of another site cannot know a key, but needs none here
                self.allowed_hosts.check(headers, scope)
                check_origin(headers)
                scope["metacog.key"] = ANYONE
            CALLER_KEY.set(scope["metacog.key"].name)
            is_upload = (scope["method"], path) in self.uploads
            check_media_type(headers, upload=is_upload)
            most = self._max.get(path, self._max[""])
            declared = headers.get(b"content-length", b"0")
            length = int(declared) if declared.isdigit() else 0
            if length > most:
                raise too_large(most)
            with self._bodies.share() as share:
                most_held = min(most, UPLOAD_HOLDS_BYTES) if is_upload else most
                share.hold(min(length, most_held))
                await self._app(scope, limited(receive, most, share, most_held), send)
        except REJECTIONS as error:
            if isinstance(error, Overloaded):  # a client that still sends would not read the reply
                await drop_body(receive)
            await self._error_response(error, path)(scope, receive, send)


def with_request_id(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply with an `x-request-id`: the run that the reply names, else a new identifier."""
    given = list(headers)
    named = next((text for name, text in given if name == RUN_ID), None)
    return [*given, (b"x-request-id", named or new_id().encode())]


def authorization(headers: Headers) -> str:
    """Return the content of the `Authorization` header, or the key of `x-api-key` as one; empty without either."""
    key = headers.get(b"x-api-key")
    given = headers.get(b"authorization") or (b"" if key is None else b"Bearer " + key)
    return given.decode("latin-1")


def code_name(status: int) -> str:
    """Return the canonical code of an HTTP status, as the metrics of both APIs name it.

    Example:
        >>> [code_name(status) for status in (200, 400, 415, 429, 500)]
        ['OK', 'INVALID_ARGUMENT', 'INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'INTERNAL']
    """
    if status < 400:
        return "OK"
    if status in ONLY_HTTP:
        return Code.INVALID_ARGUMENT.name
    return Code.INTERNAL.name if status == Code.INTERNAL.http else Code.from_http(status).name


def limited(receive: Receive, limit: int, share: ByteShare, most_held: int) -> Receive:
    """Return a `receive` that raises once the body is over `limit` [bytes], or breaks off in the middle.

    Args:
        receive: Receives the parts of the body.
        limit: Largest body [bytes].
        share: Holds what has come.
        most_held: The most that it holds [bytes].

    Raises:
        Overloaded: When the bodies of all requests would hold too much.
        BodyTooLarge: When it is over the limit; the rest is not read.
        ClientGone: When the client went away before its end.
    """
    seen, is_whole = 0, False

    async def counted() -> Message:
        nonlocal seen, is_whole
        message = await receive()
        if message["type"] == "http.request":
            is_whole = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > limit:
                raise too_large(limit)
            share.hold(min(seen, most_held))
        elif seen and not is_whole:
            raise ClientGone("the client went away before its request was complete")
        return message

    return counted


async def drop_body(receive: Receive) -> None:
    """Read a body to its end and keep nothing of it; the timeout of bodies bounds how long that takes."""
    while True:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def too_large(limit: int) -> BodyTooLarge:
    """Return the error of a body over `limit` [bytes]."""
    return BodyTooLarge(f"the request body is over the limit of {limit} bytes", limit_bytes=str(limit))


def _as_text(headers: Headers) -> Mapping[str, str]:
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in headers.items()}
