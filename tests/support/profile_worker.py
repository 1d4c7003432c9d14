"""One of the processes of `profile_storm`: delivers its share of the verdicts, and its neighbour's.

It imports little, since it is started often.
"""

import asyncio
import random
import sys
from collections.abc import Sequence

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.serving.auth import ApiKey
from kernel.learning.drift import DriftLimits
from services.delegation.service.task_records import submit_feedback
from services.delegation.service.values import TaskFeedbackRequest
from services.delegation.store.tasks import PostgresTasks

AT_ONCE = 4
KEY = ApiKey(name="storm", sha256="")


def is_right(number: int) -> bool:
    """Verdict on a task."""
    return number % 10 < 7


async def deliver(url: str, mark: str, numbers: Sequence[int]) -> None:
    """Submit the verdicts on some tasks, in an order of this process's own; each is sent until it is taken."""
    engine = db.build_engine(url)
    tasks = PostgresTasks(db.build_sessions(engine), DriftLimits())
    waiting = list(numbers)
    random.shuffle(waiting)

    async def work() -> None:
        while waiting:
            number = waiting.pop()
            ask = TaskFeedbackRequest(
                feedback_id=f"{mark}-verdict-{number}", task_id=f"{mark}-{number}", correct=is_right(number)
            )
            try:
                await submit_feedback(ask, key=KEY, tasks=tasks, judged=lambda: None)
            except DatabaseUnavailable:
                waiting.append(number)
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    await engine.dispose()


def main() -> None:
    """Deliver this process's share, and its neighbour's."""
    url, mark, *numbers = sys.argv[1:]
    place, processes, updates = map(int, numbers)
    shares = (place, (place + 1) % processes)
    asyncio.run(deliver(url, mark, [number for number in range(updates) if number % processes in shares]))


if __name__ == "__main__":
    main()
