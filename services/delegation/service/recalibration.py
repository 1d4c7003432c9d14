"""What agents say of themselves, mapped to how they do: fitted where there is data, versioned, and applied.

Maps are kept in the database, so that all replicas use the same ones; each replica reads them again now and then, and
fits one anew when enough verdicts have come.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Protocol

from chassis.log import logger
from kernel.errors import MetacogError
from kernel.statistics.recalibration import Points, recalibration
from services.delegation.service.monitoring import Map, SelfRating

# Judged self-assessments from which on a map is fitted, and of which the newest are used [count].
ENOUGH = 100
NEWEST = 2_000
# A map is fitted anew when as many verdicts have come since as this share of those that it was made of.
GROWTH = 0.2
EVERY_S = 30.0

_log = logger(__name__)


class AgentRecalibrationStore(Protocol):
    """Where maps are. Every method may raise `DatabaseUnavailable`."""

    async def maps(self) -> Mapping[str, Map]:
        """The newest recalibration of each agent; one without points says that none is in force."""

    async def add_map(self, made: Map) -> None:
        """Keep a recalibration; it is in force from now on."""

    async def rated(self) -> Mapping[str, int]:
        """How many judged self-assessments there are of each agent [count]."""

    async def newest_rated(self, agent: str, most: int) -> Sequence[SelfRating]:
        """The newest judged self-assessments of an agent."""


class Recalibrator:
    """Keeps the maps up to date.

    Args:
        store: Where they are.
        enough: Judged self-assessments from which on a map is fitted [count].
        every_s: Time between two looks, at least [s].
    """

    def __init__(self, store: AgentRecalibrationStore, *, enough: int = ENOUGH, every_s: float = EVERY_S) -> None:
        self._store = store
        self._enough = enough
        self._every_s = every_s
        self._maps: Mapping[str, Map] = {}
        self._due = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    def maps(self) -> Mapping[str, Map]:
        """Recalibrations by agent, as last read."""
        return self._maps

    def points(self) -> Mapping[str, Points]:
        """Their points, of those that are in force."""
        return {agent: made.points for agent, made in self._maps.items() if made.points}

    def judged(self) -> None:
        """There is a new verdict."""
        self._due.set()

    def start(self) -> None:
        """Begin to keep them up to date."""
        self._due.set()
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def refresh(self) -> None:
        """Read the maps, and fit those anew that enough verdicts have come for.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        maps = dict(await self._store.maps())
        for agent, count in (await self._store.rated()).items():
            if count >= max(self._enough, _due_at(maps.get(agent))):
                newest = await self._store.newest_rated(agent, NEWEST)
                maps[agent] = await asyncio.to_thread(fitted, agent, newest, count)
                await self._store.add_map(maps[agent])
        self._maps = maps

    async def _work(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.refresh()
            except MetacogError as away:
                _log.warning("self-assessments are not recalibrated", problem=away.message)
                self._due.set()
            except Exception as error:  # noqa: BLE001 - whatever happens to one fit, the worker goes on
                _log.error("recalibration stumbled", exc_info=error)
            await asyncio.sleep(self._every_s)


def _due_at(held: Map | None) -> float:
    """Judged self-assessments at which a map is fitted anew [count]."""
    return held.observations + max(1.0, GROWTH * min(held.observations, NEWEST)) if held else 0.0


def fitted(agent: str, newest: Sequence[SelfRating], count: int) -> Map:
    """The map that the newest of an agent's `count` judged self-assessments give; no points where it improves nothing.

    Source:
        SPEC 4: a recalibration map, isotonic or Platt, only with enough data.
    """
    made = recalibration([one.raw for one in newest], [float(one.correct) for one in newest])
    points = list(made.points) if made.improves else []
    content = json.dumps([agent, [asdict(point) for point in points]])
    return Map(
        agent=agent,
        version=sha256(content.encode()).hexdigest()[:12],
        method=made.method if points else "",
        points=points,
        observations=count,
        brier_before=made.brier_before,
        brier_after=made.brier_after,
    )
