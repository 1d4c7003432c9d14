"""A process of `profile_storm` delivers its share of the feedback, and the next one's.

It imports few modules, since it is started often.
"""

import asyncio
import random
import sys
from collections.abc import Sequence

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.serving.auth import TEACH, ApiKey
from kernel.learning.drift import DriftLimits
from services.delegation.service.task_records import submit_feedback
from services.delegation.service.values import TaskFeedbackRequest
from services.delegation.store.tasks import PostgresTasks

AT_ONCE = 4
KEY = ApiKey(name="storm", sha256="", allowed=frozenset({TEACH}))


def is_right(number: int) -> bool:
    """Return the label of a task."""
    return number % 10 < 7


async def deliver(url: str, mark: str, numbers: Sequence[int]) -> None:
    """Submit feedback on some tasks in random order; each is repeated until it is stored."""
    engine = db.build_engine(url)
    tasks = PostgresTasks(db.build_sessions(engine), DriftLimits())
    waiting = list(numbers)
    random.shuffle(waiting)

    async def work() -> None:
        while waiting:
            number = waiting.pop()
            request = TaskFeedbackRequest(
                feedback_id=f"{mark}-feedback-{number}", task_id=f"{mark}-{number}", correct=is_right(number)
            )
            try:
                await submit_feedback(request, key=KEY, tasks=tasks, on_label=lambda: None)
            except DatabaseUnavailable:
                waiting.append(number)
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    await engine.dispose()


def main() -> None:
    """Deliver this process's share, and the next one's."""
    url, mark, *numbers = sys.argv[1:]
    index, processes, updates = map(int, numbers)
    shares = (index, (index + 1) % processes)
    asyncio.run(deliver(url, mark, [number for number in range(updates) if number % processes in shares]))


if __name__ == "__main__":
    main()
