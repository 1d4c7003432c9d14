"""Recalibration maps verbalized confidences to shares of right answers, where there is enough data.

It also finds the agents whose ratings say nothing, from the same labels.

Maps are versioned and stored in the database, so that all replicas use the same ones; each replica reads them again
now and then, and fits one anew when enough labels have arrived.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Protocol

from chassis.shared_results import FairThreads
from chassis.worker import BackgroundWorker, round_within
from kernel.learning.trust import ENOUGH, has_weight, self_assessment_trust
from kernel.statistics.recalibration import MINIMUM_LABELS, is_fit_due, recalibration
from services.delegation.service.monitoring import MAX_TRUST_RATINGS, RecalibrationMap, SelfRating

# The newest labelled self-assessments, which a map is fitted on [count].
MAX_RATINGS = 2_000
INTERVAL_S = 30.0
FIRST_PAUSE_S = 0.5
# Time that a refresh may take before it counts as hung [s].
ROUND_WITHIN_S = 300.0

# Fits delay nothing else, and while one hangs no other begins.
_threads = FairThreads("recalibration", threads=1)


class AgentRecalibrationStore(Protocol):
    """This store holds recalibration maps. Every method may raise `DatabaseUnavailable`."""

    async def maps(self) -> Mapping[str, RecalibrationMap]:
        """Return the newest map of each agent; one without points means that none is in force."""

    async def add_map(self, fitted: RecalibrationMap) -> None:
        """Store a map; it is in force from now on."""

    async def rating_counts(self) -> Mapping[str, int]:
        """Return how many labelled self-assessments there are of each agent [count]."""

    async def newest_ratings(self, agent: str, limit: int) -> Sequence[SelfRating]:
        """Return the newest labelled self-assessments of an agent."""


class Recalibrator:
    """The recalibrator keeps the recalibration maps up to date, in a background worker.

    Args:
        store: The store of the maps.
        min_ratings: Labelled self-assessments from which on a map is fitted [count].
        interval_s: Time between two refreshes, at least [s].
        first_pause_s: Pause before the first restart after a failure [s].
        round_within_s: Time that a refresh may take before it counts as hung [s].
    """

    def __init__(
        self,
        store: AgentRecalibrationStore,
        *,
        min_ratings: int = MINIMUM_LABELS,
        interval_s: float = INTERVAL_S,
        first_pause_s: float = FIRST_PAUSE_S,
        round_within_s: float = ROUND_WITHIN_S,
    ) -> None:
        self._store = store
        self._min_ratings = min_ratings
        self._round_within_s = round_within_s
        self._maps: Mapping[str, RecalibrationMap] = {}
        self._uninformative: frozenset[str] = frozenset()
        self._concluded_at: dict[str, int] = {}
        self._due = asyncio.Event()
        self._worker = BackgroundWorker("recalibration", self._work, interval_s=interval_s, first_pause_s=first_pause_s)

    def maps(self) -> Mapping[str, RecalibrationMap]:
        """Return the maps by agent, as last read."""
        return self._maps

    def in_force(self) -> Mapping[str, RecalibrationMap]:
        """Return the maps that are in force, by agent."""
        return {agent: each for agent, each in self._maps.items() if each.points}

    def uninformative(self) -> frozenset[str]:
        """Return the agents whose self-assessments are labelled `UNINFORMATIVE`, by the labels read last."""
        return self._uninformative

    def on_label(self) -> None:
        """Note that there is a new label: a refresh is due."""
        self._due.set()

    def start(self) -> None:
        """Start to keep the maps up to date."""
        self._due.set()
        self._worker.start()

    async def check(self) -> None:
        """Return while the maps are kept up to date.

        Raises:
            WorkerFailing: While refreshes fail, or before `start`; names the last failure.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Stop the worker, also in the middle of a refresh."""
        await self._worker.close(within_s=0.0)

    async def refresh(self) -> None:
        """Read the maps, and fit those anew for which enough labels have arrived; conclude on trust likewise.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        maps = dict(await self._store.maps())
        counts = await self._store.rating_counts()
        await self._conclude(counts)
        for agent, count in counts.items():
            if _is_due(count, maps.get(agent), self._min_ratings):
                newest = await self._store.newest_ratings(agent, MAX_RATINGS)
                maps[agent] = await _threads.run(fitted_map, agent, newest, count)
                await self._store.add_map(maps[agent])
        self._maps = maps

    async def _conclude(self, counts: Mapping[str, int]) -> None:
        """Find the agents whose ratings say nothing, from enough labels on and again when a fifth is new."""
        for agent, count in counts.items():
            last = self._concluded_at.get(agent)
            if not is_fit_due(count, since=count - (last or 0), fitted_on=last, minimum=ENOUGH):
                continue
            newest = await self._store.newest_ratings(agent, MAX_TRUST_RATINGS)
            raw, labels = [each.raw for each in newest], [float(each.correct) for each in newest]
            concluded = await _threads.run(self_assessment_trust, raw, labels)
            others = self._uninformative - {agent}
            self._uninformative = others if has_weight(concluded.trust) else others | {agent}
            self._concluded_at[agent] = count

    async def _work(self, _stop: asyncio.Event) -> None:
        """Refresh once, when that is due; after a failure it is due again."""
        await self._due.wait()
        self._due.clear()
        try:
            async with round_within(self._round_within_s):
                await self.refresh()
        except BaseException:
            self._due.set()
            raise


def _is_due(count: int, current: RecalibrationMap | None, minimum: int) -> bool:
    """Return whether a map is fitted to `count` labelled self-assessments; one is fitted on the newest at most."""
    observations = current.observations if current else 0
    fitted_on = min(observations, MAX_RATINGS) if current else None
    return is_fit_due(count, since=count - observations, fitted_on=fitted_on, minimum=minimum)


def fitted_map(agent: str, newest: Sequence[SelfRating], count: int) -> RecalibrationMap:
    """Return the map of the newest of an agent's `count` labelled self-assessments; no points where it does not help.

    Source:
        Ours (papers.md 4.3): a recalibration map, isotonic or Platt, only with enough data.
    """
    fitted = recalibration([each.raw for each in newest], [float(each.correct) for each in newest])
    points = list(fitted.points) if fitted.improves else []
    content = json.dumps([agent, [asdict(point) for point in points]])
    return RecalibrationMap(
        agent=agent,
        version=sha256(content.encode()).hexdigest()[:12],
        method=fitted.method if points else "",
        points=points,
        observations=count,
        brier_before=fitted.brier_before,
        brier_after=fitted.brier_after,
    )
