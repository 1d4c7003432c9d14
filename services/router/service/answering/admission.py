"""Admission of the router: requests, and the deliberations among them."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

from chassis.admission import AdmissionLimit
from kernel.activation import Route
from kernel.policy import Strategy
from services.router.core.strategies import system_of

P = ParamSpec("P")
T = TypeVar("T")


class Admission:
    """Admission bounds what one process answers at a time.

    Args:
        max_in_flight: Requests that are assessed, routed or answered [count, >= 1].
        max_deliberations: Deliberations among them [count, >= 1].
        clock: Monotonic clock [s].
        prefix: Stands before the kinds of work in metrics and messages, where they are not those of served requests.

    Attributes:
        requests: The places of requests.
        deliberations: The places of deliberations.
    """

    def __init__(
        self,
        *,
        max_in_flight: int = 512,
        max_deliberations: int = 32,
        clock: Callable[[], float] = time.monotonic,
        prefix: str = "",
    ) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.requests = AdmissionLimit(f"{prefix}requests", max_in_flight, clock, self._overloaded)
        self.deliberations = AdmissionLimit(f"{prefix}deliberations", max_deliberations, clock, self._overloaded)

    def request(self) -> AbstractContextManager[None]:
        """Hold a place for one request; entering may raise `Overloaded`."""
        return self.requests.place()

    def attempt(self, strategy: Strategy) -> AbstractContextManager[None]:
        """Hold the place that `strategy` needs while it works: one of System 2 deliberates.

        Entering may raise `Overloaded`.
        """
        return self.deliberations.place() if system_of(strategy) is Route.SYSTEM_TWO else nullcontext()

    def when_overloaded(self, act: Callable[[], None]) -> None:
        """Have `act` called whenever a request is rejected, or ends with an error of overload."""
        self._listeners.append(act)

    def _overloaded(self) -> None:
        for act in self._listeners:
            act()

    def bounding(self, work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Return `work` as a function that holds a request's place while it runs."""
        return self.requests.bounding(work)
