"""Connections that are still open when a request goes out on them.

A server closes a connection that was idle for a while, and may do so before the event loop has noticed. A request
written to it would be lost, and nobody could tell whether it had been read.
"""

import asyncio
import select
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

# Linux tells a half-closed connection by this; elsewhere the hang-up that `poll` always reports has to do.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class LiveConnector(aiohttp.TCPConnector):
    """Hands out a pooled connection only if the server has not closed it by now.

    Args:
        idle_timeout_s: When an idle connection is closed [s].
    """

    def __init__(self, *, idle_timeout_s: float) -> None:
        super().__init__(limit=0, keepalive_timeout=idle_timeout_s)
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection for `req`: a pooled one that is open, or a new one."""
        connection = await super().connect(req, traces, timeout)
        # A new one that is closed at once is the server's answer: only pooled ones are passed over.
        while connection.protocol in self._used and is_closed(connection.transport):
            connection.close()
            connection = await super().connect(req, traces, timeout)
        if connection.protocol is not None:
            self._used.add(connection.protocol)
        return connection


def is_closed(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the other side has closed the connection, read or not; False where the platform cannot tell."""
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(socket.fileno(), _CLOSED)
    return bool(poll.poll(0))
