"""Callers who ask for the same thing share one computation of it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from kernel.errors import Overloaded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedResults(Generic[K, V]):
    """Results are shared by those who ask at the same time, and kept for a multiple of the time that they took.

    So what is quick is hardly ever old, and what takes long takes no more than a share of the process's time.

    Args:
        factor: How many times as long as it took a result is kept [>= 0].
        most: Results that are kept at most [count, >= 1].
        clock: Monotonic clock [s].
    """

    def __init__(self, *, factor: float = 10.0, most: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        self._factor = factor
        self._most = most
        self._clock = clock
        self._running: dict[K, asyncio.Task[V]] = {}
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    async def get(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        """Return the result for `key`, computed by `compute` unless it is kept or on its way.

        Raises:
            Exception: Whatever `compute` raises, to everybody who waits for it; nothing is kept then.
        """
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        running = self._running.get(key)
        is_own = running is None
        if running is None:
            running = asyncio.create_task(self._compute(key, compute))
            self._running[key] = running
            running.add_done_callback(partial(self._end, key))
        try:
            return await asyncio.shield(running)  # others may wait for it when this caller no longer does
        except Overloaded:  # by the share of the caller who began it
            if is_own:
                raise
            return await compute()

    def _end(self, key: K, ended: "asyncio.Task[V]") -> None:
        del self._running[key]
        if not ended.cancelled():
            ended.exception()  # those who still wait for it raise it

    async def _compute(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        began = self._clock()
        result = await compute()
        now = self._clock()
        self._kept[key] = (now + self._factor * (now - began), result)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return result
