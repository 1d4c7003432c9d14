"""Admission bounds how much is in flight at once: what is over a limit is rejected at once, with a time to retry.

A place is held until its work has ended, however it ends. Nothing waits for an `AdmissionLimit`, so no queue grows; of
what callers share, such as connections, each gets `CallerShares`, and a bounded number of its calls may wait.
"""

import asyncio
import math
import time
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

    @contextmanager
    def share(self) -> Iterator["ByteShare"]:
        """Give a share that holds nothing yet, and what it holds at the end back."""
        share = ByteShare(self)
        try:
            yield share
        finally:
            self.held -= share.held

    def check(self, own: int, wanted: int) -> None:
        """Return if a holder of `own` bytes may hold `wanted` ones.

        Raises:
            Overloaded: When all together would hold too many; contains when to retry.
        """
        others = self.held - own
        if others > 0 and others + wanted > self._most:
            OVERLOADED.labels(self.kind).inc()
            raise Overloaded(
                f"{self.kind} in progress hold {self.held} bytes, of {self._most} that they may hold; "
                f"try again in {SHORTEST_RETRY_S} s",
                kind=self.kind,
                retry_after_s=str(SHORTEST_RETRY_S),
            )


class ByteShare:
    """A share is what one holder has of a `ByteLimit`.

    Attributes:
        held: Bytes that it holds [bytes].
    """

    def __init__(self, limit: ByteLimit) -> None:
        self.held = 0
        self._limit = limit

    def hold(self, count: int) -> None:
        """Hold `count` bytes, unless it does already.

        Raises:
            Overloaded: When all together would hold too many.
        """
        if count > self.held:
            self._limit.check(self.held, count)
            self._limit.held += count - self.held
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
