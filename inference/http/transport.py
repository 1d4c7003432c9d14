"""HTTP as the client needs it: a question answered whole, and a request answered piece by piece.

Cancelling either, or leaving a stream early, must close the connection: so a backend learns to stop generating.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kernel.values import value


class TransportFailure(Exception):
    """The network failed."""


class NotSent(TransportFailure):
    """The request not sent, not one byte of it: no connection could be made."""


class LostBeforeReply(TransportFailure):
    """The connection ended before a reply began; whether the request was read, and acted on, nobody knows."""


class LostMidReply(TransportFailure):
    """The connection ended, or turned to invalid, in the middle of a reply."""


@value
class HttpReply:
    """A reply: its status, its headers under lower-case names, and its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@value
class HttpStream:
    """A reply whose body is still coming, to be taken once; the chunks are as the network cut them."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks])


class Transport(Protocol):
    """What a backend is reached through; each method raises `TransportFailure` and nothing else of the network's."""

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpReply:
        """Fetch `url`."""

    def stream(self, url: str, headers: Mapping[str, str], body: bytes) -> AbstractAsyncContextManager[HttpStream]:
        """Send `body` and wait for the reply's status; leaving the context early closes the connection."""

    async def aclose(self) -> None:
        """Close every connection."""
