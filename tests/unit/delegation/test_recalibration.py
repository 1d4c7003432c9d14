"""The recalibration maps of agents are fitted when enough labels have arrived."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from chassis.serving.health import Health
from services.delegation.service.monitoring import RecalibrationMap, SelfRating
from services.delegation.service.recalibration import MAX_RATINGS, Recalibrator


@dataclass
class FakeStore:
    """A fake store holds labelled self-assessments of one agent, and the maps that were fitted to them."""

    count: int = 0
    current: dict[str, RecalibrationMap] = field(default_factory=dict)
    fitted_at: list[int] = field(default_factory=list)

    async def maps(self) -> Mapping[str, RecalibrationMap]:
        return self.current

    async def add_map(self, fitted: RecalibrationMap) -> None:
        self.current[fitted.agent] = fitted
        self.fitted_at.append(fitted.observations)

    async def rating_counts(self) -> Mapping[str, int]:
        return {"alpha": self.count}

    async def newest_ratings(self, agent: str, limit: int) -> Sequence[SelfRating]:
        rng = np.random.default_rng(1)
        chances = rng.uniform(0, 1, min(self.count, limit))
        return [SelfRating(raw=min(1.0, c + 0.3), correct=bool(rng.random() < c)) for c in chances]


@pytest.mark.parametrize(
    ("counts", "fitted_at"),
    [
        ([0, 99], []),
        ([100, 119, 120], [100, 120]),
        ([MAX_RATINGS, 2 * MAX_RATINGS], [MAX_RATINGS, 2 * MAX_RATINGS]),
        # With more labels than the limit the map is fitted to the newest, and again when a fifth of these is new.
        ([100_000, 100_399, 100_400], [100_000, 100_400]),
    ],
)
async def test_a_map_is_fitted_with_enough_labels_and_again_when_a_fifth_is_new(
    counts: list[int], fitted_at: list[int]
) -> None:
    store = FakeStore()
    recalibrator = Recalibrator(store, min_ratings=100)

    for count in counts:
        store.count = count
        await recalibrator.refresh()

    assert store.fitted_at == fitted_at


async def test_an_overconfident_agents_confidence_is_lowered() -> None:
    recalibrator = Recalibrator(FakeStore(count=500), min_ratings=100)

    await recalibrator.refresh()

    points = recalibrator.in_force()["alpha"].points
    assert max(point.calibrated - point.confidence for point in points if point.confidence > 0.4) < 0


class BrokenStore(FakeStore):
    """The first reads of this store fail with a bug."""

    failures: int = 1

    async def rating_counts(self) -> Mapping[str, int]:
        if self.failures > 0:
            self.failures -= 1
            raise ZeroDivisionError("a bug in one round")
        return await super().rating_counts()


async def test_a_bug_in_one_round_does_not_end_the_recalibration() -> None:
    store = BrokenStore(count=100)
    recalibrator = Recalibrator(store, min_ratings=100, interval_s=60.0, first_pause_s=0.01)
    recalibrator.start()

    async with asyncio.timeout(5):
        while not store.fitted_at:  # noqa: ASYNC110 - it happens in the worker
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
    await recalibrator.check()
    await recalibrator.close()

    assert (store.fitted_at, set(recalibrator.in_force())) == ([100], {"alpha"})


async def test_readiness_names_a_failing_recalibration() -> None:
    store = BrokenStore(count=100)
    store.failures = 1_000
    recalibrator = Recalibrator(store, min_ratings=100, first_pause_s=0.01)
    health = Health({}, {"recalibration": recalibrator.check}, cached_s=0)
    before = (await health.report()).parts["recalibration"]
    recalibrator.start()

    async with asyncio.timeout(5):
        while store.failures > 997:  # noqa: ASYNC110 - it happens in the worker
            await asyncio.sleep(0.01)
    report = await health.report()
    await recalibrator.close()

    assert before == "the worker recalibration has not been started"
    assert report.ready is True
    assert report.parts["recalibration"].startswith("the worker recalibration failed ")
    assert report.parts["recalibration"].endswith("ZeroDivisionError: a bug in one round")


class WrongWayRound(FakeStore):
    """In this store ratings are higher where the answer is wrong, and neither too high nor too low on the whole."""

    async def newest_ratings(self, agent: str, limit: int) -> Sequence[SelfRating]:
        return [SelfRating(raw=0.4 if at % 2 else 0.6, correct=bool(at % 2)) for at in range(min(self.count, limit))]


async def test_ratings_that_say_nothing_lose_their_weight_from_thirty_labels_on() -> None:
    found = []
    for count in (29, 30):
        recalibrator = Recalibrator(WrongWayRound(count=count))
        await recalibrator.refresh()
        found.append(recalibrator.uninformative())

    assert found == [frozenset(), frozenset({"alpha"})]


async def test_ratings_that_become_informative_get_their_weight_back() -> None:
    store = WrongWayRound(count=30)
    recalibrator = Recalibrator(store, min_ratings=1_000)
    await recalibrator.refresh()

    better = FakeStore(count=36)
    store.newest_ratings = better.newest_ratings  # type: ignore[method-assign]
    store.count = 35
    await recalibrator.refresh()
    too_few = recalibrator.uninformative()
    store.count = 36
    await recalibrator.refresh()

    assert (too_few, recalibrator.uninformative()) == (frozenset({"alpha"}), frozenset())
