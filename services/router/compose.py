"""What is kept of runs, and learned from the verdicts on them, put together."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chassis.database import Sessions
from chassis.serving.health import Check
from chassis.serving.server import closing
from services.router import relay
from services.router.core.calibration import FittingRules
from services.router.core.retries import FIRST_S
from services.router.relay import Peer
from services.router.service.assessment.route import RoutingConfig
from services.router.service.calibration.calibration import (
    CalibrationUseCases,
    get_activations,
    get_calibration,
    rollback_calibration,
)
from services.router.service.calibration.recalibration import PAUSE_S, REFRESH_S, Calibrator
from services.router.service.feedback.feedback import (
    DELEGATION,
    EXPERIENCE,
    FeedbackContext,
    SubmitFeedbackResponse,
    submit_feedback,
)
from services.router.service.feedback.outbox import LATE_S, POLL_S, Outbox, Receiver
from services.router.service.knowledge.knowledge import ExperienceStore
from services.router.service.runs.journal import RETRY_S, Journal
from services.router.service.runs.lookup import recorded_run
from services.router.service.runs.redaction import without_contents
from services.router.service.runs.retention import EVERY_S, Retention
from services.router.service.runs.values import Run
from services.router.store.calibration import PostgresActivations, PostgresCalibration
from services.router.store.feedback import PostgresFeedback, PostgresOutbox
from services.router.store.runs import PostgresOldRuns, PostgresRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStorageOptions:
    """What is kept, where, and for how long.

    Attributes:
        spool: File in which runs wait while the database is away.
        spool_max_bytes: Its size at most [bytes].
        contents: Whether what was asked and answered is kept.
        days: Age from which runs are forgotten [days]; 0: never.
        journal_retry_s: Time between two attempts to reach the database again [s].
        outbox_poll_s: Time between two looks at what is to be told to those who learn [s].
        outbox_first_pause_s: Time before what could not be told is told again [s]; it doubles.
        outbox_late_s: Age from which readiness speaks of what is to be told [s].
        retention_every_s: Time between two looks at what is too old [s].
    """

    spool: Path
    spool_max_bytes: int = 256 * 1024 * 1024
    contents: bool = True
    days: int = 0
    journal_retry_s: float = RETRY_S
    outbox_poll_s: float = POLL_S
    outbox_first_pause_s: float = FIRST_S
    outbox_late_s: float = LATE_S
    retention_every_s: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackReceivers:
    """Who learns from verdicts, where there is somebody.

    Attributes:
        delegation: The delegation service.
        experience: Verified answers.
        judged: Calibration, which reads verdicts itself, hears that there is a new one.
    """

    delegation: Peer | None = None
    experience: ExperienceStore | None = None
    judged: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """Runs and feedback, as the rest of the router needs them.

    Attributes:
        runs: The runs.
        journal: Takes runs in.
        get_run: Use case: one run.
        submit_feedback: Use case: a verdict on one.
        checks: What readiness lists, by part.
        start: Begins what goes on in the background.
        close: Ends it.
    """

    runs: PostgresRuns
    journal: Journal
    get_run: Callable[..., Awaitable[Run]]
    submit_feedback: Callable[..., Awaitable[SubmitFeedbackResponse]]
    checks: Mapping[str, Check]
    start: Callable[[], None]
    close: Callable[[], Awaitable[None]]


def build_records(sessions: Sessions, keeping: RunStorageOptions, learning: FeedbackReceivers) -> RunRecords:
    """Runs and feedback in the database behind `sessions`."""
    runs = PostgresRuns(sessions)
    journal = _journal(runs, keeping)
    get_run = partial(recorded_run, find=runs.get, journal=journal)
    receivers = _receivers(runs, learning)
    outbox = Outbox(
        PostgresOutbox(sessions),
        receivers,
        poll_s=keeping.outbox_poll_s,
        first_pause_s=keeping.outbox_first_pause_s,
        late_s=keeping.outbox_late_s,
    )
    desk = FeedbackContext(
        find=get_run,
        store=PostgresFeedback(sessions),
        learners=frozenset(receivers),
        wake=outbox.wake,
        judged=learning.judged,
        keep_contents=keeping.contents,
    )
    background: list[Journal | Outbox | Retention] = [journal, outbox, *_retention(sessions, keeping, learning)]
    return RunRecords(
        runs=runs,
        journal=journal,
        get_run=get_run,
        submit_feedback=partial(submit_feedback, desk=desk),
        checks={"journal": journal.check, "outbox": outbox.check},
        start=partial(_start, background),
        close=partial(closing, *(part.close for part in background)),
    )


def _start(background: Sequence[Journal | Outbox | Retention]) -> None:
    for part in background:
        part.start()


def _journal(runs: PostgresRuns, keeping: RunStorageOptions) -> Journal:
    return Journal(
        runs,
        keeping.spool,
        max_spool_bytes=keeping.spool_max_bytes,
        retry_s=keeping.journal_retry_s,
        kept=(lambda run: run) if keeping.contents else without_contents,
    )


def _retention(sessions: Sessions, keeping: RunStorageOptions, learning: FeedbackReceivers) -> list[Retention]:
    if not keeping.days:
        return []
    forget = None if learning.experience is None else learning.experience.forget
    old = PostgresOldRuns(sessions)
    return [Retention(old, days=keeping.days, forget=forget, every_s=keeping.retention_every_s)]


def _receivers(runs: PostgresRuns, learning: FeedbackReceivers) -> Mapping[str, Receiver]:
    receivers: dict[str, Receiver] = {}
    if learning.delegation is not None:
        receivers[DELEGATION] = relay.delegation_feedback(learning.delegation)
    if learning.experience is not None:
        receivers[EXPERIENCE] = partial(_learn, runs=runs, experience=learning.experience)
    return receivers


async def _learn(told: Mapping[str, Any], *, runs: PostgresRuns, experience: ExperienceStore) -> None:
    await experience.learn(await runs.get(told["run_id"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationParts:
    """Calibration.

    Attributes:
        calibrator: Maps each answer's confidence, and fits the maps.
        use: What the faces can ask.
    """

    calibrator: Calibrator
    use: CalibrationUseCases


def build_calibration(
    sessions: Sessions,
    config: RoutingConfig,
    rules: FittingRules,
    *,
    refresh_s: float = REFRESH_S,
    pause_s: float = PAUSE_S,
) -> CalibrationParts:
    """Calibration from the database behind `sessions`; `config` is how the choice of system is made."""
    store = PostgresCalibration(sessions)
    calibrator = Calibrator(store, rules=rules, refresh_s=refresh_s, pause_s=pause_s)
    return CalibrationParts(
        calibrator=calibrator,
        use=CalibrationUseCases(
            get=partial(get_calibration, store=store, minimum=rules.minimum),
            rollback=partial(rollback_calibration, store=store, refresh=calibrator.refresh),
            activations=partial(get_activations, config=config, seen=PostgresActivations(sessions).seen),
        ),
    )
