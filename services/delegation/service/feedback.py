"""A verdict on a task's answer, from outside, and what profiles learn from it."""

from collections.abc import Callable
from hashlib import sha256

from chassis.auth import ApiKey
from chassis.rest import dumps
from services.delegation.service.records import TaskStore
from services.delegation.service.values import SubmitFeedbackRequest, SubmitFeedbackResponse


async def submit_feedback(
    ask: SubmitFeedbackRequest, *, key: ApiKey, tasks: TaskStore, judged: Callable[[], None]
) -> SubmitFeedbackResponse:
    """Keep a verdict, once however often it is sent, and have the profiles learn from it.

    Args:
        ask: The verdict.
        key: Key it came in with; one that may not teach is heard, and teaches nothing.
        tasks: Where tasks are kept.
        judged: Told that there is a new verdict.

    Raises:
        TaskNotFound: When there is no such task for the key.
        RequestIdReused: When the identifier belongs to another verdict.
        FeedbackConflict: When the task has a different verdict already.
        DatabaseUnavailable: When the database is away; then nothing has happened.
    """
    digest = sha256(dumps([ask.task_id, ask.correct, ask.note])).hexdigest()
    reply = await tasks.judge(ask, key_name=key.name, teaches=key.may_teach, digest=digest)
    judged()
    return reply
