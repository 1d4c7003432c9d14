"""Idempotency of requests: a repeated request is answered once, whichever replica receives it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from chassis.idempotency import RequestInProgress
from inference.spend import Spend
from kernel.errors import MetacogError

# Time between two checks of whether the first request has ended [s].
POLL_S = 0.1
# Time beyond that of the request itself, before a request without an answer counts as lost [s].
SPARE_S = 10.0


class RequestStore(Protocol):
    """A store of requests by their identifiers. Every method may raise `DatabaseUnavailable`."""

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> bool:
        """Return whether the caller shall answer the request; False while another does, or when it is answered.

        Raises:
            RequestIdReused: When the identifier belongs to another request.
        """

    async def answer(self, key_name: str, request_id: str) -> dict[str, Any] | None:
        """Return the document of the task that answered a request; None while there is none."""

    async def release(self, key_name: str, request_id: str) -> None:
        """Release a request that was not answered, so that the next attempt can answer it."""


class Claim:
    """A caller's claim to answer a request.

    Attributes:
        earlier: Document of the task that answered it before; None when the caller shall answer it.
    """

    def __init__(self, store: RequestStore, key_name: str, request_id: str) -> None:
        self._store = store
        self._name = (key_name, request_id)
        self._done = not request_id
        self.earlier: dict[str, Any] | None = None

    def mark_answered(self) -> None:
        """Note that the request is answered: its task is stored with its identifier."""
        self._done = True

    async def release(self) -> None:
        """Release the request, unless it is answered."""
        if not self._done and self.earlier is None:
            with suppress(MetacogError):  # its lease expires
                await self._store.release(*self._name)


@asynccontextmanager
async def claimed(
    store: RequestStore, key_name: str, request_id: str, digest: str, spend: Spend
) -> AsyncIterator[Claim]:
    """Yield a claim to a request: with its earlier answer, or the only one to make it.

    Raises:
        RequestIdReused: When the identifier belongs to another request.
        RequestInProgress: When the first one is still running at this one's deadline.
        DatabaseUnavailable: When the database cannot be reached.
    """
    claim = Claim(store, key_name, request_id)
    if request_id:
        lease_s = spend.seconds_left() + SPARE_S
        while not await store.begin(key_name, request_id, digest, lease_s=lease_s):
            claim.earlier = await store.answer(key_name, request_id)
            if claim.earlier is not None:
                break
            if spend.seconds_left() <= POLL_S:
                message = f"the first request with request_id {request_id!r} is still running"
                raise RequestInProgress(message, request_id=request_id)
            await asyncio.sleep(POLL_S)
    try:
        yield claim
    finally:
        await claim.release()
