"""A task as it is kept, and what a verdict on it does."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from chassis.json_text import dumps
from chassis.serving.auth import ApiKey
from kernel.confidence.rules import ConfidenceSource
from kernel.learning.profiles import Lesson, lessons
from kernel.values import value
from services.delegation.service.values import AnswerLabel, ProfileUpdate, TaskFeedbackRequest, TaskFeedbackResponse


@value
class Belief:
    """A confidence that somebody had in the task; the vote's is nobody's.

    Attributes:
        agent: Whose; empty for a vote.
        source: Where it comes from.
        confidence: The confidence [0..1].
        raw: The same before recalibration [0..1].
    """

    agent: str
    source: ConfidenceSource
    confidence: float
    raw: float


@value
class TaskRecord:
    """What a verdict on a task needs, now or later.

    Attributes:
        task_id: Its name.
        key_name: Key it came in with.
        created_at: When it began.
        baseline: Baseline in force.
        mode: How it was solved; empty when nobody could be asked.
        first_agent: Agent it was dispatched to.
        executor: Who solved it; empty when all did.
        better_profile: Whether the executor's profile was better than the first agent's.
        dimensions: Its dimensions.
        voters: Everybody who wrote something, when all did.
        winners: Those of them whose answer won.
        beliefs: Confidences to be held against the verdict.
        learning_rate: Step toward an outcome, alpha (0..1].
        untaught_reason: Why nothing may be learned from it: `ablation`, `baseline` or `no_answer`; empty when it may.
    """

    task_id: str
    key_name: str
    created_at: datetime
    baseline: str
    mode: str
    first_agent: str
    executor: str
    better_profile: bool
    dimensions: Sequence[str]
    voters: Sequence[str]
    winners: Sequence[str]
    beliefs: Sequence[Belief]
    learning_rate: float
    untaught_reason: str = ""

    def lessons(self, correct: bool) -> list[Lesson]:
        """Who learns what from a verdict."""
        if not self.executor and not self.voters:
            return []
        return lessons(executor=self.executor, voters=self.voters, winners=set(self.winners), correct=correct)


Document = Callable[[Sequence[ProfileUpdate]], Mapping[str, Any]]
"""A task as it is told, given what the profiles learned from it."""


class TaskStore(Protocol):
    """Where tasks are kept. Every method may raise `DatabaseUnavailable`."""

    async def keep(
        self, record: TaskRecord, document: Document, label: AnswerLabel | None, *, teaches: bool, request_id: str
    ) -> Sequence[ProfileUpdate]:
        """Keep a task as the answer to a request, and learn from the verdict on it, if there is one; all or nothing."""

    async def judge(
        self, ask: TaskFeedbackRequest, *, key_name: str, teaches: bool, digest: str
    ) -> TaskFeedbackResponse:
        """Keep a verdict from outside and learn from it, both or neither; a repetition repeats the first reply.

        Raises:
            TaskNotFound: When there is no such task for the key.
            RequestIdReused: When the identifier belongs to another verdict.
            FeedbackConflict: When the task has a different label already.
        """


async def submit_feedback(
    ask: TaskFeedbackRequest, *, key: ApiKey, tasks: TaskStore, judged: Callable[[], None]
) -> TaskFeedbackResponse:
    """Keep a verdict, once however often it is sent, and have the profiles learn from it.

    Args:
        ask: The verdict.
        key: Key it came in with; one that may not teach is heard, and teaches nothing.
        tasks: Where tasks are kept.
        judged: Told that there is a new verdict.

    Raises:
        TaskNotFound: When there is no such task for the key.
        RequestIdReused: When the identifier belongs to another verdict.
        FeedbackConflict: When the task has a different label already.
        DatabaseUnavailable: When the database is away; then nothing has happened.
    """
    digest = sha256(dumps([ask.task_id, ask.correct, ask.note])).hexdigest()
    reply = await tasks.judge(ask, key_name=key.name, teaches=key.may_teach, digest=digest)
    judged()
    return reply
