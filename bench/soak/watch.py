"""The soak looks at each process of the suite again and again: memory, open files, tasks of its event loop."""

import asyncio
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.support.hostile.raw_http import resident_mib
from tests.support.hostile.suite import Suite, authorization

# Time between two looks [s].
EVERY_S = 5.0
# Share of the time that is warm-up, at most this long [0..1; s]: until then caches and pools fill.
WARM_UP_SHARE, MOST_WARM_UP_S = 0.25, 900.0
# Growth of memory that is none [0..1].
RSS_GROWTH = 0.05
# Growth of open files and of tasks that is none [0..1, and count where that is more].
FLAT_SHARE, FLAT_COUNT = 0.05, 5.0
# Share of the looks after the warm-up that make its beginning, and its end [0..1].
EDGE = 0.25


@dataclass(frozen=True)
class Look:
    """One look at a process.

    Attributes:
        at_s: When, since the load began [s].
        rss_mib: Memory in use [MiB].
        open_files: Open files and sockets [count].
        tasks: Tasks of its event loop [count].
    """

    at_s: float
    rss_mib: float
    open_files: float
    tasks: float


@dataclass(frozen=True)
class Trend:
    """What a figure was when the warm-up was over, and in the end: medians over a quarter of the looks each."""

    before: float
    after: float

    @property
    def growth(self) -> float:
        """Return by which share it grew [-1..]."""
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def is_flat(self) -> bool:
        """Return whether a count is as it was."""
        return self.after - self.before <= max(FLAT_COUNT, FLAT_SHARE * self.before)


async def watch(suite: Suite, looks: dict[str, list[Look]], stop: asyncio.Event) -> None:
    """Look at every process of `suite` until `stop`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with aiohttp.ClientSession(headers=authorization()) as session:
        while not stop.is_set():
            for name, process in suite.services.items():
                looks.setdefault(name, []).append(
                    Look(
                        at_s=loop.time() - began,
                        rss_mib=resident_mib(process.inner.pid),
                        open_files=len(os.listdir(f"/proc/{process.inner.pid}/fd")),
                        tasks=await _tasks(session, process.rest),
                    )
                )
            try:
                async with asyncio.timeout(EVERY_S):
                    await stop.wait()
            except TimeoutError:
                continue


async def _tasks(session: aiohttp.ClientSession, url: str) -> float:
    async with session.get(f"{url}/metrics") as reply:
        lines = (await reply.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("metacog_event_loop_tasks "))


def warm_up_s(seconds: float) -> float:
    """Return how long the warm-up of a soak of so many seconds is [s].

    Example:
        >>> warm_up_s(3600), warm_up_s(240)
        (900.0, 60.0)
    """
    return min(MOST_WARM_UP_S, seconds * WARM_UP_SHARE)


def trend(looks: Sequence[Look], figure: str, warm_up: float) -> Trend:
    """Return how a figure went after the warm-up.

    Example:
        >>> looks = [Look(at_s=float(n), rss_mib=100.0 + n, open_files=9, tasks=5) for n in range(100)]
        >>> trend(looks, "rss_mib", 20.0), trend(looks, "tasks", 20.0).is_flat
        (Trend(before=129.5, after=189.5), True)
    """
    figures = [float(getattr(look, figure)) for look in looks if look.at_s >= warm_up]
    edge = max(1, int(len(figures) * EDGE))
    return Trend(before=statistics.median(figures[:edge]), after=statistics.median(figures[-edge:]))


def findings(looks: Sequence[Look], warm_up: float) -> Mapping[str, Any]:
    """Return the figures of one process, for the report."""
    rss, files, tasks = (trend(looks, figure, warm_up) for figure in ("rss_mib", "open_files", "tasks"))
    return {
        "rss_mib": [round(rss.before, 1), round(rss.after, 1)],
        "rss_growth": round(rss.growth, 4),
        "open_files": [files.before, files.after],
        "tasks": [tasks.before, tasks.after],
        "passed": rss.growth < RSS_GROWTH and files.is_flat and tasks.is_flat,
    }
