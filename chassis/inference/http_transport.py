"""The transport: keep-alive connections to backends, and one request at a time on each.

Our own, by measurement (`bench/http_clients.py`): a general client costs several times the CPU of one that only posts
JSON, and that cost is paid by every answer.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from urllib.parse import quote, unquote, urlsplit

from chassis.inference.http1 import Connection
from chassis.inference.transport import HttpReply, HttpStream, NotSent
from kernel.values import value

_AS_IT_IS = "/%?=&:@!$'()*+,;~"


@value
class Place:
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
        async with Exchange(self, "GET", url, headers, b"") as reply:
            return HttpReply(status=reply.status, headers=reply.headers, body=await reply.read())

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> "Exchange":
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""
        return Exchange(self, "POST", url, headers, body)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in tuple(self._all):
            connection.abort()

    async def connection(self, place: Place) -> Connection:
        """A connection to `place`: one that is idle and open, or a new one.

        Raises:
            NotSent: When there is no way there.
        """
        idle = self._idle.get((place.host, place.port, place.secure))
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                return connection
            connection.abort()
        return await self._connected(place)

    def give_back(self, place: Place, connection: Connection) -> None:
        """Keep a connection for the next request, if it can take one; else close it."""
        if not connection.is_reusable:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault((place.host, place.port, place.secure), []).append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._idle_timeout_s, self._sweep, loop)

    async def _connected(self, place: Place) -> Connection:
        tls = self._context() if place.secure else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._all.discard), place.host, place.port, ssl=tls
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


class Exchange:
    """One request and its reply, as an async context that gives the reply from its headers on."""

    __slots__ = ("_body", "_connection", "_headers", "_method", "_place", "_transport")

    def __init__(
        self, transport: HttpTransport, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        self._transport = transport
        self._method = method
        self._place = place_of(url)
        self._headers = headers
        self._body = body

    async def __aenter__(self) -> HttpStream:
        connection = self._connection = await self._transport.connection(self._place)
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
        self._transport.give_back(self._place, self._connection)

    def _head(self) -> bytes:
        place = self._place
        own = "".join([f"{name}: {text}\r\n" for name, text in self._headers.items()])
        if own.count("\n") != len(self._headers) or own.count("\r") != len(self._headers):
            raise NotSent("a header holds a line break")
        length = f"content-length: {len(self._body)}\r\n" if self._body else ""
        return f"{self._method} {place.target} HTTP/1.1\r\n{place.headers}{own}{length}\r\n".encode()


@lru_cache(maxsize=1024)
def place_of(url: str) -> Place:
    """Where `url` leads; a user and password in it are presented as HTTP has them.

    Example:
        >>> place_of("https://[::1]:8443/v1/models?x=ü").target
        '/v1/models?x=%C3%BC'
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_AS_IT_IS)
    named = parts.netloc.rpartition("@")[2]
    headers = f"host: {named}\r\naccept: */*\r\naccept-encoding: identity\r\nuser-agent: metacog\r\n"
    if parts.username is not None:
        who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers += f"authorization: Basic {b64encode(who.encode()).decode()}\r\n"
    port = parts.port or (443 if secure else 80)
    return Place(host=parts.hostname or "", port=port, secure=secure, target=target, headers=headers)
