"""Bounded places for requests, one pool per kind of work."""

import asyncio
from types import TracebackType

from inference.config import PoolSize
from inference.errors import BackendOverloaded


class Pool:
    """Places for the requests of one kind of work, first come first served.

    Args:
        backend: Name for the message.
        size: Its bounds.
    """

    def __init__(self, backend: str, size: PoolSize) -> None:
        self._backend = backend
        self._size = size
        self._places = asyncio.Semaphore(size.in_flight)
        self._waiting = 0

    def place(self) -> "PoolSlot":
        """Return one place, to be held as an async context; entering it waits for it.

        Raises:
            BackendOverloaded: On entering, when too many wait already.
        """
        return PoolSlot(self)

    async def take(self) -> None:
        """Take a place, after waiting for it."""
        if self._places.locked() and self._waiting >= self._size.queue:
            raise BackendOverloaded(
                f"backend {self._backend}: {self._size.in_flight} requests of this kind are under way and "
                f"{self._waiting} wait",
                backend=self._backend,
            )
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1

    def give_back(self) -> None:
        """Give a place back."""
        self._places.release()


class PoolSlot:
    """A place in a pool, held while its context is open."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> None:
        await self._pool.take()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.give_back()
