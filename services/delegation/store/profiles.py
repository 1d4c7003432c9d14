"""Capability profiles in PostgreSQL: read, put back, frozen, exported, imported."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import ERRORS, Sessions, refusal, without_nul
from kernel.learning.profiles import START, Profile, ProfileChange, interval, memory, memory_rate
from services.delegation.service.profiles import CapabilityProfile, ExportedProfile, Imported, ImportRule
from services.delegation.service.values import ProfileUpdate
from services.delegation.store.learning import OF_UPDATE, ensure_profile
from services.delegation.store.tables import FreezeRow, HistoryRow, ProfileRow

# Changes that one page of an export carries at most, unless a single profile has more.
MOST_CHANGES = 5_000

Pair = tuple[str, str]


class PostgresProfiles:
    """Profiles in the delegation service's schema.

    Args:
        sessions: Sessions of the database.
        learning_rate: Step in ordinary times, alpha (0..1].
    """

    def __init__(self, sessions: Sessions, learning_rate: float) -> None:
        self._sessions = sessions
        self._rate = learning_rate

    async def of(self, agents: Sequence[str], dimensions: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        """Profiles of `agents` in `dimensions`, in their order; those that never changed are at their start.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        wanted = select(ProfileRow).where(ProfileRow.agent.in_(agents), ProfileRow.dimension.in_(dimensions))
        rows = {(row.agent, row.dimension): row for row in await self._all(wanted)}
        return {
            agent: [self._profile(agent, dimension, rows.get((agent, dimension))) for dimension in dimensions]
            for agent in agents
        }

    async def listed(self, agent: str = "", dimension: str = "") -> Mapping[Pair, CapabilityProfile]:
        """Profiles that ever changed, or were frozen, by agent and dimension.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        rows = await self._all(select(ProfileRow).where(*_matching(ProfileRow, agent, dimension)))
        return {(row.agent, row.dimension): self._told(row) for row in rows}

    async def frozen_to_come(self) -> Sequence[tuple[str, str, bool]]:
        """What was said of whether profiles still to come are frozen, the latest first; empty names stand for all.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        rows = await self._all(select(FreezeRow).order_by(FreezeRow.said_at.desc()))
        return [(row.agent, row.dimension, row.frozen) for row in rows]

    async def reset(self, agent: str, dimension: str) -> int:
        """Put profiles back to where they start; their history is kept. Returns how many changed.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        changed = (ProfileRow.observations > 0) | (ProfileRow.competence != START)
        moving = (
            update(ProfileRow)
            .where(*_matching(ProfileRow, agent, dimension), changed)
            .values(_set_to(START, observations=0, weight=0.0, squares=0.0))
            .returning(ProfileRow)
        )
        try:
            async with self._sessions.begin() as session:
                await session.execute(_locking(agent, dimension))
                rows = (await session.scalars(moving)).all()
                await _note(session, rows, ProfileChange.RESET)
        except ERRORS as error:
            raise refusal(error) from error
        return len(rows)

    async def freeze(self, agent: str, dimension: str, *, frozen: bool) -> int:
        """Freeze profiles or thaw them, those still to come included. Returns how many changed.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        said = {"agent": agent, "dimension": dimension, "frozen": frozen, "said_at": func.clock_timestamp()}
        saying = insert(FreezeRow).values(said)
        saying = saying.on_conflict_do_update(
            index_elements=[FreezeRow.agent, FreezeRow.dimension],
            set_={"frozen": saying.excluded.frozen, "said_at": saying.excluded.said_at},
        )
        freezing = (
            update(ProfileRow)
            .where(*_matching(ProfileRow, agent, dimension), ProfileRow.frozen.is_not(frozen))
            .values(frozen=frozen)
            .returning(ProfileRow.agent)
        )
        try:
            async with self._sessions.begin() as session:
                await session.execute(_locking(agent, dimension))
                await session.execute(saying)
                return len((await session.scalars(freezing)).all())
        except ERRORS as error:
            raise refusal(error) from error

    async def export(
        self, moment: datetime, after: Pair | None, *, agent: str, dimension: str, most: int, with_history: bool
    ) -> Sequence[ExportedProfile]:
        """At most `most` profiles as they were at `moment`, by agent and dimension, after the pair `after`.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        place = [tuple_(HistoryRow.agent, HistoryRow.dimension) > tuple(map(without_nul, after))] if after else []
        wanted = (
            select(HistoryRow)
            .where(*_matching(HistoryRow, agent, dimension), HistoryRow.applied_at <= moment, *place)
            .ext(distinct_on(HistoryRow.agent, HistoryRow.dimension))
            .order_by(HistoryRow.agent, HistoryRow.dimension, HistoryRow.sequence.desc())
            .limit(most)
        )
        rows = await self._all(wanted)
        exported: list[ExportedProfile] = []
        carried = 0
        for row in rows:
            if with_history and exported and carried + row.sequence > MOST_CHANGES:
                break
            history = await self._history(row.agent, row.dimension, row.sequence) if with_history else []
            carried += len(history)
            exported.append(ExportedProfile(profile=self._as_it_was(row), history=history))
        return exported

    async def import_all(self, profiles: Sequence[Imported], rule: ImportRule) -> tuple[int, int]:
        """Import profiles, all or none. Returns how many were imported, and how many were left as they are.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        kept = 0
        ordered = sorted(profiles, key=lambda one: (one.profile.agent, one.profile.dimension) if one.profile else ())
        try:
            async with self._sessions.begin() as session:
                for one in ordered:
                    kept += not await self._imported(session, one, rule)
        except ERRORS as error:
            raise refusal(error) from error
        return len(profiles) - kept, kept

    async def _imported(self, session: AsyncSession, one: Imported, rule: ImportRule) -> bool:
        given = one.profile
        assert given is not None
        named = (ProfileRow.agent == given.agent, ProfileRow.dimension == given.dimension)
        await ensure_profile(session, given.agent, given.dimension, self._rate)
        held = (await session.scalars(select(ProfileRow).where(*named).with_for_update())).one()
        if held.sequence > 0:
            if rule is ImportRule.KEEP:
                return False
            if (held.competence, held.observations) == (given.competence, given.observations):
                return True
        lived = (1.0 - self._rate) ** given.observations
        weights = {
            "weight": 1.0 - lived,
            "squares": self._rate * (1.0 - lived * lived) / (2.0 - self._rate),
        }
        values = _set_to(given.competence, observations=given.observations, **weights)
        if held.sequence == 0 and one.history:
            await session.execute(
                insert(HistoryRow), [_history_row(given.agent, given.dimension, h) for h in one.history]
            )
            last = max(change.sequence for change in one.history)
            values |= {"sequence": last + 1, "change_point": last + 1}
        rows = (await session.scalars(update(ProfileRow).where(*named).values(values).returning(ProfileRow))).all()
        await _note(session, rows, ProfileChange.IMPORT)
        return True

    async def _history(self, agent: str, dimension: str, until: int) -> list[ProfileUpdate]:
        wanted = (
            select(HistoryRow)
            .where(HistoryRow.agent == agent, HistoryRow.dimension == dimension, HistoryRow.sequence <= until)
            .order_by(HistoryRow.sequence)
        )
        return [ProfileUpdate(**{name: getattr(row, name) for name in OF_UPDATE}) for row in await self._all(wanted)]

    async def _all(self, statement: Select[Any]) -> Sequence[Any]:
        try:
            async with self._sessions.begin() as session:
                return (await session.scalars(statement)).all()
        except ERRORS as error:
            raise refusal(error) from error

    def _profile(self, agent: str, dimension: str, row: ProfileRow | None) -> Profile:
        if row is None:
            return Profile(agent=agent, dimension=dimension, learning_rate=self._rate)
        return Profile(
            agent=agent,
            dimension=dimension,
            competence=row.competence,
            observations=row.observations,
            memory=memory(row.weight, row.squares),
            weight=row.weight,
            learning_rate=memory_rate(self._rate, row.since_change),
            frozen=row.frozen,
        )

    def _told(self, row: ProfileRow) -> CapabilityProfile:
        return told_profile(self._profile(row.agent, row.dimension, row), row.updated_at)

    def _as_it_was(self, row: HistoryRow) -> CapabilityProfile:
        rate = row.learning_rate or self._rate
        profile = Profile(
            agent=row.agent,
            dimension=row.dimension,
            competence=row.competence_after,
            observations=row.observations,
            memory=round(row.memory, 9),
            weight=1.0 - (1.0 - rate) ** row.observations,
            learning_rate=rate,
        )
        return told_profile(profile, row.applied_at)


def told_profile(profile: Profile, updated_at: datetime | None) -> CapabilityProfile:
    """A profile as the contract has it, with its interval."""
    limits = interval(profile)
    return CapabilityProfile(
        agent=profile.agent,
        dimension=profile.dimension,
        competence=profile.competence,
        observations=profile.observations,
        competence_low=limits.low,
        competence_high=limits.high,
        memory=profile.memory,
        learning_rate=profile.learning_rate,
        frozen=profile.frozen,
        updated_at=updated_at,
    )


def _matching(table: type[ProfileRow] | type[HistoryRow], agent: str, dimension: str) -> list[Any]:
    named = [(table.agent, agent), (table.dimension, dimension)]
    return [column == without_nul(name) for column, name in named if name]


def _locking(agent: str, dimension: str) -> Select[Any]:
    """Lock profiles in the order in which outcomes are taught, so that nobody waits for one another."""
    return (
        select(ProfileRow.agent)
        .where(*_matching(ProfileRow, agent, dimension))
        .order_by(ProfileRow.agent, ProfileRow.dimension)
        .with_for_update()
    )


def _set_to(competence: float, *, observations: int, weight: float, squares: float) -> dict[str, Any]:
    return {
        "previous_competence": ProfileRow.competence,
        "competence": competence,
        "observations": observations,
        "sequence": ProfileRow.sequence + 1,
        "change_point": ProfileRow.sequence + 1,
        "weight": weight,
        "squares": squares,
        "since_change": None,
        "updated_at": func.clock_timestamp(),
    }


async def _note(session: AsyncSession, rows: Sequence[ProfileRow], change: ProfileChange) -> None:
    notes = [
        {
            "agent": row.agent,
            "dimension": row.dimension,
            "sequence": row.sequence,
            "change": change,
            "competence_before": row.previous_competence,
            "competence_after": row.competence,
            "observations": row.observations,
            "memory": memory(row.weight, row.squares),
            "task_id": "",
            "feedback_id": "",
            "applied_at": row.updated_at,
        }
        for row in rows
    ]
    if notes:
        await session.execute(insert(HistoryRow), notes)


def _history_row(agent: str, dimension: str, change: Any) -> dict[str, Any]:  # noqa: ANN401 - an imported change
    """An imported change as a row; the tasks that it names are not ours, so they teach nothing here again."""
    return {
        "agent": agent,
        "dimension": dimension,
        "sequence": change.sequence,
        "change": change.change,
        "outcome": change.outcome,
        "learning_rate": change.learning_rate,
        "competence_before": change.competence_before,
        "competence_after": change.competence_after,
        "observations": change.observations,
        "memory": 0.0,
        "task_id": change.task_id[:36],
        "feedback_id": change.feedback_id,
        "applied_at": change.applied_at or datetime.now(UTC),
    }
