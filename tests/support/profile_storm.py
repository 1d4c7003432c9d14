"""Many processes deliver feedback at once and twice; all are killed half-way and started again.

`storm` runs the processes, which are `profile_worker`s, and checks the resulting profiles.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from chassis import database as db
from kernel.learning.profiles import Change, ProfileChange, replayed_competence
from services.delegation.store.tables import TaskRow
from tests.support.profile_worker import KEY, is_right
from tests.support.stack import ROOT, environment

AGENTS = 3
DIMENSIONS = ("math_computation", "code_generation")


@dataclass(frozen=True)
class Storm:
    """A storm is summed up in these figures.

    Attributes:
        updates: Labels, each delivered twice at least [count].
        kills: Processes that were killed [count].
        deliveries: Labels that were delivered by processes that ran to their end [count].
        seconds: Duration without the insertion of the tasks [s].
        profiles: Profiles that learned [count].
        drifts: Drift events [count].
    """

    updates: int
    kills: int
    deliveries: int
    seconds: float
    profiles: int
    drifts: int


async def insert_tasks(engine: AsyncEngine, mark: str, count: int) -> None:
    """Insert tasks without a label, each of one agent in one dimension."""
    now = datetime.now(UTC)
    rows = [
        {
            "task_id": f"{mark}-{number}",
            "key_name": KEY.name,
            "created_at": now,
            "baseline": "NONE",
            "mode": "EXECUTED",
            "first_agent": f"{mark}-agent{number % AGENTS}",
            "executor": f"{mark}-agent{number % AGENTS}",
            "better_profile": False,
            "dimensions": [DIMENSIONS[number // AGENTS % len(DIMENSIONS)]],
            "voters": [],
            "winners": [],
            "confidences": [],
            "learning_rate": 0.1,
            "not_learned_reason": "",
            "checker": "",
            "detail": "",
            "learned": False,
            "document": {},
        }
        for number in range(count)
    ]
    async with db.build_sessions(engine).begin() as session:
        for start in range(0, count, 1000):
            await session.execute(insert(TaskRow), rows[start : start + 1000])


async def storm(url: str, mark: str, *, updates: int, processes: int) -> Storm:
    """Deliver all labels twice from `processes` processes, kill them all half-way, start them again, and check.

    Raises:
        AssertionError: When an update is lost or doubled, or a profile is not the replay of its recorded order.
    """
    engine = db.build_engine(url)
    await insert_tasks(engine, mark, updates)
    started = time.monotonic()
    running = [_start(url, mark, index, processes, updates) for index in range(processes)]
    while await _learned(engine, mark) < updates // 2:  # noqa: ASYNC110 - it happens in other processes
        await asyncio.sleep(0.05)
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
    halted = await _learned(engine, mark)
    assert updates // 2 <= halted < updates, (
        f"the processes must be killed half-way; they had applied {halted} of {updates}"
    )
    running = [_start(url, mark, index, processes, updates) for index in range(processes)]
    for process in running:
        assert await asyncio.to_thread(process.wait) == 0
    seconds = time.monotonic() - started
    profiles, drifts = await _checked(engine, mark, updates)
    await engine.dispose()
    return Storm(updates, processes, 2 * updates, seconds, profiles, drifts)


def _start(url: str, mark: str, index: int, processes: int, updates: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.support.profile_worker", url, mark, *map(str, (index, processes, updates))]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL)


async def _learned(engine: AsyncEngine, mark: str) -> int:
    counting = text("SELECT count(*) FROM delegation.profile_updates WHERE task_id LIKE :mark")
    async with engine.connect() as connection:
        found: int = (await connection.execute(counting, {"mark": f"{mark}-%"})).scalar_one()
    return found


async def _checked(engine: AsyncEngine, mark: str, updates: int) -> tuple[int, int]:
    """Check the profiles, and return how many learned, and how many drift events there are."""
    like = {"mark": f"{mark}-%"}
    async with engine.connect() as connection:
        query = text("SELECT * FROM delegation.profiles WHERE agent LIKE :mark")
        profiles = (await connection.execute(query, like)).mappings().all()
        query = text(
            "SELECT * FROM delegation.profile_updates WHERE agent LIKE :mark ORDER BY agent, dimension, sequence"
        )
        history = (await connection.execute(query, like)).mappings().all()
        query = text("SELECT count(*) FROM delegation.drift_events WHERE agent LIKE :mark")
        drifts: int = (await connection.execute(query, like)).scalar_one()
    counts = Counter(row["task_id"] for row in history)
    assert counts == Counter(f"{mark}-{number}" for number in range(updates)), "each update is recorded once"
    for row in history:
        assert row["outcome"] == is_right(int(row["task_id"].rsplit("-", 1)[1]))
    for profile in profiles:
        own = [h for h in history if (h["agent"], h["dimension"]) == (profile["agent"], profile["dimension"])]
        assert [h["sequence"] for h in own] == list(range(1, len(own) + 1))
        assert (profile["observations"], profile["sequence"]) == (len(own), len(own))
        replay = replayed_competence(
            Change(change=ProfileChange(h["change"]), outcome=h["outcome"], learning_rate=h["learning_rate"])
            for h in own
        )
        assert replay.hex() == profile["competence"].hex(), "the replay gives the same profile, bit for bit"
    return len(profiles), drifts
