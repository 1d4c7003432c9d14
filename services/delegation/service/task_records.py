"""A task is stored as a record, which feedback labels; what is shown of it has the fields of the contract."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from chassis.json_text import dumps
from chassis.serving.auth import ACT, TEACH, ApiKey
from kernel.confidence.rules import ConfidenceSource, NotLearnedReason
from kernel.learning.profiles import Lesson, lessons
from kernel.values import value
from services.delegation.service.values import (
    AnswerLabel,
    ProfileUpdate,
    TaskFeedbackRequest,
    TaskFeedbackResponse,
    TaskFinished,
)


@value
class TaskConfidence:
    """One agent or a vote has this confidence in a task's answer.

    Attributes:
        agent: The agent; empty for a vote.
        source: The kind of confidence.
        confidence: The confidence [0..1].
        raw: The same before recalibration [0..1].
    """

    agent: str
    source: ConfidenceSource
    confidence: float
    raw: float


@value
class TaskRecord:
    """The record stores everything of a task that a label needs, now or later.

    Attributes:
        task_id: Its identifier.
        key_name: Name of the API key of its request.
        created_at: When it began.
        baseline: Baseline in force.
        mode: How it was solved; empty when no agent could be called.
        first_agent: Agent it was dispatched to.
        executor: Agent that solved it; empty after a vote.
        better_profile: Whether the executor's profile was better than the first agent's.
        dimensions: Its dimensions.
        voters: Agents that wrote a text in a vote.
        winners: Those of them whose answer won.
        confidences: Confidences to compare with the label.
        learning_rate: Step toward an outcome, alpha (0..1].
        not_learned_reason: Why no profile may learn from it; None where they may.
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
    confidences: Sequence[TaskConfidence]
    learning_rate: float
    not_learned_reason: NotLearnedReason | None = None

    def lessons(self, correct: bool) -> list[Lesson]:
        """Return what each agent learns from a label."""
        if not self.executor and not self.voters:
            return []
        return lessons(executor=self.executor, voters=self.voters, winners=set(self.winners), correct=correct)


@value
class StoredTask:
    """A task is stored with its question and its last event; it is shown with the label that its answer has now."""

    question: str = ""
    finished: TaskFinished
    label: AnswerLabel | None = None


@value
class GetTaskResponse:
    """This response holds one task."""

    task: StoredTask


@value
class ListTasksRequest:
    """This request asks for a page of tasks, newest first."""

    page_size: int = 50
    page_token: str = ""
    since: datetime | None = None
    until: datetime | None = None


@value
class ListTasksResponse:
    """This response is a page of tasks."""

    tasks: Sequence[StoredTask]
    next_page_token: str
    unreadable: int = 0


# The stored document of a task: its question and its last event.
TaskDocument = Mapping[str, Any]
# Makes the document from the changes of profiles that the task caused.
MakeDocument = Callable[[Sequence[ProfileUpdate]], TaskDocument]


class TaskStore(Protocol):
    """This store holds tasks. Every method may raise `DatabaseUnavailable`."""

    async def add(
        self,
        record: TaskRecord,
        document: MakeDocument,
        label: AnswerLabel | None,
        *,
        may_teach: bool,
        request_id: str,
        claim: str,
    ) -> Sequence[ProfileUpdate]:
        """Store a task as the answer to a request, and learn from its label, if there is one; all or nothing.

        Raises:
            RequestTakenOver: When the claim on the request has been taken over; nothing is stored.
        """

    async def add_feedback(
        self, request: TaskFeedbackRequest, *, key_name: str, may_teach: bool, digest: str, on_any: bool = False
    ) -> TaskFeedbackResponse:
        """Store feedback and learn from it, both or neither; a repetition returns the first response.

        With `on_any` the task may be another key's.

        Raises:
            TaskNotFound: When there is no such task for the key.
            RequestIdReused: When the identifier belongs to other feedback.
            FeedbackConflict: When the task has a different label already.
        """


async def submit_feedback(
    request: TaskFeedbackRequest, *, key: ApiKey, tasks: TaskStore, on_label: Callable[[], None]
) -> TaskFeedbackResponse:
    """Store feedback, once however often it is sent, and have the profiles learn from it.

    Args:
        request: The feedback.
        key: Key of the request; feedback of one that may not teach is stored, and no profile learns from it. One that
            acts for others may label their tasks: the router delivers feedback in the background.
        tasks: The store of tasks.
        on_label: Called when there is a new label.

    Raises:
        TaskNotFound: When there is no such task for the key.
        RequestIdReused: When the identifier belongs to other feedback.
        FeedbackConflict: When the task has a different label already.
        DatabaseUnavailable: When the database cannot be reached; then nothing has changed.
    """
    digest = sha256(dumps([request.task_id, request.correct, request.note])).hexdigest()
    response = await tasks.add_feedback(
        request, key_name=key.name, may_teach=key.may(TEACH), digest=digest, on_any=key.may(ACT)
    )
    on_label()
    return response
