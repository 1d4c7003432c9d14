"""Callers who ask for the same share one computation of it; each gets a bounded number of computations at once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from chassis.admission import CALLER_KEY, CallerShares
from kernel.errors import Overloaded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
T = TypeVar("T")

# Figures that one API key has computed at a time, and further ones of it that wait [count].
FIGURES, WAITING_FIGURES = 2, 16
# Time that these wait for their turn [s].
WAIT_S = 5.0
# Threads of a process that compute figures [count]: they take none from the writing of runs, and wait in order.
FIGURE_THREADS = 2

_threads = ThreadPoolExecutor(FIGURE_THREADS, thread_name_prefix="figures")


async def in_thread(compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return what `compute` returns, computed in a thread for figures."""
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(compute, *args, **named))


def figure_shares() -> CallerShares:
    """Return the places that API keys have to compute figures; all figures of a process share them."""
    return CallerShares("figures", places=FIGURES, waiting=WAITING_FIGURES)


class SharedResults(Generic[K, V]):
    """Results are shared by those who ask at the same time, and kept for a multiple of the time that they took.

    So what is quick is hardly ever old, and what takes long takes no more than a share of the process's time.

    Args:
        shares: Bounds how many a caller has computed at a time; None: nothing does.
        factor: How many times as long as it took a result is kept [>= 0].
        most: Results that are kept at most [count, >= 1].
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        shares: CallerShares | None = None,
        *,
        factor: float = 10.0,
        most: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shares = shares
        self._factor = factor
        self._most = most
        self._clock = clock
        # What is computed now, each with the caller who began it.
        self._running: dict[K, tuple[str, asyncio.Task[V]]] = {}
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    async def get(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        """Return the result for `key`, computed by `compute` unless it is kept or on its way.

        Raises:
            Overloaded: When the caller has as many results computed as it may.
            Exception: Whatever `compute` raises, to everybody who waits for it; nothing is kept then.
        """
        caller = CALLER_KEY.get()
        while True:
            kept = self._kept.get(key)
            if kept is not None and self._clock() < kept[0]:
                return kept[1]
            if key not in self._running:
                task = asyncio.create_task(self._compute(key, compute))
                self._running[key] = (caller, task)
                task.add_done_callback(partial(self._end, key))
            began_by, running = self._running[key]
            try:
                return await asyncio.shield(running)  # others may wait for it when this caller no longer does
            except Overloaded:  # by the share of the caller who began it
                if began_by == caller:
                    raise

    def _end(self, key: K, ended: "asyncio.Task[V]") -> None:
        del self._running[key]
        if not ended.cancelled():
            ended.exception()  # those who still wait for it raise it

    async def _compute(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        async with nullcontext() if self._shares is None else self._shares.place(WAIT_S):
            began = self._clock()
            result = await compute()
            now = self._clock()
        self._kept[key] = (now + self._factor * (now - began), result)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return result
