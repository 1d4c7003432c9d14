"""This module is an HTTP/1.1 client with a pool of connections that are kept alive.

Parsing is httptools' (llhttp, as in Node.js), which is strict about line ends, header names, lengths and chunk sizes;
what it leaves to its user is checked here. Whatever fails is a `TransportFailure`; abandoning a connection closes it at
once, which is how a backend learns that the client has gone.
"""

import asyncio
import fcntl
import select
import ssl
import struct
import termios
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import cast
from urllib.parse import quote, unquote, urlsplit

import httptools

from inference.config import MAX_REPLY_BYTES
from inference.http.transport import (
    HttpReply,
    HttpStream,
    LostBeforeReply,
    LostMidReply,
    MalformedReply,
    NotSent,
    TransportFailure,
)
from kernel.values import value

# Bytes of a body that are read ahead of the reader at most [bytes].
MAX_UNREAD = 256 * 1024
# Headers of a reply and of the interim replies before it, trailers included: bytes, and how many [bytes, count].
MAX_HEAD = 64 * 1024
MAX_HEADERS = 256
# An error reply is read up to here, and what is longer counts as ended; no list of models may be longer [bytes].
MAX_SHORT_REPLY = 4 * 2**20
SWITCHING_PROTOCOLS = 101
HTTP_OK = 200
# A server's system resets a connection that is closed before everything was read, within a round trip after the request
# was sent; a reset that comes later may be of a server that was at work [s].
RESET_WITHIN_S = 0.1
NO_CONTENT = (204, 304)
# A reply with a body that was not compressed has one of these as its content-encoding.
PLAIN = ("", "identity")

# Linux reports a half-closed connection by this; elsewhere the hang-up that `poll` always reports has to do.
_CLOSED = getattr(select, "POLLRDHUP", 0)
_CLOSED_OR_READABLE = _CLOSED | getattr(select, "POLLIN", 0)


class Connection(asyncio.Protocol):
    """A connection carries one request and its reply at a time.

    Args:
        on_lost: Called when the connection has ended.

    Attributes:
        status: Status of the reply.
        headers: Its headers, under lower-case names.
        idle_since: When it was last given back [s, the loop's clock]; 0 for a connection that was never used.
    """

    def __init__(self, on_lost: "Callable[[Connection], None]") -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._poll = select.poll() if hasattr(select, "poll") else None
        self._chunks: list[bytes] = []
        self._unread = 0
        self._received = self._most_bytes = 0
        self._sent_at = 0.0
        self._is_request_unread = False
        self._head_bytes = self._head_lines = 0
        self._is_compressed = False
        self._paused = False
        self._has_head = False
        self._complete = True
        self._reusable = True
        self._failure: TransportFailure | None = None
        self._waiting: asyncio.Future[None] | None = None

    # -- for the sender -----------------------------------------------------------------------------------------------

    @property
    def is_reusable(self) -> bool:
        """Return whether the reply is complete, and another request may be sent."""
        return self._complete and self._reusable and self._failure is None

    @property
    def is_spoilt(self) -> bool:
        """Return whether the other side has closed the connection or sent more than a reply, be it still unread."""
        return not self._reusable or (self._poll is not None and bool(self._poll.poll(0)))

    @property
    def was_closed_while_idle(self) -> bool:
        """Return whether the connection, kept from an earlier request, ended before the server read this one."""
        return self.idle_since > 0 and self._received == 0 and self._is_request_unread

    def send(self, request: bytes, most_bytes: int) -> None:
        """Send a request, whole; the connection then reads its reply, which may have `most_bytes` as it is sent.

        Raises:
            NotSent: When the other side has closed the connection, or sent something before.
        """
        if not self._reusable:
            raise NotSent("the server sent something before a request, or closed the connection at once")
        self.headers = {}
        self._chunks = []
        self._unread = self._received = self._head_bytes = self._head_lines = 0
        self._most_bytes = most_bytes
        self._has_head = self._complete = self._is_compressed = False
        self._is_request_unread = False
        self._sent_at = self._loop.time()
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            LostBeforeReply: When the connection ends before.
            MalformedReply: When the bytes are no reply.
        """
        while not self._has_head:
            if self._failure is not None:
                raise self._failure
            await self._wait_for_data()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raise `LostMidReply` where it breaks off, `MalformedReply` where it is none."""
        while True:
            if self._chunks:
                yield self._take_chunks()
            elif self._complete:
                return
            elif self._failure is not None:
                raise self._failure
            else:
                await self._wait_for_data()

    def abort(self) -> None:
        """Close the connection now; a reply that is not complete has then been lost."""
        self._reusable = False
        if not self._is_over:
            self._failure = self._lost("the connection was closed on this side")
        self._transport.abort()

    @property
    def _is_over(self) -> bool:
        """Return whether nothing that is still to come belongs to a reply."""
        return self._complete or self._failure is not None

    def _lost(self, reason: str) -> TransportFailure:
        return LostMidReply(reason) if self._has_head else LostBeforeReply(reason)

    def _take_chunks(self) -> bytes:
        chunks, self._chunks, self._unread = self._chunks, [], 0
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _wait_for_data(self) -> None:
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # -- for the event loop -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Do as `Protocol` says."""
        self._transport = cast(asyncio.Transport, transport)
        socket = transport.get_extra_info("socket")
        if self._poll is not None and socket is not None:
            # TLS sends records of its own, which are readable and are no reply.
            secure = transport.get_extra_info("sslcontext") is not None
            self._poll.register(socket.fileno(), _CLOSED if secure else _CLOSED_OR_READABLE)

    def data_received(self, data: bytes) -> None:
        """Do as `Protocol` says."""
        if self._complete:  # it was not requested
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as invalid:
            self._fail(MalformedReply(f"what came is no HTTP: {invalid}"))
        if not self._has_head and self._received > MAX_HEAD:
            self._fail(_too_long_head())
        if self._received > self._most_bytes and not self._is_over:
            self._end_at_bound()
        if self._unread > MAX_UNREAD and not self._paused and not self._is_over:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Do as `Protocol` says: the connection ends. A server that has read the request has acknowledged it."""
        self._is_request_unread = self._transport.get_write_buffer_size() + _unacknowledged(self._transport) > 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Do as `Protocol` says; a body of unknown length is complete."""
        is_reset = isinstance(exc, ConnectionResetError | BrokenPipeError)
        self._is_request_unread |= is_reset and self._loop.time() - self._sent_at < RESET_WITHIN_S
        self._reusable = False
        if not self._is_over:
            if self._has_head and self._ends_with_connection and exc is None:
                self._complete = True
            else:
                self._failure = self._lost(str(exc) if exc else "the connection was closed")
        self._on_lost(self)
        self._wake()

    def _fail(self, failure: TransportFailure) -> None:
        """Close the connection; what is still to come of the reply is `failure`."""
        if not self._is_over:
            self._failure = failure
        self.abort()

    def _end_at_bound(self) -> None:
        """Close the connection: an error reply ends here, another one is invalid."""
        if self._has_head and self.status != HTTP_OK:
            self._complete = True
            self.abort()
        else:
            self._fail(
                MalformedReply(f"the reply is longer than {self._most_bytes} bytes, which is the most that is read")
            )

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # -- for the parser -----------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add one header; one that is there is added to, as HTTP has it. A trailer is dropped."""
        if self._is_over:
            return
        self._head_bytes += len(name) + len(value)
        self._head_lines += 1
        if self._head_bytes > MAX_HEAD:
            self._fail(_too_long_head())
        elif self._head_lines > MAX_HEADERS:
            self._fail(MalformedReply(f"the reply has more than {MAX_HEADERS} headers"))
        elif not self._has_head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Begin the body; the headers of an interim reply (1xx) are dropped."""
        if self._is_over:
            return
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200 and self.status != SWITCHING_PROTOCOLS:
            self.headers = {}
            return
        if problem := self._head_problem():
            self._fail(MalformedReply(problem))
            return
        has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
        self._ends_with_connection = not has_length and self.status not in NO_CONTENT
        self._has_head = True
        if self.status != HTTP_OK:
            self._most_bytes = min(self._most_bytes, MAX_SHORT_REPLY)

    def _head_problem(self) -> str:
        """Return why no reply can follow this head; empty where one can."""
        version = self._parser.get_http_version()
        coding = self.headers.get("transfer-encoding")
        compression = self.headers.get("content-encoding", "")
        self._is_compressed = compression.lower() not in PLAIN
        if not 200 <= self.status < 600:
            return f"it has the status {self.status}"
        if version not in ("1.1", "1.0"):
            return f"it is a reply of HTTP/{version}, not of HTTP/1.1"
        if coding is not None and (coding.lower() != "chunked" or version != "1.1"):
            return f"its transfer-encoding {coding!r} in HTTP/{version} leaves open where it ends"
        if self.status != HTTP_OK:
            return ""
        if self._is_compressed:
            return f"it is compressed (content-encoding {compression!r}), which was not requested"
        announced = int(self.headers.get("content-length", 0))
        if announced > self._most_bytes:
            return f"it announces {announced} bytes; at most {self._most_bytes} are read"
        return ""

    def on_body(self, data: bytes) -> None:
        """Add a part of the body; a compressed error is not readable."""
        if not self._is_over and not self._is_compressed:
            self._chunks.append(data)
            self._unread += len(data)

    def on_message_complete(self) -> None:
        """End the reply."""
        if self._has_head and not self._is_over:
            self._complete = True
            self._reusable = self._reusable and self._parser.should_keep_alive()

    def on_message_begin(self) -> None:
        """Begin a reply; a second one was not requested."""
        if self._complete:
            self._reusable = False


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Return how much of what was sent the other side has not acknowledged [bytes]; 0 where the system does not say."""
    socket = transport.get_extra_info("socket")
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4)))
    except (AttributeError, OSError):
        return 0
    return int(count)


def _too_long_head() -> MalformedReply:
    return MalformedReply(f"the reply's headers are longer than {MAX_HEAD} bytes")


_SAFE_CHARACTERS = "/%?=&:@!$'()*+,;~"


@value
class ServerAddress:
    """A server address holds what a URL leads to.

    Attributes:
        host: Name or address.
        port: TCP port.
        secure: Whether it speaks TLS.
        target: Path and query.
        headers: The headers that follow from the URL.
    """

    host: str
    port: int
    secure: bool
    target: str
    headers: str


class HttpTransport:
    """The transport keeps a pool of connections; the pools per kind of work bound how many there are.

    Args:
        connect_timeout_s: Bound on connecting [s].
        idle_timeout_s: When an idle connection is closed [s].
        max_reply_bytes: Bound on a reply as it is sent, its head and framing included [bytes].
    """

    def __init__(
        self, *, connect_timeout_s: float, idle_timeout_s: float, max_reply_bytes: int = MAX_REPLY_BYTES
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._max_reply_bytes = max_reply_bytes
        self._idle: dict[tuple[str, int, bool], list[Connection]] = {}
        self._all: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""
        async with HttpExchange(self, "GET", url, headers, b"", MAX_SHORT_REPLY) as reply:
            return HttpReply(status=reply.status, headers=reply.headers, body=await reply.read())

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> "HttpExchange":
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""
        return HttpExchange(self, "POST", url, headers, body, self._max_reply_bytes)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in tuple(self._all):
            connection.abort()

    async def connection(self, address: ServerAddress, *, kept: bool = True) -> Connection:
        """Return a connection to `address`: one that is idle and open, where a `kept` one will do, or a new one.

        Raises:
            NotSent: When no connection can be made.
        """
        idle = self._idle.get((address.host, address.port, address.secure))
        while kept and idle:
            connection = idle.pop()
            if not connection.is_spoilt:
                return connection
            connection.abort()
        return await self._connect(address)

    def give_back(self, address: ServerAddress, connection: Connection) -> None:
        """Keep a connection for the next request if it is reusable; else close it."""
        if not connection.is_reusable:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault((address.host, address.port, address.secure), []).append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._idle_timeout_s, self._sweep, loop)

    async def _connect(self, address: ServerAddress) -> Connection:
        tls = self._context() if address.secure else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._all.discard), address.host, address.port, ssl=tls
                )
        except (OSError, UnicodeError) as failure:  # a timeout is an OSError too
            raise NotSent(str(failure) or f"no connection within {self._connect_timeout_s:g} s") from failure
        self._all.add(connection)
        if connection.is_spoilt:
            connection.abort()
            raise NotSent("the server sent something before a request, or closed the connection at once")
        return connection

    def _context(self) -> ssl.SSLContext:
        self._tls = self._tls or ssl.create_default_context()
        return self._tls

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that have been idle for too long, and schedule the next sweep."""
        now = loop.time()
        for idle in self._idle.values():
            while idle and now - idle[0].idle_since >= self._idle_timeout_s:
                idle.pop(0).abort()
        oldest = min((idle[0].idle_since for idle in self._idle.values() if idle), default=None)
        wait_s = None if oldest is None else max(0.0, oldest + self._idle_timeout_s - now)
        self._sweeping = None if wait_s is None else loop.call_later(wait_s, self._sweep, loop)


class HttpExchange:
    """An exchange is an async context around one request; it returns the reply once its headers are read."""

    __slots__ = ("_address", "_body", "_connection", "_headers", "_method", "_most_bytes", "_transport")

    def __init__(
        self,
        transport: HttpTransport,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        most_bytes: int,
    ) -> None:
        self._transport = transport
        self._method = method
        self._address = address_of(url)
        self._headers = headers
        self._body = body
        self._most_bytes = most_bytes

    async def __aenter__(self) -> HttpStream:
        connection = await self._transport.connection(self._address)
        try:
            await self._send(connection)
        except LostBeforeReply as lost:
            if not connection.was_closed_while_idle:
                raise
            connection = await self._new_connection(lost)
            await self._send(connection)
        return HttpStream(status=connection.status, headers=connection.headers, chunks=connection.chunks())

    async def _send(self, connection: Connection) -> None:
        """Send the request and wait for the head of its reply."""
        self._connection = connection
        try:
            connection.send(self._head() + self._body, self._most_bytes)
            await connection.head()
        except BaseException:
            connection.abort()
            raise

    async def _new_connection(self, lost: LostBeforeReply) -> Connection:
        """Return a connection that was never used; where none can be made, the request counts as lost."""
        try:
            return await self._transport.connection(self._address, kept=False)
        except NotSent:
            raise lost from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.give_back(self._address, self._connection)

    def _head(self) -> bytes:
        address = self._address
        own = "".join([f"{name}: {text}\r\n" for name, text in self._headers.items()])
        if own.count("\n") != len(self._headers) or own.count("\r") != len(self._headers):
            raise NotSent("a header holds a line break")
        length = f"content-length: {len(self._body)}\r\n" if self._body else ""
        return f"{self._method} {address.target} HTTP/1.1\r\n{address.headers}{own}{length}\r\n".encode()


@lru_cache(maxsize=1024)
def address_of(url: str) -> ServerAddress:
    """Return the address of `url`; a user and password in it become basic authentication.

    Example:
        >>> address_of("https://[::1]:8443/v1/models?x=ü").target
        '/v1/models?x=%C3%BC'
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_SAFE_CHARACTERS)
    named = parts.netloc.rpartition("@")[2]
    headers = f"host: {named}\r\naccept: */*\r\naccept-encoding: identity\r\nuser-agent: metacog\r\n"
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers += f"authorization: Basic {b64encode(credentials.encode()).decode()}\r\n"
    port = parts.port or (443 if secure else 80)
    return ServerAddress(host=parts.hostname or "", port=port, secure=secure, target=target, headers=headers)
