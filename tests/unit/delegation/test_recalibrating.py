"""When what agents say is mapped anew, over a store of the test's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from services.delegation.service.monitoring import Map, SelfRating
from services.delegation.service.recalibration import NEWEST, Recalibrator


@dataclass
class Shelf:
    """Judged self-assessments of one agent, and the maps that were made of them."""

    count: int = 0
    held: dict[str, Map] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)

    async def maps(self) -> Mapping[str, Map]:
        return self.held

    async def add_map(self, made: Map) -> None:
        self.held[made.agent] = made
        self.made.append(made.observations)

    async def rated(self) -> Mapping[str, int]:
        return {"alpha": self.count}

    async def newest_rated(self, agent: str, most: int) -> Sequence[SelfRating]:
        rng = np.random.default_rng(1)
        chances = rng.uniform(0, 1, min(self.count, most))
        return [SelfRating(raw=min(1.0, c + 0.3), correct=bool(rng.random() < c)) for c in chances]


@pytest.mark.parametrize(
    ("counts", "fitted_at"),
    [
        ([0, 99], []),
        ([100, 119, 120], [100, 120]),
        ([NEWEST, 2 * NEWEST], [NEWEST, 2 * NEWEST]),
        # However many there are, the map is of the newest, and is made anew when a fifth of these is.
        ([100_000, 100_399, 100_400], [100_000, 100_400]),
    ],
)
async def test_a_map_is_fitted_with_enough_verdicts_and_again_when_a_fifth_is_new(
    counts: list[int], fitted_at: list[int]
) -> None:
    shelf = Shelf()
    recalibrator = Recalibrator(shelf, enough=100)

    for count in counts:
        shelf.count = count
        await recalibrator.refresh()

    assert shelf.made == fitted_at


async def test_an_overconfident_agent_is_served_less_than_it_says() -> None:
    recalibrator = Recalibrator(Shelf(count=500), enough=100)

    await recalibrator.refresh()

    points = recalibrator.points()["alpha"]
    assert max(point.calibrated - point.confidence for point in points if point.confidence > 0.4) < 0
