"""Callers who ask for the same share one computation of it; each gets a bounded number of computations at once.

Work that takes long and that callers can start, such as figures or comparisons, has threads of its own, in which API
keys take turns: it delays no other kind of work, and no key takes the last free thread.
"""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from chassis.admission import CALLER_KEY, OVERLOADED, SHORTEST_RETRY_S, CallerShares
from kernel.errors import Overloaded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
T = TypeVar("T")

# Figures that one API key has computed at a time, and further ones of it that wait [count].
FIGURES, WAITING_FIGURES = 2, 16
# Time that these wait for their turn [s].
WAIT_S = 5.0
# Threads of a process that compute figures [count].
FIGURE_THREADS = 2
# Calls of one API key that wait for a thread, unless a pool states another number [count].
WAITING = 256


class FairThreads:
    """A pool of threads runs calls of API keys in turn; further calls of a key that waits for many are rejected.

    One key uses all threads but one, so that the next key finds one free or waits for one call at most; with a single
    thread the keys take turns. Threads start when they are first needed and end with the process.

    Args:
        kind: Name of the work, for messages, metrics and thread names.
        threads: Calls that run at once [count, >= 1].
        waiting: Calls of one key that may wait [count, >= 0].

    Example:
        figures = FairThreads("figures", threads=2)
        await figures.run(median, values)
    """

    def __init__(self, kind: str, *, threads: int, waiting: int = WAITING) -> None:
        self.kind = kind
        self._threads = threads
        self._of_one_key = max(1, threads - 1)
        self._waiting = waiting
        self._changed = threading.Condition()
        # Calls that wait, by key: the key whose turn is next comes first.
        self._queues: OrderedDict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()
        self._running: dict[str, int] = {}
        self._idle = 0
        self._started = 0

    async def run(self, compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `compute` returns, computed in a thread when it is the caller's turn.

        A call whose caller is cancelled before its turn is dropped; one that runs already runs to its end.

        Raises:
            Overloaded: When as many calls of this API key wait as may.
            Exception: Whatever `compute` raises.
        """
        return await asyncio.wrap_future(self._submit(CALLER_KEY.get(), partial(compute, *args, **named)))

    def _submit(self, key: str, work: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        context = copy_context()
        with self._changed:
            waiting = [call for call in self._queues.get(key, ()) if not call[0].cancelled()]
            if len(waiting) >= self._waiting and not self._can_run(key):
                OVERLOADED.labels(self.kind).inc()
                raise Overloaded(
                    f"{len(waiting)} {self.kind} of this API key wait, as many as may; "
                    f"try again in {SHORTEST_RETRY_S} s",
                    kind=self.kind,
                    in_flight=str(len(waiting)),
                    retry_after_s=str(SHORTEST_RETRY_S),
                )
            self._queues[key] = deque([*waiting, (future, partial(context.run, work))])
            if self._idle < sum(map(len, self._queues.values())) and self._started < self._threads:
                self._started += 1
                name = f"{self.kind}-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._changed.notify()
        return future

    def _can_run(self, key: str) -> bool:
        is_free = sum(self._running.values()) < self._threads
        return is_free and self._running.get(key, 0) < self._of_one_key

    def _next(self) -> tuple[str, Future[Any], Callable[[], Any]] | None:
        """Take the next call of the key whose turn it is; None where no key may run another one."""
        for key in list(self._queues):
            if not self._can_run(key):
                continue
            future, work = self._queues[key].popleft()
            self._queues.move_to_end(key)
            if not self._queues[key]:
                del self._queues[key]
            self._running[key] = self._running.get(key, 0) + 1
            return key, future, work
        return None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while (taken := self._next()) is None:
                    self._changed.wait()
                self._idle -= 1
            key, future, work = taken
            try:
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(work())
                    except BaseException as error:  # noqa: BLE001 - the caller raises it
                        future.set_exception(error)
            finally:
                del taken, future, work  # an idle thread holds on to nothing
                with self._changed:
                    self._running[key] -= 1
                    if not self._running[key]:
                        del self._running[key]
                    self._changed.notify_all()


_figures = FairThreads("figures", threads=FIGURE_THREADS)


async def in_thread(compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return what `compute` returns, computed in a thread for figures.

    Raises:
        Overloaded: When as many figures of this API key wait as may.
    """
    return await _figures.run(compute, *args, **named)


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
