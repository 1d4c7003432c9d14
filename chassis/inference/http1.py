"""One HTTP/1.1 connection on the client's side: one request out, one reply in, again and again.

Parsing is httptools' (llhttp, as in Node.js). Whatever fails is a `TransportFailure`; giving a connection up closes it
at once, which is how a backend learns that nobody waits any more.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from chassis.inference.transport import LostBeforeReply, LostMidReply, TransportFailure

# A body that nobody reads is not taken from the network beyond this [bytes].
MOST_UNREAD = 256 * 1024
MOST_HEAD = 64 * 1024
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
        """Whether the reply has come to its end, and another request may be sent."""
        return self._complete and self._reusable and self._failure is None

    @property
    def is_closed(self) -> bool:
        """Whether the other side has closed the connection, noticed by the event loop or not."""
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
            await self._news()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, and `LostMidReply` where it breaks off."""
        while True:
            if self._chunks:
                yield self._taken()
            elif self._complete:
                return
            elif self._failure is not None:
                raise self._failure
            else:
                await self._news()

    def abort(self) -> None:
        """Close the connection now."""
        self._reusable = False
        self._transport.abort()

    def _taken(self) -> bytes:
        chunks, self._chunks, self._unread = self._chunks, [], 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _news(self) -> None:
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
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as nonsense:
            self._fail(f"what came is no HTTP: {nonsense}")
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD:
                self._fail(f"the reply's headers are longer than {MOST_HEAD} bytes")
        if self._unread > MOST_UNREAD and not self._paused and not self._complete:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `Protocol`; a body of untold length has come to its end."""
        self._reusable = False
        if self._has_head and not self._complete and self._ends_with_connection and exc is None:
            self._complete = True
        elif not self._complete:
            self._fail(str(exc) if exc else "the connection was closed")
        self._on_lost(self)
        self._tell()

    def _fail(self, why: str) -> None:
        if self._failure is None:
            self._failure = LostMidReply(why) if self._has_head else LostBeforeReply(why)
        self.abort()

    def _tell(self) -> None:
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
        told = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not told and self.status not in NO_CONTENT
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
