"""A request made twice is answered once, whichever replica it comes to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from chassis.idempotency import RequestInProgress
from inference.spend import Spend
from kernel.errors import MetacogError

# Between two looks at whether the first one has ended [s].
LOOK_S = 0.1
# Beyond the time of the request itself, before a request without an answer counts as lost [s].
SPARE_S = 10.0


class RequestStore(Protocol):
    """Where requests are known by the names that callers gave them. Every method may raise `DatabaseUnavailable`."""

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> bool:
        """Whether the caller is to answer the request; False while somebody else does, or when somebody has.

        Raises:
            RequestIdReused: When the identifier belongs to another request.
        """

    async def answered(self, key_name: str, request_id: str) -> dict[str, Any] | None:
        """Document of the task that answered a request; None while there is none."""

    async def leave(self, key_name: str, request_id: str) -> None:
        """Leave a request that was not answered to the next attempt."""


class Once:
    """One caller's place at a request.

    Attributes:
        earlier: Document of the task that answered it before; None when the caller is to answer it.
    """

    def __init__(self, store: RequestStore, key_name: str, request_id: str) -> None:
        self._store = store
        self._name = (key_name, request_id)
        self._done = not request_id
        self.earlier: dict[str, Any] | None = None

    def answered(self) -> None:
        """The request is answered: the task was kept with its name."""
        self._done = True

    async def left(self) -> None:
        """It was not answered; the next attempt may."""
        if not self._done and self.earlier is None:
            with suppress(MetacogError):  # its lease runs out
                await self._store.leave(*self._name)


@asynccontextmanager
async def once(store: RequestStore, key_name: str, request_id: str, digest: str, spend: Spend) -> AsyncIterator[Once]:
    """A place at a request: with the earlier answer, or alone to make it.

    Raises:
        RequestIdReused: When the identifier belongs to another request.
        RequestInProgress: When the first one is still running at this one's deadline.
        DatabaseUnavailable: When the database is away.
    """
    place = Once(store, key_name, request_id)
    if request_id:
        lease_s = spend.seconds_left() + SPARE_S
        while not await store.begin(key_name, request_id, digest, lease_s=lease_s):
            place.earlier = await store.answered(key_name, request_id)
            if place.earlier is not None:
                break
            if spend.seconds_left() <= LOOK_S:
                said = f"the first request with request_id {request_id!r} is still running"
                raise RequestInProgress(said, request_id=request_id)
            await asyncio.sleep(LOOK_S)
    try:
        yield place
    finally:
        await place.left()
