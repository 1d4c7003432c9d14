"""This module defines what the client needs of HTTP: a whole reply, and a reply that is read piece by piece.

Cancelling either, or leaving a stream early, must close the connection: so the backend stops generating.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kernel.values import value


class TransportFailure(Exception):
    """The network failed."""


class NotSent(TransportFailure):
    """No connection could be made, and not one byte was sent."""


class LostBeforeReply(TransportFailure):
    """The connection ended before a reply began; the request may have been read and acted on."""


class LostMidReply(TransportFailure):
    """The connection ended in the middle of a reply."""


class MalformedReply(TransportFailure):
    """What came is no reply, or a longer one than is read."""


@value
class HttpReply:
    """A reply has a status, headers under lower-case names, and its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@value
class HttpStream:
    """A streamed reply has a body that can be read once; the chunks are as the network cut them."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks])


class Transport(Protocol):
    """A transport reaches a backend; each method raises `TransportFailure` for every failure of the network."""

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> AbstractAsyncContextManager[HttpStream]:
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""

    async def aclose(self) -> None:
        """Close every connection."""
