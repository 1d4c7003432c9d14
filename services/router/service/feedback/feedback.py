"""This use case stores feedback on a run's answer once, and delivers it to those who learn from it.

The fields of its request and response are the contract's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, Protocol

from pydantic import Field

from chassis.journal.lookup import Finder
from chassis.json_text import dumps
from chassis.serving.auth import TEACH, ApiKey
from kernel.outcomes import Outcome
from kernel.policy import Strategy
from kernel.values import value
from services.router.core.feedback import (
    DRAWN_AT_RANDOM,
    FeedbackUse,
    LabelOrigin,
    Learnable,
    is_right,
    score_of,
    task_ids,
    use_of_feedback,
)
from services.router.errors import NotSampled
from services.router.service.calibration.promises import PromiseEvidence
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Run

MAX_NOTE = 10_000


DELEGATION, EXPERIENCE = "delegation", "experience"


@value
class SubmitFeedbackRequest:
    """This request submits feedback on a run's answer; it has `correct` or `score`."""

    feedback_id: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    run_id: Annotated[str, Field(min_length=1, max_length=128)]
    correct: bool | None = None
    score: float | None = None
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    origin: LabelOrigin = LabelOrigin.VOLUNTEERED


@value
class SubmitFeedbackResponse:
    """This response states the effects of the feedback."""

    feedback_id: str
    run_id: str
    teaches: bool
    calibrates: bool
    becomes_experience: bool
    delegation_tasks: int


@value
class FeedbackLabel:
    """A label is feedback as it is stored.

    Attributes:
        feedback_id: Identifies it among those of its key.
        key_name: Name of the API key of the request.
        run_id: The run.
        score: How right the answer was [0..1].
        note: A remark.
        teaches: Whether its key may teach.
        created_at: Time at which it was received.
        request_digest: Digest of the request, by which a repetition is recognized [sha256].
        origin: How the answer came to be labelled.
    """

    feedback_id: str
    key_name: str
    run_id: str
    score: float
    note: str
    teaches: bool
    created_at: datetime
    request_digest: str
    origin: LabelOrigin = LabelOrigin.VOLUNTEERED


@value
class FeedbackMessage:
    """A message takes feedback to one that learns from it.

    Attributes:
        kind: Its receiver.
        payload: What the receiver gets.
    """

    kind: str
    payload: Mapping[str, Any]


@value
class FeedbackEffects:
    """This value holds the effects of feedback, once the store knows whether it counts.

    Attributes:
        reply: The response to the caller.
        messages: The messages to those who learn.
        evidence: What it proves of promises.
    """

    reply: SubmitFeedbackResponse
    messages: Sequence[FeedbackMessage] = ()
    evidence: Sequence[PromiseEvidence] = ()


class FeedbackStore(Protocol):
    """This store holds feedback."""

    async def earlier(self, key_name: str, feedback_id: str, digest: str) -> SubmitFeedbackResponse | None:
        """Return the response to the same feedback before, if there was one.

        Raises:
            RequestIdReused: When the identifier belongs to other feedback.
            DatabaseUnavailable: When the database is away.
        """

    async def keep(self, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]) -> SubmitFeedbackResponse:
        """Store `label` and its messages, both or neither; a repetition gets the first response.

        Args:
            label: The feedback.
            effects: Its effects, given whether it counts: it may teach, and is the first on its run that may.

        Raises:
            RunNotFound: When the run is gone.
            RequestIdReused: When the identifier belongs to other feedback.
            FeedbackConflict: When the run has a different label already.
            DatabaseUnavailable: When the database is away.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackContext:
    """The context holds the parts that `submit_feedback` works with.

    Attributes:
        find: Finds runs, also those on their way to the database.
        store: Stores feedback.
        receivers: Receivers that learn from feedback: `delegation`, `experience`.
        wake: Reports to the outbox that there is a new message.
        on_feedback: Reports to calibration, which reads the feedback itself, that there is new feedback.
        keep_contents: Whether notes are stored.
        now: Wall clock.
    """

    find: Finder[Run]
    store: FeedbackStore
    receivers: frozenset[str]
    wake: Callable[[], None] = lambda: None
    on_feedback: Callable[[], None] = lambda: None
    keep_contents: bool = True
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


async def submit_feedback(
    request: SubmitFeedbackRequest, *, key: ApiKey, context: FeedbackContext
) -> SubmitFeedbackResponse:
    """Store feedback, with the messages to those who learn from it.

    Args:
        request: The feedback.
        key: API key of the request.
        context: The parts to work with.

    Raises:
        MalformedRequest: For both or neither of `correct` and `score`, or a score out of range.
        RunNotFound: When there is no such run, or its request had another key.
        NotSampled: For the origin `SAMPLED` on a run that was not drawn.
        RequestIdReused: When the identifier belongs to other feedback.
        FeedbackConflict: When the run has a different label already.
        DatabaseUnavailable: When the database is away; then nothing was stored.
    """
    score = score_of(correct=request.correct, score=request.score)
    digest = _digest(request, score)
    earlier = await context.store.earlier(key.name, request.feedback_id, digest)
    if earlier is not None:
        return earlier
    run = await context.find(request.run_id, key_name=key.name)
    if request.origin is LabelOrigin.SAMPLED and not run.sampled:
        raise NotSampled(
            f"origin: the run {run.run_id} was not drawn at random to be labelled (see `sampled` of GET /v1/runs);"
            " give VOLUNTEERED"
        )
    label = FeedbackLabel(
        feedback_id=request.feedback_id,
        key_name=key.name,
        run_id=run.run_id,
        score=score,
        note=request.note if context.keep_contents else "",
        teaches=key.may(TEACH),
        created_at=context.now(),
        request_digest=digest,
        origin=request.origin,
    )
    reply = await context.store.keep(label, lambda counts: effects(label, run, context.receivers, counts=counts))
    context.wake()
    context.on_feedback()
    return reply


def _digest(request: SubmitFeedbackRequest, score: float) -> str:
    """Return the digest of a request; without an origin that of earlier versions, so that they recognize each other."""
    origin = [] if request.origin is LabelOrigin.VOLUNTEERED else [request.origin]
    return sha256(dumps([request.run_id, score, request.note, *origin])).hexdigest()


def effects(label: FeedbackLabel, run: Run, receivers: frozenset[str], *, counts: bool) -> FeedbackEffects:
    """Return the effects of `label`, with the messages to those who learn from it."""
    use = use_of_feedback(label.score, learnable(run), receivers=receivers, counts=counts)
    return FeedbackEffects(
        reply=SubmitFeedbackResponse(
            feedback_id=label.feedback_id,
            run_id=label.run_id,
            teaches=label.teaches,
            calibrates=use.calibrates,
            becomes_experience=use.becomes_experience,
            delegation_tasks=len(use.tasks),
        ),
        messages=_messages(label, run, use),
        evidence=promise_evidence(label, run) if counts else (),
    )


def promise_evidence(label: FeedbackLabel, run: Run) -> Sequence[PromiseEvidence]:
    """Return what a label proves of promises: something only where the question was drawn at random.

    On a run that the router drew every label counts that may teach, however it came about: which of the drawn runs are
    labelled makes no difference, since the others count as errors.
    """
    origin = LabelOrigin.SAMPLED if run.sampled and label.origin not in DRAWN_AT_RANDOM else label.origin
    if origin not in DRAWN_AT_RANDOM or run.shadow is not None or run.error_reason:
        return ()
    right, escalation = is_right(label.score), run.escalation
    stronger = escalation.model if escalation is not None and escalation.answered else ""
    of_run = PromiseEvidence(
        owner=run.key_name,
        question=run.messages_digest,
        version="",
        model=stronger or (run.catalogue_name if run.strategy == Strategy.SYSTEM_ONE else ""),
        kind=run.route.kind if run.route is not None else "",
        origin=origin,
        agreement=None,
        is_right=right,
    )
    found = [of_run] if of_run.model else []
    if run.agreement is not None:
        votes = replace(of_run, version=run.agreement.version, model="", agreement=run.agreement)
        found.append(replace(votes, is_right=right and not stronger))
    return found


def learnable(run: Run) -> Learnable:
    """Return the parts of `run` that feedback can teach; a shadow run, which was not served, teaches nothing."""
    if run.shadow is not None:
        return Learnable()
    answered = run.outcome is Outcome.ANSWERED and not run.error_reason
    return Learnable(
        confidence_source=run.confidence_source if answered and run.confidence is not None else "",
        has_answer=answered and has_contents(run) and bool(run.answer),
        tasks=task_ids(run.deliberation),
    )


def _messages(label: FeedbackLabel, run: Run, use: FeedbackUse) -> Sequence[FeedbackMessage]:
    messages = [
        FeedbackMessage(
            kind=DELEGATION,
            payload={"feedback_id": _derived_id(label, task), "task_id": task, "correct": use.right},
        )
        for task in use.tasks
    ]
    if use.becomes_experience:
        messages.append(FeedbackMessage(kind=EXPERIENCE, payload={"run_id": run.run_id}))
    return messages


def _derived_id(label: FeedbackLabel, task_id: str) -> str:
    """Return the identifier of feedback for delegation, the same for every delivery."""
    parts = dumps([label.key_name, label.feedback_id, task_id])
    return f"run-{sha256(parts).hexdigest()[:40]}"
