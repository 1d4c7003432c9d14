"""The connections of a REST API are bounded before a request reaches the application: their heads, times and number.

Every process that serves HTTP does so by `http_config`: the four services, the console and the encoder.
"""

from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi.responses import Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from chassis.errors import HeadTooLarge, RequestTimeout, TooManyCallers
from chassis.settings import HttpSettings
from kernel.errors import MalformedRequest, MetacogError

ErrorResponse = Callable[[MetacogError, str], Response]

# A rejected client gets this time to read the error, since closing at once could discard it on its way [s].
LINGER_S = 1.0
# What a rejected client still sends is discarded, up to this size [bytes].
LINGER_BYTES = 1024 * 1024


def http_config(
    app: ASGIApp,
    limits: HttpSettings,
    *,
    error_response: ErrorResponse,
    **options: Any,  # noqa: ANN401 - uvicorn's own
) -> uvicorn.Config:
    """Return uvicorn's configuration for `app` with bounded connections.

    Args:
        app: The application.
        limits: Limits of each connection, and of their number.
        error_response: Returns the response that carries an error, as a path spells it; the path is empty while it is
            unknown.
        options: Further options of uvicorn.
    """
    protocol = partial(BoundedProtocol, limits=limits, error_response=error_response)
    return uvicorn.Config(
        app,
        http=cast(type[HttpToolsProtocol], protocol),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=limits.http_idle_timeout_s,
        **options,
    )


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which is closed with an error when its client goes beyond a limit.

    A timer runs while the client owes the server a head or a body, and only if they did not arrive at once. While a
    connection is idle between two requests, uvicorn's own timer closes it. For an upload, a form, the timer begins anew
    with each part, and while we are too slow to read; the upload as a whole is bounded besides.

    Args:
        limits: Limits of each connection, and of their number.
        error_response: Returns the response that carries an error.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
        *,
        limits: HttpSettings,
        error_response: ErrorResponse,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._error_response = error_response
        self._limits = limits
        self._max_head_bytes = limits.http_max_head_bytes
        self._in_head = False
        self._head_bytes = 0  # of the request line and headers that the parser has reported
        self._has_reported = False  # whether the parser has reported anything of the last data
        self._unreported_bytes = 0  # what it has received since then
        self._owed: str | None = None  # what the timer waits for: "head" or "body"
        self._timer: TimerHandle | None = None
        self._is_upload = False
        self._upload_until = 0.0  # of the loop's clock
        self._is_rejected = False
        self._discarded_bytes = 0

    # What arrives

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for a head; a connection too many takes the place of an idle one, or is rejected."""
        super().connection_made(transport)
        most = self._limits.http_max_connections
        if len(self.connections) > most and not self._close_idle():
            message = f"all {most} connections are in use; try again later, or raise METACOG_HTTP_MAX_CONNECTIONS"
            self._reject(TooManyCallers(message, most=str(most), retry_after_s="1"))
        else:
            self._watch()

    def _close_idle(self) -> bool:
        """Close the connection that has been idle for longest, and return whether there was one.

        One whose client has not read its last reply yet is not idle: it would stay until the client did.
        """
        idle = [
            (line.timeout_keep_alive_task.when(), line.transport)
            for line in self.connections
            if isinstance(line, HttpToolsProtocol)
            and line.timeout_keep_alive_task
            and not line.transport.is_closing()
            and not line.transport.get_write_buffer_size()
        ]
        if idle:
            min(idle, key=lambda one: one[0])[1].close()
        return bool(idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and check that it stays within the limits."""
        if self._is_rejected:
            self._discard(data)
            return
        self._has_reported = False
        super().data_received(data)
        if self._is_rejected:
            return
        self._unreported_bytes = 0 if self._has_reported else self._unreported_bytes + len(data)
        if self._unreported_bytes > self._max_head_bytes:  # an endless header, trailer or chunk extension
            self._reject(self._head_too_large())
        else:
            self._watch()

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes > LINGER_BYTES:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Reject what the parser could not read, or what one of the methods below did not accept."""
        if self._head_bytes > self._max_head_bytes:
            self._reject(self._head_too_large())
        else:
            self._reject(MalformedRequest("this is not an HTTP/1.1 request", field="head"))

    # What the parser reports; an exception ends the parsing

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a head."""
        self._in_head, self._head_bytes, self._has_reported = True, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header, or of a trailer after the body."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve the request."""
        self._in_head = False
        self._is_upload = any(
            name == b"content-type" and text.lower().startswith(b"multipart/form-data") for name, text in self.headers
        )
        self._upload_until = self.loop.time() + self._limits.http_upload_timeout_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._has_reported = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Go on with the next request, or leave the connection to uvicorn's timer of idle ones."""
        super().on_response_complete()
        if self._is_busy():
            self._watch()
        else:
            self._stop_timer()

    def _count(self, more: int) -> None:
        self._has_reported = True
        self._head_bytes += more
        if self._head_bytes > self._max_head_bytes:
            raise self._head_too_large()

    def _head_too_large(self) -> HeadTooLarge:
        most = self._max_head_bytes
        message = f"the request line and headers are over the limit of {most} bytes; send shorter or fewer headers"
        return HeadTooLarge(message, limit_bytes=str(most))

    # Time

    def _is_busy(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Let the timer wait for what the client owes now."""
        if not self._is_busy():
            owed = "head"
        elif self.cycle.more_body and not self.pipeline and not self._in_head:
            owed = "body"
        else:
            owed = None
        if owed != self._owed or (owed == "body" and self._is_upload and self._has_reported):
            self._stop_timer()
            if owed is not None:
                self._begin_timer(owed)

    def _begin_timer(self, owed: str) -> None:
        seconds = self._time_s(owed)
        if owed == "body" and self._is_upload:
            seconds = min(seconds, max(0.0, self._upload_until - self.loop.time()))
        self._owed, self._timer = owed, self.loop.call_later(seconds, self._time_out)

    def _time_s(self, owed: str) -> float:
        return self._limits.http_head_timeout_s if owed == "head" else self._limits.http_body_timeout_s

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._owed = None, None

    def _time_out(self) -> None:
        if self._owed is None:
            return
        part, most_s = "headers" if self._owed == "head" else "body", self._time_s(self._owed)
        if self._owed == "body" and self._is_upload:
            is_late = self.loop.time() >= self._upload_until
            if self.flow.read_paused and not is_late:  # it waits for us
                self._begin_timer("body")
                return
            most_s = self._limits.http_upload_timeout_s if is_late else most_s
        seconds = f"{most_s:g}"
        message = f"the request's {part} did not arrive within {seconds} s; send it without pauses"
        self._reject(RequestTimeout(message, timeout_s=seconds))

    # Errors

    def _reject(self, error: MetacogError) -> None:
        """Send an error, unless an answer is on its way already, and close the connection."""
        self._is_rejected = True
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        path = self.scope.get("path", "") if self._is_busy() else ""
        has_begun = self._is_busy() and (self.cycle.response_started or self._in_head or bool(self.pipeline))
        if self._is_busy():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if has_begun:
            self.transport.close()
            return
        self.transport.write(_as_bytes(self._error_response(error, path)))
        self.flow.resume_reading()  # what still comes is discarded
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_S, self.transport.close)


def _as_bytes(response: Response) -> bytes:
    """Return a whole response that closes its connection, as it goes over the wire."""
    headers = b"".join(b"%b: %b\r\n" % (name, text) for name, text in response.raw_headers)
    return STATUS_LINE[response.status_code] + headers + b"connection: close\r\n\r\n" + bytes(response.body)
