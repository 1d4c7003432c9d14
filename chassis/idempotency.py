"""A request that is made twice is answered once.

    async with once(store, key.name, request.request_id, digest, spend.seconds_left) as attempt:
        if attempt.earlier is not None:
            return attempt.earlier
        ...

A store knows which requests are being answered and which answers exist: `LocalRequests` for the requests of one process
whose answers are looked up elsewhere, a database table with leases for those of several replicas.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, Protocol, TypeVar

from kernel.errors import Code, MetacogError

A = TypeVar("A")
Found = TypeVar("Found", covariant=True)

# Time beyond the deadline of a request, before a request without an answer counts as lost [s].
SPARE_S = 10.0


class RequestIdReused(MetacogError):
    """An identifier was used for two different requests."""

    code = Code.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class RequestInProgress(MetacogError):
    """The first request with an identifier was still running at the deadline of its repetition."""

    code = Code.ABORTED
    reason = "REQUEST_IN_PROGRESS"


class RequestTakenOver(MetacogError):
    """A request was held up until its lease ran out, and is another attempt's now; only that one's answer is kept."""

    code = Code.ABORTED
    reason = "REQUEST_TAKEN_OVER"


def check_digest(
    first: str,
    digest: str,
    identifier: str,
    *,
    field: str = "request_id",
    other: str = "another request",
    **metadata: str,
) -> None:
    """Return if a request that comes with a known identifier is the same as the first time.

    Args:
        first: Digest of the first request with the identifier.
        digest: Digest of this request.
        identifier: Identifier that the caller chose.
        field: Field of the request that holds it.
        other: What the first request is called when it was not the same.
        metadata: Further values of the error.

    Raises:
        RequestIdReused: When it is not the same.
    """
    if first != digest:
        message = f"{field} {identifier!r} was used for {other}; choose a new one"
        raise RequestIdReused(message, **{field: identifier}, **metadata)


class RequestStore(Protocol[Found]):
    """A store knows requests by API key and identifier. Every method may raise an error of its database."""

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> str | None:
        """Return a claim where the caller is to answer the request; None while another one does, or when one has.

        A claim that was taken over is worth nothing any more.

        Args:
            key_name: Name of the API key.
            request_id: Identifier that the caller chose.
            digest: Digest of the request.
            lease_s: Time after which the request may be taken over from a process that was lost [s].

        Raises:
            RequestIdReused: When the identifier belongs to another request.
        """

    async def answered(self, key_name: str, request_id: str) -> Found | None:
        """Return the answer of an earlier request; None while there is none."""

    async def leave(self, key_name: str, request_id: str, claim: str) -> None:
        """Let the next attempt answer a request that `begin` gave to the caller, unless it was taken over."""

    async def wait(self, key_name: str, request_id: str, *, at_most_s: float) -> None:
        """Return when the first request may have ended, at the latest after `at_most_s`."""


class Attempt(Generic[A]):
    """An attempt is one caller's try to answer a request.

    Attributes:
        earlier: The answer of an earlier request; None when the caller is to answer.
        claim: What the store gave the caller, to answer the request; empty without an identifier.
    """

    def __init__(self) -> None:
        self.earlier: A | None = None
        self.claim = ""
        self.is_answered = False

    def mark_answered(self) -> None:
        """Note that the store holds the answer now, so that nothing is left to the next attempt."""
        self.is_answered = True


@asynccontextmanager
async def once(
    store: RequestStore[A], key_name: str, request_id: str, digest: str, seconds_left: Callable[[], float]
) -> AsyncIterator[Attempt[A]]:
    """Give an attempt at a request, with the earlier answer or alone; without a `request_id` nothing is looked up.

    An attempt that ends without `mark_answered` leaves the request to the next one.

    Args:
        store: The requests that are known.
        key_name: Name of the API key; identifiers belong to it.
        request_id: Identifier that the caller chose; empty for none.
        digest: Digest of the request.
        seconds_left: Returns the time until the deadline [s].

    Raises:
        RequestIdReused: When the identifier belongs to another request.
        RequestInProgress: When the first request is still running at the deadline.
    """
    attempt: Attempt[A] = Attempt()
    if not request_id:
        yield attempt
        return
    while (claim := await store.begin(key_name, request_id, digest, lease_s=seconds_left() + SPARE_S)) is None:
        attempt.earlier = await store.answered(key_name, request_id)
        if attempt.earlier is not None:
            yield attempt
            return
        left_s = seconds_left()
        if left_s <= 0:
            message = f"the first request with request_id {request_id!r} is still running"
            raise RequestInProgress(message, request_id=request_id)
        await store.wait(key_name, request_id, at_most_s=left_s)
    attempt.claim = claim
    try:
        yield attempt
    finally:
        if not attempt.is_answered:
            with suppress(MetacogError):  # a store that cannot be reached lets the lease run out
                await store.leave(key_name, request_id, claim)


Find = Callable[[str, str, str], Awaitable[A | None]]


class LocalRequests(Generic[A]):
    """Local requests are those that one process is answering; `find` looks their answers up.

    Args:
        find: Returns the answer of an earlier request by key name, request identifier and digest, None where it may be
            answered anew; raises `RequestIdReused` when the earlier request has another digest.
    """

    def __init__(self, find: Find[A]) -> None:
        self._find = find
        self._running: dict[tuple[str, str], asyncio.Event] = {}
        self._found: dict[tuple[str, str], A] = {}

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> str | None:
        """Do as `RequestStore` says; there is no lease, since the requests end with their process."""
        name = (key_name, request_id)
        if name in self._running:
            return None
        self._running[name] = asyncio.Event()
        is_free = False
        try:
            found = await self._find(key_name, request_id, digest)
            is_free = found is None
        finally:
            if not is_free:
                self._end(name)
        if found is not None:
            self._found[name] = found
        return request_id if is_free else None

    async def answered(self, key_name: str, request_id: str) -> A | None:
        """Return the answer that `begin` has just found."""
        return self._found.pop((key_name, request_id), None)

    async def leave(self, key_name: str, request_id: str, claim: str) -> None:
        """Let the next attempt look the answer up, or make it."""
        self._end((key_name, request_id))

    async def wait(self, key_name: str, request_id: str, *, at_most_s: float) -> None:
        """Return when the running request has ended, at the latest after `at_most_s`."""
        running = self._running.get((key_name, request_id))
        if running is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(at_most_s):
                    await running.wait()

    def _end(self, name: tuple[str, str]) -> None:
        self._running.pop(name).set()
