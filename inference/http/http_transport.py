"""One HTTP/1.1 connection on the client's side: one request out, one reply in, again and again.

Parsing is httptools' (llhttp, as in Node.js). Whatever fails is a `TransportFailure`; giving a connection up closes it
at once, which is how a backend learns that nobody waits any more.
"""

import asyncio
import select
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import cast
from urllib.parse import quote, unquote, urlsplit

import httptools

from inference.http.transport import HttpReply, HttpStream, LostBeforeReply, LostMidReply, NotSent, TransportFailure
from kernel.values import value

# A body that nobody reads is not taken from the network beyond this [bytes].
MAX_UNREAD = 256 * 1024
MAX_HEAD = 64 * 1024
NO_CONTENT = (204, 304)

# Linux tells a half-closed connection by this; elsewhere the hang-up that `poll` always reports has to do.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class Connection(asyncio.Protocol):
    """A connection, and the reply that is coming in on it.

    Args:
        on_lost: Told when the connection has ended.

    Attributes:
        status: Status of the reply.
        headers: Its headers, under lower-case names.
        idle_since: When it was last given back [s, the loop's clock].
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
        self._head_bytes = 0
        self._paused = False
        self._has_head = False
        self._complete = True
        self._reusable = True
        self._failure: TransportFailure | None = None
        self._waiting: asyncio.Future[None] | None = None

    # -- for who sends ------------------------------------------------------------------------------------------------

    @property
    def is_reusable(self) -> bool:
        """Return whether the reply has come to its end, and another request may be sent."""
        return self._complete and self._reusable and self._failure is None

    @property
    def is_closed(self) -> bool:
        """Return whether the other side has closed the connection, noticed by the event loop or not."""
        return not self._reusable or (self._poll is not None and bool(self._poll.poll(0)))

    def send(self, request: bytes) -> None:
        """Send a request, whole; its reply is what this connection is about from now on."""
        self.headers = {}
        self._chunks = []
        self._unread = self._head_bytes = 0
        self._has_head = self._complete = False
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            LostBeforeReply: When the connection ends before, or what comes is no HTTP.
        """
        while not self._has_head:
            if self._failure is not None:
                raise self._failure
            await self._wait_for_data()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the body as it comes, and `LostMidReply` where it breaks off."""
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
        """Close the connection now."""
        self._reusable = False
        self._transport.abort()

    def _take_chunks(self) -> bytes:
        chunks, self._chunks, self._unread = self._chunks, [], 0
        if self._paused:
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
        """As in `Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        socket = transport.get_extra_info("socket")
        if self._poll is not None and socket is not None:
            self._poll.register(socket.fileno(), _CLOSED)

    def data_received(self, data: bytes) -> None:
        """As in `Protocol`."""
        if self._complete:  # what nobody asked for
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as invalid:
            self._fail(f"what came is no HTTP: {invalid}")
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._fail(f"the reply's headers are longer than {MAX_HEAD} bytes")
        if self._unread > MAX_UNREAD and not self._paused and not self._complete:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `Protocol`; a body of untold length has come to its end."""
        self._reusable = False
        if self._has_head and not self._complete and self._ends_with_connection and exc is None:
            self._complete = True
        elif not self._complete:
            self._fail(str(exc) if exc else "the connection was closed")
        self._on_lost(self)
        self._wake()

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = LostMidReply(reason) if self._has_head else LostBeforeReply(reason)
        self.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # -- for the parser -----------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All of them; those of an interim reply (1xx) tell nothing."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = {}
            return
        has_length = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not has_length and self.status not in NO_CONTENT
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._chunks.append(data)
        self._unread += len(data)

    def on_message_complete(self) -> None:
        """The end of a reply."""
        if self._has_head:
            self._complete = True
            self._reusable = self._reusable and self._parser.should_keep_alive()

    def on_message_begin(self) -> None:
        """The beginning of one; a second one was not asked for."""
        if self._complete:
            self._reusable = False


_SAFE_CHARACTERS = "/%?=&:@!$'()*+,;~"


@value
class ServerAddress:
    """Where a URL leads.

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
    """A pool of keep-alive connections. How many there are is bounded above, by the pools per kind of work.

    Args:
        connect_timeout_s: Bound on connecting [s].
        idle_timeout_s: When an idle connection is closed [s].
    """

    def __init__(self, *, connect_timeout_s: float, idle_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._idle: dict[tuple[str, int, bool], list[Connection]] = {}
        self._all: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""
        async with HttpExchange(self, "GET", url, headers, b"") as reply:
            return HttpReply(status=reply.status, headers=reply.headers, body=await reply.read())

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> "HttpExchange":
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""
        return HttpExchange(self, "POST", url, headers, body)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in tuple(self._all):
            connection.abort()

    async def connection(self, address: ServerAddress) -> Connection:
        """Return a connection to `address`: one that is idle and open, or a new one.

        Raises:
            NotSent: When there is no way there.
        """
        idle = self._idle.get((address.host, address.port, address.secure))
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                return connection
            connection.abort()
        return await self._connect(address)

    def give_back(self, address: ServerAddress, connection: Connection) -> None:
        """Keep a connection for the next request, if it can take one; else close it."""
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
        return connection

    def _context(self) -> ssl.SSLContext:
        self._tls = self._tls or ssl.create_default_context()
        return self._tls

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has been idle for too long, and come back when the next one will have been."""
        now = loop.time()
        for idle in self._idle.values():
            while idle and now - idle[0].idle_since >= self._idle_timeout_s:
                idle.pop(0).abort()
        oldest = min((idle[0].idle_since for idle in self._idle.values() if idle), default=None)
        wait_s = None if oldest is None else max(0.0, oldest + self._idle_timeout_s - now)
        self._sweeping = None if wait_s is None else loop.call_later(wait_s, self._sweep, loop)


class HttpExchange:
    """One request and its reply, as an async context that gives the reply from its headers on."""

    __slots__ = ("_address", "_body", "_connection", "_headers", "_method", "_transport")

    def __init__(
        self, transport: HttpTransport, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        self._transport = transport
        self._method = method
        self._address = address_of(url)
        self._headers = headers
        self._body = body

    async def __aenter__(self) -> HttpStream:
        connection = self._connection = await self._transport.connection(self._address)
        try:
            connection.send(self._head() + self._body)
            await connection.head()
        except BaseException:
            connection.abort()
            raise
        return HttpStream(status=connection.status, headers=connection.headers, chunks=connection.chunks())

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
    """Return where `url` leads; a user and password in it are presented as HTTP has them.

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
