"""A verdict on a run's answer: kept once, and told to those who learn from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, Protocol

from pydantic import Field

from chassis.json_text import dumps
from chassis.serving.auth import ApiKey
from kernel.outcomes import Outcome
from kernel.values import value
from services.router.core.feedback import Learnable, Lessons, lessons, score_of, task_ids
from services.router.service.runs.lookup import RunFinder
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Run

MAX_NOTE = 10_000


DELEGATION, EXPERIENCE = "delegation", "experience"


@value
class SubmitFeedbackRequest:
    """Says how right a run's answer was; give `correct` or `score`."""

    feedback_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    run_id: Annotated[str, Field(min_length=1, max_length=128)]
    correct: bool | None = None
    score: float | None = None
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""


@value
class SubmitFeedbackResponse:
    """What the feedback does."""

    feedback_id: str
    run_id: str
    teaches: bool
    calibrates: bool
    becomes_experience: bool
    delegation_tasks: int


@value
class FeedbackLabel:
    """A verdict as it is kept.

    Attributes:
        feedback_id: Identifies it among those of its key.
        key_name: Name of the key it came in with.
        run_id: The run.
        score: How right the answer was [0..1].
        note: A remark.
        teaches: Whether its key may teach.
        created_at: When it came in.
        request_digest: Digest of what was said, by which a repetition is told from another verdict [sha256].
    """

    feedback_id: str
    key_name: str
    run_id: str
    score: float
    note: str
    teaches: bool
    created_at: datetime
    request_digest: str


@value
class FeedbackMessage:
    """Something to be told to one who learns.

    Attributes:
        kind: Who it is for.
        payload: What is told.
    """

    kind: str
    payload: Mapping[str, Any]


@value
class FeedbackEffects:
    """What a verdict does, for the one case that the store finds.

    Attributes:
        reply: What the caller is told.
        messages: What is to be told to those who learn.
    """

    reply: SubmitFeedbackResponse
    messages: Sequence[FeedbackMessage] = ()


class FeedbackStore(Protocol):
    """Where verdicts are kept."""

    async def earlier(self, key_name: str, feedback_id: str, digest: str) -> SubmitFeedbackResponse | None:
        """What was said to the same verdict before.

        Raises:
            RequestIdReused: When the identifier belongs to another one.
            DatabaseUnavailable: When the database is away.
        """

    async def keep(self, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]) -> SubmitFeedbackResponse:
        """Keep `label` and what is to be told, both or neither; a repetition repeats the first reply.

        Args:
            label: The verdict.
            effects: What it does, given whether it counts: it may teach, and none on its run did before.

        Raises:
            RunNotFound: When the run is gone.
            RequestIdReused: When the identifier belongs to another verdict.
            FeedbackConflict: When the run has a different label already.
            DatabaseUnavailable: When the database is away.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackContext:
    """Everything that feedback needs from the world.

    Attributes:
        find: Finds runs, also those on their way to the database.
        store: Where verdicts are kept.
        learners: Who is told what can be learned: `delegation`, `experience`.
        wake: Tells the outbox that there is something to tell.
        judged: Tells calibration, which reads the verdicts itself, that there is a new one.
        keep_contents: Whether notes are kept.
        now: Wall clock.
    """

    find: RunFinder
    store: FeedbackStore
    learners: frozenset[str]
    wake: Callable[[], None] = lambda: None
    judged: Callable[[], None] = lambda: None
    keep_contents: bool = True
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


async def submit_feedback(ask: SubmitFeedbackRequest, *, key: ApiKey, desk: FeedbackContext) -> SubmitFeedbackResponse:
    """Keep a verdict, and have those told who learn from it.

    Args:
        ask: The verdict.
        key: Key it came in with.
        desk: What feedback needs from the world.

    Raises:
        MalformedRequest: For a verdict that is none.
        RunNotFound: When there is no such run, or it came in with another key.
        RequestIdReused: When the identifier belongs to another verdict.
        FeedbackConflict: When the run has a different label already.
        DatabaseUnavailable: When the database is away; then nothing has happened.
    """
    score = score_of(correct=ask.correct, score=ask.score)
    digest = sha256(dumps([ask.run_id, score, ask.note])).hexdigest()
    told = await desk.store.earlier(key.name, ask.feedback_id, digest)
    if told is not None:
        return told
    run = await desk.find(ask.run_id, key_name=key.name)
    label = FeedbackLabel(
        feedback_id=ask.feedback_id,
        key_name=key.name,
        run_id=run.run_id,
        score=score,
        note=ask.note if desk.keep_contents else "",
        teaches=key.may_teach,
        created_at=desk.now(),
        request_digest=digest,
    )
    reply = await desk.store.keep(label, lambda counts: effects(label, run, desk.learners, counts=counts))
    desk.wake()
    desk.judged()
    return reply


def effects(label: FeedbackLabel, run: Run, learners: frozenset[str], *, counts: bool) -> FeedbackEffects:
    """What `label` does, and to whom it is told."""
    learned = lessons(label.score, learnable(run), learners=learners, counts=counts)
    return FeedbackEffects(
        reply=SubmitFeedbackResponse(
            feedback_id=label.feedback_id,
            run_id=label.run_id,
            teaches=label.teaches,
            calibrates=learned.calibrates,
            becomes_experience=learned.becomes_experience,
            delegation_tasks=len(learned.tasks),
        ),
        messages=_messages(label, run, learned),
    )


def learnable(run: Run) -> Learnable:
    """What `run` offers to learn from."""
    answered = run.outcome is Outcome.ANSWERED and not run.error_reason
    return Learnable(
        confidence_source=run.confidence_source if answered and run.confidence is not None else "",
        has_answer=answered and has_contents(run) and bool(run.answer),
        tasks=task_ids(run.deliberation),
    )


def _messages(label: FeedbackLabel, run: Run, learned: Lessons) -> Sequence[FeedbackMessage]:
    told = [
        FeedbackMessage(
            kind=DELEGATION,
            payload={"feedback_id": _derived_id(label, task), "task_id": task, "correct": learned.right},
        )
        for task in learned.tasks
    ]
    if learned.becomes_experience:
        told.append(FeedbackMessage(kind=EXPERIENCE, payload={"run_id": run.run_id}))
    return told


def _derived_id(label: FeedbackLabel, task_id: str) -> str:
    """Identifier under which delegation hears of a verdict: the same whenever it is told again."""
    parts = dumps([label.key_name, label.feedback_id, task_id])
    return f"run-{sha256(parts).hexdigest()[:40]}"
