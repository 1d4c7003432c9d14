"""Admission bounds how much is in flight at once: what is over a limit is rejected at once, with a time to retry.

A place is held until its work has ended, however it ends. Nothing waits for an `AdmissionLimit`, so no queue grows; of
what callers share, such as connections, each gets `CallerShares`, and a bounded number of its calls may wait.
"""

import asyncio
import math
import time
from collections import Counter as Counts
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from prometheus_client import Counter, Gauge

from kernel.errors import MetacogError, Overloaded

P = ParamSpec("P")
T = TypeVar("T")

ADMITTED = Gauge("metacog_admitted_in_flight", "Work in flight that has a limit, by kind.", ["kind"])
OVERLOADED = Counter("metacog_overloaded_total", "Work rejected since as much was in flight as may be.", ["kind"])

SHORTEST_RETRY_S = 1
LONGEST_RETRY_S = 30
# Weight of the newest service time in the moving estimate; the last twenty or so count.
NEWEST_WEIGHT = 0.1
# Bodies of requests that one process holds together by default: at four times that, it stays below 1 GiB [bytes].
MAX_HELD_BODY_BYTES = 192 * 2**20

# A body that is longer is a large one; the large ones together, and those of one API key, hold a share of the bytes at
# most, so that other requests find room while models work for them [bytes], [0..1].
LARGE_BODY_BYTES = 2 * 2**20
LARGE_SHARE, LARGE_SHARE_OF_KEY = 2 / 3, 1 / 2

# Reasons of errors of overload; that of a backend may have no time to retry.
OVERLOAD_REASONS = frozenset({"OVERLOADED", "BACKEND_OVERLOADED"})

# Name of the API key of the request being served; empty without keys and outside of requests. The edges set it.
CALLER_KEY: ContextVar[str] = ContextVar("caller_key", default="")


class AdmissionLimit:
    """An admission limit has places for one kind of work.

    Args:
        kind: Its name, for messages and metrics.
        places: How many there are [count, >= 1].
        clock: Monotonic clock [s].
        on_overload: Is called when work is rejected, or ends with an error of overload.

    Attributes:
        in_flight: Places taken [count].
    """

    def __init__(
        self,
        kind: str,
        places: int,
        clock: Callable[[], float] = time.monotonic,
        on_overload: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = kind
        self._on_overload = on_overload
        self.in_flight = 0
        self._places = places
        self._clock = clock
        self._service_s: float | None = None
        self._gauge = ADMITTED.labels(kind)

    @property
    def retry_after_s(self) -> int:
        """Return when to retry: about when the work in flight will have ended [s, 1..30]."""
        return min(LONGEST_RETRY_S, max(SHORTEST_RETRY_S, math.ceil(self._service_s or 0.0)))

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place. An error of overload that is raised inside gets a time to retry, if it has none.

        Raises:
            Overloaded: When none is free; contains when to retry.
        """
        if self.in_flight >= self._places:
            OVERLOADED.labels(self.kind).inc()
            self._on_overload()
            raise Overloaded(
                f"{self.in_flight} {self.kind} are in flight, as many as may be; try again in {self.retry_after_s} s",
                kind=self.kind,
                in_flight=str(self.in_flight),
                retry_after_s=str(self.retry_after_s),
            )
        self.in_flight += 1
        self._gauge.inc()
        began = self._clock()
        try:
            yield
        except MetacogError as error:
            if error.reason in OVERLOAD_REASONS:
                error.metadata.setdefault("retry_after_s", str(self.retry_after_s))
                self._on_overload()
            raise
        finally:
            self.in_flight -= 1
            self._gauge.dec()
            self._update_estimate(self._clock() - began)

    def bounding(self, work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Return `work` as a function that holds a place while it runs."""

        async def bounded(*args: P.args, **named: P.kwargs) -> T:
            with self.place():
                return await work(*args, **named)

        return bounded

    def bounding_events(self, work: Callable[P, AsyncGenerator[T, None]]) -> Callable[P, AsyncGenerator[T, None]]:
        """Return `work`, which yields events, as a generator that holds a place while it runs."""

        async def bounded(*args: P.args, **named: P.kwargs) -> AsyncGenerator[T, None]:
            with self.place():
                async with aclosing(work(*args, **named)) as events:
                    async for event in events:
                        yield event

        return bounded

    def _update_estimate(self, seconds: float) -> None:
        known = self._service_s
        self._service_s = seconds if known is None else known + NEWEST_WEIGHT * (seconds - known)


class ByteLimit:
    """A byte limit bounds the bytes that all work of one kind holds together.

    Large holders (`LARGE_BODY_BYTES`) share a part of them, and those of one API key a smaller one.

    Args:
        kind: What holds them, for messages and metrics.
        most: Bytes that may be held [bytes, >= 1]; one holder alone may have more, since its own limit bounds that.

    Attributes:
        held: Bytes that are held [bytes].
    """

    def __init__(self, kind: str, most: int) -> None:
        self.kind = kind
        self.held = 0
        self._most = most
        self._large: Counts[str] = Counts()

    @contextmanager
    def share(self) -> Iterator["ByteShare"]:
        """Give a share that holds nothing yet, and what it holds at the end back."""
        share = ByteShare(self)
        try:
            yield share
        finally:
            self.add(share.key, share.held, 0)

    def check(self, key: str, own: int, wanted: int) -> None:
        """Return if a holder of `own` bytes may hold `wanted` ones.

        Args:
            key: Name of its API key.
            own: What it holds [bytes].
            wanted: What it would hold instead [bytes].

        Raises:
            Overloaded: When all together would hold too many; contains when to retry.
        """
        self._check(self.kind, self.held - own, wanted, self._most)
        if wanted > LARGE_BODY_BYTES:
            large = own if own > LARGE_BODY_BYTES else 0
            kind = f"large {self.kind}"
            self._check(kind, self._large.total() - large, wanted, int(self._most * LARGE_SHARE))
            of_key = int(self._most * LARGE_SHARE_OF_KEY)
            self._check(f"{kind} of this API key", self._large[key] - large, wanted, of_key)

    def add(self, key: str, own: int, wanted: int) -> None:
        """Count `wanted` bytes in place of a holder's `own`."""
        self.held += wanted - own
        self._large[key] += sum(sign * size for sign, size in ((1, wanted), (-1, own)) if size > LARGE_BODY_BYTES)
        if not self._large[key]:
            del self._large[key]

    def _check(self, kind: str, others: int, wanted: int, most: int) -> None:
        if others > 0 and others + wanted > most:
            OVERLOADED.labels(self.kind).inc()
            raise Overloaded(
                f"{kind} in progress hold {others} bytes, of {most} that they may hold; "
                f"try again in {SHORTEST_RETRY_S} s",
                kind=self.kind,
                retry_after_s=str(SHORTEST_RETRY_S),
            )


class ByteShare:
    """A share is what one holder, the request being served, has of a `ByteLimit`.

    Attributes:
        key: Name of its API key.
        held: Bytes that it holds [bytes].
    """

    def __init__(self, limit: ByteLimit) -> None:
        self.key = CALLER_KEY.get()
        self.held = 0
        self._limit = limit

    def hold(self, count: int) -> None:
        """Hold `count` bytes, unless it does already.

        Raises:
            Overloaded: When all together would hold too many.
        """
        if count > self.held:
            self._limit.check(self.key, self.held, count)
            self._limit.add(self.key, self.held, count)
            self.held = count


class CallerShares:
    """Each API key gets so many places, and so many calls that wait for one; further ones are rejected at once.

    Args:
        kind: What is shared, for messages and metrics.
        places: Places of one key [count, >= 1].
        waiting: Calls of one key that may wait [count, >= 0].
    """

    def __init__(self, kind: str, *, places: int, waiting: int) -> None:
        self.kind = kind
        self._places = places
        self._waiting = waiting
        self._calls: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def place(self, within_s: float | None = None) -> AsyncIterator[None]:
        """Hold a place of the caller, once one is free.

        Args:
            within_s: Time to wait for it [s]; None: no limit.

        Raises:
            Overloaded: When as many calls of the caller wait as may, or none becomes free in time.
        """
        key = CALLER_KEY.get()
        free, calls = self._calls.get(key, (None, 0))
        free = free or asyncio.Semaphore(self._places)
        if calls >= self._places + self._waiting:
            raise self._overloaded(calls)
        self._calls[key] = (free, calls + 1)
        is_held = False
        try:
            try:
                async with asyncio.timeout(within_s):
                    await free.acquire()
            except TimeoutError:
                raise self._overloaded(calls + 1) from None
            is_held = True
            yield
        finally:
            if is_held:
                free.release()
            left = self._calls[key][1] - 1
            if left:
                self._calls[key] = (free, left)
            else:
                del self._calls[key]

    def _overloaded(self, calls: int) -> Overloaded:
        OVERLOADED.labels(self.kind).inc()
        return Overloaded(
            f"{calls} {self.kind} of this API key are in flight, as many as may be; try again in {SHORTEST_RETRY_S} s",
            kind=self.kind,
            in_flight=str(calls),
            retry_after_s=str(SHORTEST_RETRY_S),
        )
