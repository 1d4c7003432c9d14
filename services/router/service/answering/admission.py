"""Admission bounds how much is in flight at once: a request over the limit is rejected at once, with a time to retry.

Nothing waits here, so no queue grows. A place is held until its request has ended, however it ends.
"""

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from typing import ParamSpec, TypeVar

from kernel.activation import Route
from kernel.errors import MetacogError
from services.router import metrics
from services.router.core.strategies import Strategy, system_of
from services.router.errors import Overloaded

P = ParamSpec("P")
T = TypeVar("T")

SHORTEST_RETRY_S = 1
LONGEST_RETRY_S = 30
# Weight of the newest service time in the moving estimate; the last twenty or so count.
NEWEST_WEIGHT = 0.1

# Reasons of errors of overload; that of a backend may have no time to retry.
OVERLOAD_REASONS = frozenset({"OVERLOADED", "BACKEND_OVERLOADED"})


class AdmissionLimit:
    """An admission limit has places for one kind of work.

    Args:
        kind: Its name, for messages and metrics.
        places: How many there are [count, >= 1].
        clock: Monotonic clock [s].

    Attributes:
        in_flight: Places taken [count].
    """

    def __init__(self, kind: str, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.kind = kind
        self.in_flight = 0
        self._places = places
        self._clock = clock
        self._service_s: float | None = None
        self._gauge = metrics.ADMITTED.labels(kind)

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
            metrics.OVERLOADED.labels(self.kind).inc()
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


class Admission:
    """Admission bounds what one process answers at a time.

    Args:
        max_in_flight: Requests that are assessed, routed or answered [count, >= 1].
        max_deliberations: Deliberations among them [count, >= 1].
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        *,
        max_in_flight: int = 512,
        max_deliberations: int = 32,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.requests = AdmissionLimit("requests", max_in_flight, clock)
        self.deliberations = AdmissionLimit("deliberations", max_deliberations, clock)

    def request(self) -> AbstractContextManager[None]:
        """Hold a place for one request; entering may raise `Overloaded`."""
        return self.requests.place()

    def attempt(self, strategy: Strategy) -> AbstractContextManager[None]:
        """Hold the place that `strategy` needs while it works: one of System 2 deliberates.

        Entering may raise `Overloaded`.
        """
        return self.deliberations.place() if system_of(strategy) is Route.SYSTEM_TWO else nullcontext()

    def bounding(self, work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Return `work` as a function that holds a request's place while it runs."""
        return self.requests.bounding(work)
