"""The transport through aiohttp.

Chosen by measurement (`bench/http_clients.py`): the cheapest client whose cancellation closes the connection.
pyreqwest costs less CPU, but a cancelled call of it lives on until the backend has answered.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from chassis.inference.connections import LiveConnector
from chassis.inference.transport import HttpReply, HttpStream, LostBeforeReply, LostMidReply, NotSent


class AiohttpTransport:
    """A pool of keep-alive connections. How many there are is bounded above, by the pools per kind of work.

    Args:
        connect_timeout_s: Bound on connecting [s].
        idle_timeout_s: When an idle connection is closed [s].
    """

    def __init__(self, *, connect_timeout_s: float, idle_timeout_s: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._idle_timeout_s = idle_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""
        async with await self._sent("GET", url, headers, None) as reply:
            return await _whole(reply)

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpStream]:
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""
        async with await self._sent("POST", url, headers, body) as reply:
            yield HttpStream(status=reply.status, headers=_lowered(reply), chunks=_chunks(reply))

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _sent(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        try:
            return await self._open().request(method, url, headers=headers, data=body, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as failure:
            raise NotSent(_words(failure)) from failure
        except _FAILURES as failure:
            raise LostBeforeReply(_words(failure)) from failure

    def _open(self) -> aiohttp.ClientSession:
        # A session belongs to the running loop, so it cannot be made with the transport.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=LiveConnector(idle_timeout_s=self._idle_timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
            )
        return self._session


_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


async def _whole(reply: aiohttp.ClientResponse) -> HttpReply:
    try:
        return HttpReply(status=reply.status, headers=_lowered(reply), body=await reply.read())
    except _FAILURES as failure:
        raise LostMidReply(_words(failure)) from failure


async def _chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except _FAILURES as failure:
        raise LostMidReply(_words(failure)) from failure


def _lowered(reply: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {name.lower(): text for name, text in reply.headers.items()}


def _words(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
