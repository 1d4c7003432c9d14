"""Files that are gone are looked for at intervals, and deleted piece by piece between the steps of batches."""

import asyncio
from typing import Any, cast

from kernel.errors import Overloaded
from services.router.service.batches.progress import BatchProgress, StepPaces


class Stores:
    """A store without batches, and one with pieces of files that are gone."""

    def __init__(self, pieces: int = 0) -> None:
        self.pieces = pieces
        self.sweeps = 0
        self.is_away = False

    async def claim_step(self, *_: object) -> None:
        """There is no step."""

    async def lines_left(self) -> int:
        return 0

    async def delete_gone(self, _most_lines: int) -> bool:
        self.sweeps += 1
        if self.is_away:
            raise Overloaded("away")
        self.pieces -= 1
        return self.pieces >= 0


class Rounds:
    """The rounds of one process, by a clock that stands until it is moved."""

    def __init__(self, stores: Stores) -> None:
        self.now = 1000.0
        paces = StepPaces(poll_s=0.0, sweep_every_s=60.0)
        self._progress = BatchProgress(cast(Any, stores), cast(Any, stores), paces, clock=lambda: self.now)
        self._stop = asyncio.Event()

    async def run(self, count: int, *, later_s: float = 0.0) -> None:
        """Run some rounds, at a later time."""
        self.now += later_s
        for _ in range(count):
            await self._progress._run_round(self._stop)


async def test_what_is_gone_is_looked_for_at_once_and_then_once_an_interval() -> None:
    stores = Stores()
    rounds = Rounds(stores)

    seen = []
    for later_s in (0.0, 59.9, 0.1, 30.0, 30.0):
        await rounds.run(5, later_s=later_s)
        seen.append(stores.sweeps)

    assert seen == [1, 1, 2, 2, 3]


async def test_a_file_that_is_gone_is_deleted_a_piece_a_round_without_a_pause() -> None:
    stores = Stores(pieces=3)
    rounds = Rounds(stores)

    seen = []
    for _ in range(6):
        await rounds.run(1)
        seen.append(stores.sweeps)

    assert seen == [1, 2, 3, 4, 4, 4]  # the fourth finds nothing more


async def test_a_database_that_is_away_is_asked_again_after_the_interval_only() -> None:
    stores = Stores()
    stores.is_away = True
    rounds = Rounds(stores)

    await rounds.run(5)
    first = stores.sweeps
    await rounds.run(5, later_s=60.0)

    assert (first, stores.sweeps) == (1, 2)
