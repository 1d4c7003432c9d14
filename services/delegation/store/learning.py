"""Profiles learn each outcome by one atomic statement, with a sequence number.

The statement changes the row and records the change at once, so that concurrent transactions lose no update, and a
replay of the recorded order gives the same profile, bit for bit. The drift detector runs in the same transaction, while
the row is still locked.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.ids import new_id
from kernel.learning.drift import DETECTOR, DriftLimits, detected_change, shortened_memory
from kernel.learning.profiles import INITIAL_COMPETENCE, Lesson, memory
from kernel.values import value
from services.delegation.metrics import DRIFTS, LEARNED
from services.delegation.service.values import ProfileUpdate
from services.delegation.store.tables import DriftRow, FreezeRuleRow, ProfileRow, ProfileUpdateRow

# Eq. 4. The rate is max(alpha, 2 / (s + 2)), s the observations since a recent change; GREATEST ignores NULL. A
# change is recent until the rate is alpha again. `weight` and `squares` follow the weights of outcomes in the mean.
LEARN = text(
    """
    WITH changed AS (
        UPDATE delegation.profiles SET
            previous_competence = competence,
            learning_rate = greatest(CAST(:alpha AS float8), CAST(2 AS float8) / (since_change + 2)),
            competence = competence
                + greatest(CAST(:alpha AS float8), CAST(2 AS float8) / (since_change + 2))
                * (CAST(:outcome AS float8) - competence),
            weight = weight
                + greatest(CAST(:alpha AS float8), CAST(2 AS float8) / (since_change + 2)) * (1 - weight),
            squares = squares * power(
                    1 - greatest(CAST(:alpha AS float8), CAST(2 AS float8) / (since_change + 2)), 2)
                + power(greatest(CAST(:alpha AS float8), CAST(2 AS float8) / (since_change + 2)), 2),
            since_change = CASE
                WHEN CAST(2 AS float8) / (since_change + 3) > CAST(:alpha AS float8) THEN since_change + 1 END,
            observations = observations + 1,
            sequence = sequence + 1,
            updated_at = clock_timestamp()
        WHERE agent = :agent AND dimension = :dimension AND NOT frozen
        RETURNING *
    ), recorded AS (
    INSERT INTO delegation.profile_updates (agent, dimension, sequence, change, outcome, learning_rate,
        competence_before, competence_after, observations, memory, task_id, feedback_id, applied_at)
    SELECT agent, dimension, sequence, 'OUTCOME', CAST(:outcome AS int), learning_rate, previous_competence,
        competence, observations, CASE WHEN squares > 0 THEN weight * weight / squares ELSE 0 END,
        :task_id, :feedback_id, updated_at
    FROM changed
    RETURNING agent, dimension, sequence, change, outcome, learning_rate, competence_before, competence_after,
        observations, task_id, feedback_id, applied_at
    )
    SELECT recorded.*, changed.change_point, changed.weight, changed.squares FROM recorded CROSS JOIN changed
    """
)

UPDATE_FIELDS = tuple(ProfileUpdate.__dataclass_fields__)


@value
class LessonBatch:
    """A batch holds the lessons of one label.

    Attributes:
        lessons: The outcome of each agent.
        dimensions: The dimensions that they apply to.
        learning_rate: Step toward an outcome, alpha (0..1].
        task_id: Task of the label.
        feedback_id: Feedback with the label; empty when the service checked the answer itself.
    """

    lessons: Sequence[Lesson]
    dimensions: Sequence[str]
    learning_rate: float
    task_id: str
    feedback_id: str = ""


async def apply_lessons(session: AsyncSession, batch: LessonBatch, limits: DriftLimits) -> list[ProfileUpdate]:
    """Apply outcomes, each once in each dimension, in the same order in every transaction."""
    pairs = sorted(
        (lesson.agent, dimension, lesson.outcome)
        for lesson in batch.lessons
        for dimension in dict.fromkeys(batch.dimensions)
    )
    updates: list[ProfileUpdate] = []
    for agent, dimension, outcome in pairs:
        row = await _learn(session, agent, dimension, outcome, batch)
        if row is not None:
            updates.append(ProfileUpdate(**{name: row[name] for name in UPDATE_FIELDS}))
            LEARNED.labels(str(outcome)).inc()
            await _detect_drift(session, row, limits)
    return updates


async def ensure_profile(session: AsyncSession, agent: str, dimension: str, learning_rate: float) -> None:
    """Insert a profile at its start, unless it exists; a freeze rule may freeze it."""
    rule = (
        select(FreezeRuleRow.frozen)
        .where(FreezeRuleRow.agent.in_(["", agent]), FreezeRuleRow.dimension.in_(["", dimension]))
        .order_by(FreezeRuleRow.changed_at.desc())
        .limit(1)
    )
    start = {
        "agent": agent,
        "dimension": dimension,
        "competence": INITIAL_COMPETENCE,
        "previous_competence": INITIAL_COMPETENCE,
        "observations": 0,
        "sequence": 0,
        "weight": 0.0,
        "squares": 0.0,
        "learning_rate": learning_rate,
        "change_point": 0,
        "frozen": func.coalesce(rule.scalar_subquery(), False),
    }
    await session.execute(insert(ProfileRow).values(start).on_conflict_do_nothing())


async def _learn(
    session: AsyncSession, agent: str, dimension: str, outcome: int, batch: LessonBatch
) -> RowMapping | None:
    """Return the update with the columns that the detector needs, or None when the profile is frozen."""
    values = {
        "agent": agent,
        "dimension": dimension,
        "outcome": outcome,
        "alpha": batch.learning_rate,
        "task_id": batch.task_id,
        "feedback_id": batch.feedback_id,
    }
    row = (await session.execute(LEARN, values)).mappings().first()
    if row is None:
        await ensure_profile(session, agent, dimension, batch.learning_rate)
        row = (await session.execute(LEARN, values)).mappings().first()
    return row


async def _detect_drift(session: AsyncSession, row: RowMapping, limits: DriftLimits) -> None:
    """Detect a change in the recent outcomes of a profile; its row is locked by the update before."""
    if row["sequence"] - row["change_point"] < 2 * limits.least:
        return
    agent, dimension, weight = row["agent"], row["dimension"], row["weight"]
    recent = (
        select(ProfileUpdateRow.outcome)
        .where(
            ProfileUpdateRow.agent == agent,
            ProfileUpdateRow.dimension == dimension,
            ProfileUpdateRow.sequence > row["change_point"],
            ProfileUpdateRow.outcome.is_not(None),
        )
        .order_by(ProfileUpdateRow.sequence.desc())
        .limit(limits.window)
    )
    outcomes = [outcome or 0 for outcome in reversed((await session.scalars(recent)).all())]
    split = detected_change(outcomes, limits)
    if split is None:
        return
    before = memory(weight, row["squares"])
    after = shortened_memory(before, split)
    shorter = {
        "since_change": split.since,
        "change_point": row["sequence"] - split.since,
        "squares": weight * weight / after,
    }
    await session.execute(
        update(ProfileRow).where(ProfileRow.agent == agent, ProfileRow.dimension == dimension).values(shorter)
    )
    event: dict[str, Any] = {
        "event_id": new_id(),
        "agent": agent,
        "dimension": dimension,
        "sequence": row["sequence"],
        "competence_before": split.before,
        "competence_after": split.after,
        "observations_since": split.since,
        "detector": DETECTOR,
        "statistic": split.statistic,
        "statistic_threshold": limits.threshold,
        "memory_before": before,
        "memory_after": after,
    }
    await session.execute(insert(DriftRow).values(**event, detected_at=func.clock_timestamp()))
    DRIFTS.labels(agent, dimension).inc()
