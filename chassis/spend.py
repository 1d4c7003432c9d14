"""A request's envelope at work: its ledger and its deadline, carried to every call."""

import time
from collections.abc import Callable

from kernel.envelope import Ledger, Limits


class Spend:
    """What one request may still spend, shared by everything done on its behalf.

    Args:
        limits: The hard limits.
        clock: Monotonic clock [s].
    """

    __slots__ = ("_clock", "deadline", "ledger", "limits")

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.limits = limits
        self.ledger = Ledger(limits.max_generations, limits.max_generated_tokens)
        self.deadline = clock() + limits.timeout_ms / 1000

    def seconds_left(self) -> float:
        """Time until the deadline [s, >= 0]."""
        return max(0.0, self.deadline - self._clock())
