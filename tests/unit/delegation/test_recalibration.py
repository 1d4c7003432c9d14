"""The recalibration maps of agents are fitted when enough labels have arrived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from services.delegation.service.monitoring import RecalibrationMap, SelfRating
from services.delegation.service.recalibration import MAX_RATINGS, Recalibrator


@dataclass
class FakeStore:
    """Labelled self-assessments of one agent, and the maps that were fitted to them."""

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

    points = recalibrator.points()["alpha"]
    assert max(point.calibrated - point.confidence for point in points if point.confidence > 0.4) < 0
