"""Bounded places for requests, one pool per kind of work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chassis.inference.config import PoolSize
from chassis.inference.errors import BackendOverloaded


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

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold one place, after waiting for it.

        Raises:
            BackendOverloaded: When too many wait already.
        """
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
        try:
            yield
        finally:
            self._places.release()
