"""This store keeps capability profiles in PostgreSQL: reading, reset, freezing, export and import."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, without_nul
from kernel.learning.profiles import INITIAL_COMPETENCE, Profile, ProfileChange, interval, memory, memory_rate
from services.delegation.service.profiles import CapabilityProfile, ExportedProfile, FreezeRule, ImportEntry, ImportRule
from services.delegation.service.values import ProfileUpdate
from services.delegation.store.learning import UPDATE_FIELDS, ensure_profile
from services.delegation.store.tables import FreezeRuleRow, ProfileRow, ProfileUpdateRow

# Changes that one page of an export carries at most, unless a single profile has more.
MAX_PAGE_CHANGES = 5_000

Pair = tuple[str, str]


class PostgresProfiles:
    """This store keeps profiles in the delegation service's schema.

    Args:
        sessions: Sessions of the database.
        learning_rate: Step of a profile without a recent change, alpha (0..1].
    """

    def __init__(self, sessions: Sessions, learning_rate: float) -> None:
        self._sessions = sessions
        self._rate = learning_rate

    async def of(self, agents: Sequence[str], dimensions: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        """Return profiles of `agents` in `dimensions`, in their order; those that never changed are at their start.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        wanted = select(ProfileRow).where(ProfileRow.agent.in_(agents), ProfileRow.dimension.in_(dimensions))
        rows = {(row.agent, row.dimension): row for row in await self._all(wanted)}
        return {
            agent: [self._profile(agent, dimension, rows.get((agent, dimension))) for dimension in dimensions]
            for agent in agents
        }

    async def listed(self, agent: str = "", dimension: str = "") -> Mapping[Pair, CapabilityProfile]:
        """Return profiles that ever changed, or were frozen, by agent and dimension.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        rows = await self._all(select(ProfileRow).where(*_matching(ProfileRow, agent, dimension)))
        return {(row.agent, row.dimension): self._capability(row) for row in rows}

    async def freeze_rules(self) -> Sequence[FreezeRule]:
        """Return the rules of whether new profiles are frozen, the latest first.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        rows = await self._all(select(FreezeRuleRow).order_by(FreezeRuleRow.changed_at.desc()))
        return [FreezeRule(agent=row.agent, dimension=row.dimension, frozen=row.frozen) for row in rows]

    async def reset(self, agent: str, dimension: str) -> int:
        """Reset profiles to their start and keep their history. Return how many changed.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        changed = (ProfileRow.observations > 0) | (ProfileRow.competence != INITIAL_COMPETENCE)
        resetting = (
            update(ProfileRow)
            .where(*_matching(ProfileRow, agent, dimension), changed)
            .values(_set_to(INITIAL_COMPETENCE, observations=0, weight=0.0, squares=0.0))
            .returning(ProfileRow)
        )
        async with transaction(self._sessions) as session:
            await session.execute(_locking(agent, dimension))
            rows = (await session.scalars(resetting)).all()
            await _record(session, rows, ProfileChange.RESET)
        return len(rows)

    async def freeze(self, agent: str, dimension: str, *, frozen: bool) -> int:
        """Freeze or unfreeze profiles, new ones included. Return how many changed.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        rule = {"agent": agent, "dimension": dimension, "frozen": frozen, "changed_at": func.clock_timestamp()}
        adding = insert(FreezeRuleRow).values(rule)
        adding = adding.on_conflict_do_update(
            index_elements=[FreezeRuleRow.agent, FreezeRuleRow.dimension],
            set_={"frozen": adding.excluded.frozen, "changed_at": adding.excluded.changed_at},
        )
        freezing = (
            update(ProfileRow)
            .where(*_matching(ProfileRow, agent, dimension), ProfileRow.frozen.is_not(frozen))
            .values(frozen=frozen)
            .returning(ProfileRow.agent)
        )
        async with transaction(self._sessions) as session:
            await session.execute(_locking(agent, dimension))
            await session.execute(adding)
            return len((await session.scalars(freezing)).all())

    async def export(
        self, moment: datetime, after: Pair | None, *, agent: str, dimension: str, limit: int, with_history: bool
    ) -> Sequence[ExportedProfile]:
        """Return at most `limit` profiles as they were at `moment`, by agent and dimension, after the pair `after`.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        following = (
            [tuple_(ProfileUpdateRow.agent, ProfileUpdateRow.dimension) > tuple(map(without_nul, after))]
            if after
            else []
        )
        wanted = (
            select(ProfileUpdateRow)
            .where(*_matching(ProfileUpdateRow, agent, dimension), ProfileUpdateRow.applied_at <= moment, *following)
            .ext(distinct_on(ProfileUpdateRow.agent, ProfileUpdateRow.dimension))
            .order_by(ProfileUpdateRow.agent, ProfileUpdateRow.dimension, ProfileUpdateRow.sequence.desc())
            .limit(limit)
        )
        rows = await self._all(wanted)
        exported: list[ExportedProfile] = []
        page_changes = 0
        for row in rows:
            if with_history and exported and page_changes + row.sequence > MAX_PAGE_CHANGES:
                break
            history = await self._history(row.agent, row.dimension, row.sequence) if with_history else []
            page_changes += len(history)
            exported.append(ExportedProfile(profile=self._as_it_was(row), history=history))
        return exported

    async def import_all(self, profiles: Sequence[ImportEntry], rule: ImportRule) -> tuple[int, int]:
        """Import profiles, all or none. Return how many were imported, and how many were kept as they are.

        Raises:
            DatabaseUnavailable: When the database cannot be reached.
        """
        kept = 0
        ordered = sorted(
            profiles, key=lambda each: (each.profile.agent, each.profile.dimension) if each.profile else ()
        )
        async with transaction(self._sessions) as session:
            for entry in ordered:
                kept += not await self._import(session, entry, rule)
        return len(profiles) - kept, kept

    async def _import(self, session: AsyncSession, entry: ImportEntry, rule: ImportRule) -> bool:
        given = entry.profile
        assert given is not None
        named = (ProfileRow.agent == given.agent, ProfileRow.dimension == given.dimension)
        await ensure_profile(session, given.agent, given.dimension, self._rate)
        stored = (await session.scalars(select(ProfileRow).where(*named).with_for_update())).one()
        if stored.sequence > 0:
            if rule is ImportRule.KEEP:
                return False
            if (stored.competence, stored.observations) == (given.competence, given.observations):
                return True
        remainder = (1.0 - self._rate) ** given.observations
        weights = {
            "weight": 1.0 - remainder,
            "squares": self._rate * (1.0 - remainder * remainder) / (2.0 - self._rate),
        }
        values = _set_to(given.competence, observations=given.observations, **weights)
        if stored.sequence == 0 and entry.history:
            await session.execute(
                insert(ProfileUpdateRow),
                [_imported_update(given.agent, given.dimension, each) for each in entry.history],
            )
            last = max(change.sequence for change in entry.history)
            values |= {"sequence": last + 1, "change_point": last + 1}
        rows = (await session.scalars(update(ProfileRow).where(*named).values(values).returning(ProfileRow))).all()
        await _record(session, rows, ProfileChange.IMPORT)
        return True

    async def _history(self, agent: str, dimension: str, until: int) -> list[ProfileUpdate]:
        wanted = (
            select(ProfileUpdateRow)
            .where(
                ProfileUpdateRow.agent == agent,
                ProfileUpdateRow.dimension == dimension,
                ProfileUpdateRow.sequence <= until,
            )
            .order_by(ProfileUpdateRow.sequence)
        )
        return [
            ProfileUpdate(**{name: getattr(row, name) for name in UPDATE_FIELDS}) for row in await self._all(wanted)
        ]

    async def _all(self, statement: Select[Any]) -> Sequence[Any]:
        async with transaction(self._sessions) as session:
            return (await session.scalars(statement)).all()

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

    def _capability(self, row: ProfileRow) -> CapabilityProfile:
        return capability_profile(self._profile(row.agent, row.dimension, row), row.updated_at)

    def _as_it_was(self, row: ProfileUpdateRow) -> CapabilityProfile:
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
        return capability_profile(profile, row.applied_at)


def capability_profile(profile: Profile, updated_at: datetime | None) -> CapabilityProfile:
    """Return a profile as the contract defines it, with its interval."""
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


def _matching(table: type[ProfileRow] | type[ProfileUpdateRow], agent: str, dimension: str) -> list[Any]:
    named = [(table.agent, agent), (table.dimension, dimension)]
    return [column == without_nul(name) for column, name in named if name]


def _locking(agent: str, dimension: str) -> Select[Any]:
    """Return a statement that locks profiles in the order of `apply_lessons`, so that transactions do not deadlock."""
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


async def _record(session: AsyncSession, rows: Sequence[ProfileRow], change: ProfileChange) -> None:
    updates = [
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
    if updates:
        await session.execute(insert(ProfileUpdateRow), updates)


def _imported_update(agent: str, dimension: str, change: Any) -> dict[str, Any]:  # noqa: ANN401 - an imported change
    """Return an imported change as a row."""
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
