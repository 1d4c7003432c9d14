"""This module holds time and random numbers, which a test can set."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from inference.config import Retries
from inference.errors import DeadlineExceeded
from inference.spend import Spend
from kernel.values import value


@value
class Timing:
    """Timing holds the clock [s, monotonic], the sleep function [s] and a random number from [0, 1)."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random_number: Callable[[], float] = random.random


def pause_s(retries: Retries, repetition: int, requested_s: float | None, random_number: float) -> float:
    """Return the pause before a retry [s]: what the backend requested, and a random part of an exponential bound.

    Source: "full jitter", M. Brooker, Exponential Backoff And Jitter (AWS Architecture Blog, 2015).

    Example:
        >>> pause_s(Retries(base_s=0.1, cap_s=2.0), 3, None, 0.5)
        0.4
    """
    return (requested_s or 0.0) + random_number * min(retries.cap_s, retries.base_s * 2.0**repetition)


class DeadlineScope:
    """A deadline scope is an async context that bounds what is awaited inside it by the request's deadline.

    Args:
        spend: The spend of the request.
        backend: Name for the message.

    Raises:
        DeadlineExceeded: On entering or leaving, when the deadline has passed.
    """

    __slots__ = ("_backend", "_limit", "_spend")

    def __init__(self, spend: Spend, backend: str) -> None:
        self._spend = spend
        self._backend = backend

    async def __aenter__(self) -> Self:
        left_s = self.left_s
        if left_s <= 0.0:
            raise self._late()
        self._limit = asyncio.timeout(left_s)
        await self._limit.__aenter__()
        return self

    @property
    def left_s(self) -> float:
        """Return the time until the deadline [s, >= 0]."""
        return self._spend.seconds_left()

    @property
    def is_over(self) -> bool:
        """Return whether the deadline has cancelled what is awaited inside."""
        return self._limit.expired()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as failure:
            raise self._late() from failure

    def _late(self) -> DeadlineExceeded:
        limit_ms = self._spend.timeout_ms
        return DeadlineExceeded(
            f"backend {self._backend} had not answered when the request's {limit_ms} ms were over",
            backend=self._backend,
            timeout_ms=str(limit_ms),
        )
