"""A request's envelope at work: its ledger and its deadline, carried to every call."""

import time
from collections.abc import Callable
from contextvars import ContextVar

from kernel.envelope import Ledger, Limits

# How long the caller of the request being served still waits [s]; None where nobody said. Set by the gRPC edge, so that
# nothing done on a request's behalf outlives its caller's patience.
CALLER_WAITS: ContextVar[float | None] = ContextVar("caller_waits", default=None)


class Spend:
    """What one request may still spend, shared by everything done on its behalf.

    Args:
        limits: The hard limits; a caller who waits for less time shortens them.
        clock: Monotonic clock [s].
    """

    __slots__ = ("_clock", "deadline", "ledger", "limits")

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.limits = limits
        self.ledger = Ledger(limits.max_generations, limits.max_generated_tokens)
        waits = CALLER_WAITS.get()
        timeout = limits.timeout_ms / 1000
        self.deadline = clock() + (timeout if waits is None else min(timeout, waits))

    def seconds_left(self) -> float:
        """Time until the deadline [s, >= 0]."""
        return max(0.0, self.deadline - self._clock())
