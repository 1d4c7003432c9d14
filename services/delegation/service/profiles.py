"""Requests and results about profiles; field names are the contract's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from chassis.errors import RequestOverLimit
from chassis.page_tokens import InvalidPageToken, page, parts_of, token_of
from chassis.serving.auth import ApiKey, TeachingNotAllowed
from chassis.serving.wire import MAX_COUNT
from kernel.errors import MalformedRequest
from kernel.learning.profiles import Change, Profile, ProfileChange, interval, replayed
from kernel.values import value
from services.delegation.errors import InvalidProfile
from services.delegation.service.dimensions import Dimension, known_dimension
from services.delegation.service.task_context import Agents, known_agent
from services.delegation.service.values import ProfileUpdate

MAX_PAGE = 1000
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE)]


class ImportRule(StrEnum):
    """What happens to profiles that exist when others are imported."""

    REPLACE = "REPLACE"
    KEEP = "KEEP"


@value
class CapabilityProfile:
    """An agent's record in one dimension, learned from outcomes."""

    agent: str
    dimension: str
    competence: float
    observations: int
    competence_low: float
    competence_high: float
    memory: float
    learning_rate: float
    frozen: bool
    updated_at: datetime | None = None


@value
class ListProfilesRequest:
    """Asks for profiles."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""


@value
class ListProfilesResponse:
    """A page of profiles."""

    profiles: Sequence[CapabilityProfile]
    next_page_token: str


@value
class ResetProfilesRequest:
    """Asks for profiles to be put back."""

    agent: str = ""
    dimension: str = ""


@value
class ResetProfilesResponse:
    """What was put back."""

    reset: int


@value
class FreezeProfilesRequest:
    """Asks for profiles to be frozen or thawed."""

    frozen: bool
    agent: str = ""
    dimension: str = ""


@value
class FreezeProfilesResponse:
    """What was frozen or thawed."""

    changed: int
    frozen: bool


@value
class ExportedProfile:
    """A profile with all that made it."""

    profile: CapabilityProfile
    history: Sequence[ProfileUpdate] = ()


@value
class ExportProfilesRequest:
    """Asks for an export."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""
    include_history: bool = False


@value
class ExportProfilesResponse:
    """A page of an export."""

    profiles: Sequence[ExportedProfile]
    next_page_token: str
    exported_at: datetime


@value
class ImportedProfile:
    """What is read of an exported profile; the rest of it is taken and not looked at."""

    agent: str
    dimension: str
    competence: float
    observations: Annotated[int, Field(le=MAX_COUNT)] = 0
    competence_low: float | None = None
    competence_high: float | None = None
    memory: float | None = None
    learning_rate: float | None = None
    frozen: bool | None = None
    updated_at: datetime | None = None


@value
class ImportedUpdate:
    """What is read of an exported change."""

    agent: str = ""
    dimension: str = ""
    sequence: int = 0
    change: str | None = None
    outcome: int | None = None
    learning_rate: float | None = None
    competence_before: float = 0.0
    competence_after: float = 0.0
    observations: int = 0
    task_id: str = ""
    feedback_id: str = ""
    applied_at: datetime | None = None


@value
class Imported:
    """One profile of an import."""

    profile: ImportedProfile | None = None
    history: Sequence[ImportedUpdate] = ()


@value
class ImportProfilesRequest:
    """Asks for an import."""

    profiles: Sequence[Imported] = ()
    rule: ImportRule = ImportRule.REPLACE


@value
class ImportProfilesResponse:
    """What was imported."""

    imported: int
    kept: int


Pair = tuple[str, str]


class ProfileStore(Protocol):
    """Where profiles are. Every method may raise `DatabaseUnavailable`."""

    async def listed(self, agent: str = "", dimension: str = "") -> Mapping[Pair, CapabilityProfile]:
        """Profiles that ever changed, or were frozen, by agent and dimension."""

    async def frozen_to_come(self) -> Sequence[tuple[str, str, bool]]:
        """What was said of whether profiles still to come are frozen, the latest first; empty names stand for all."""

    async def reset(self, agent: str, dimension: str) -> int:
        """Put profiles back to where they start; their history is kept. Returns how many changed."""

    async def freeze(self, agent: str, dimension: str, *, frozen: bool) -> int:
        """Freeze profiles or thaw them, those still to come included. Returns how many changed."""

    async def export(
        self, moment: datetime, after: Pair | None, *, agent: str, dimension: str, most: int, with_history: bool
    ) -> Sequence[ExportedProfile]:
        """At most `most` profiles as they were at `moment`, by agent and dimension, after the pair `after`."""

    async def import_all(self, profiles: Sequence[Imported], rule: ImportRule) -> tuple[int, int]:
        """Import profiles, all or none. Returns how many were imported, and how many were left as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """The use cases about profiles.

    Attributes:
        shelf: Where profiles are.
        agents: The configured agents.
        dimensions: The configured dimensions.
        learning_rate: Step in ordinary times, alpha (0..1].
        now: Wall clock.
    """

    shelf: ProfileStore
    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    learning_rate: float = 0.1
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def page(self, ask: ListProfilesRequest) -> ListProfilesResponse:
        """Profiles by agent and dimension: those of all configured pairs, and what was learned of others.

        Raises:
            InvalidPageToken: For a token that is none.
            DatabaseUnavailable: When the database is away.
        """
        held = dict(await self.shelf.listed(ask.agent, ask.dimension))
        said = await self.shelf.frozen_to_come()
        pairs = [(agent.id, one.id) for agent in self.agents() for one in self.dimensions()]
        wanted = [pair for pair in pairs if ask.agent in ("", pair[0]) and ask.dimension in ("", pair[1])]
        listed = {pair: self._unlearned(pair, said) for pair in wanted} | held
        ordered = [listed[pair] for pair in sorted(listed)]
        shown, token = page(ordered, lambda one: (one.agent, one.dimension), ask.page_token, ask.page_size, parts=2)
        return ListProfilesResponse(profiles=shown, next_page_token=token)

    async def reset(self, ask: ResetProfilesRequest, *, key: ApiKey) -> ResetProfilesResponse:
        """Put profiles back to where they start; their history is kept.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database is away.
        """
        self._check(key, ask.agent, ask.dimension)
        return ResetProfilesResponse(reset=await self.shelf.reset(ask.agent, ask.dimension))

    async def freeze(self, ask: FreezeProfilesRequest, *, key: ApiKey) -> FreezeProfilesResponse:
        """Freeze profiles, so that outcomes teach them nothing, or thaw them.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database is away.
        """
        self._check(key, ask.agent, ask.dimension)
        changed = await self.shelf.freeze(ask.agent, ask.dimension, frozen=ask.frozen)
        return FreezeProfilesResponse(changed=changed, frozen=ask.frozen)

    async def export(self, ask: ExportProfilesRequest) -> ExportProfilesResponse:
        """A page of profiles as they were when the first page was asked for.

        Raises:
            InvalidPageToken: For a token that is none.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database is away.
        """
        self._check_names(ask.agent, ask.dimension)
        moment, after = self.now(), None
        if ask.page_token:
            told, *pair = parts_of(ask.page_token, 3)
            moment, after = _moment(told, ask.page_token), (pair[0], pair[1])
        shown = await self.shelf.export(
            moment,
            after,
            agent=ask.agent,
            dimension=ask.dimension,
            most=ask.page_size + 1,
            with_history=ask.include_history,
        )
        left = len(shown) > ask.page_size
        shown = shown[: ask.page_size]
        # A page that histories have cut short has a next one, which may be empty.
        more = left or (ask.include_history and bool(shown) and len(shown) < ask.page_size)
        last = shown[-1].profile if shown else None
        token = token_of(moment.isoformat(), last.agent, last.dimension) if more and last else ""
        return ExportProfilesResponse(profiles=shown, next_page_token=token, exported_at=moment)

    async def import_all(self, ask: ImportProfilesRequest, *, key: ApiKey) -> ImportProfilesResponse:
        """Import exported profiles, all or none.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            MalformedRequest, RequestOverLimit: For none, or too many.
            UnknownAgent, UnknownDimension: For what is not configured.
            InvalidProfile: For the first one that cannot be.
            DatabaseUnavailable: When the database is away.
        """
        if not ask.profiles:
            raise MalformedRequest("give at least one profile", field="profiles")
        if len(ask.profiles) > MAX_PAGE:
            said = f"there are {len(ask.profiles)} profiles; the limit is {MAX_PAGE} in one request"
            raise RequestOverLimit(said, field="profiles", limit=str(MAX_PAGE))
        self._check(key, "", "")
        seen: set[Pair] = set()
        for one in ask.profiles:
            self._check_imported(one, seen)
        imported, kept = await self.shelf.import_all(ask.profiles, ask.rule)
        return ImportProfilesResponse(imported=imported, kept=kept)

    def _check_imported(self, one: Imported, seen: set[Pair]) -> None:
        if one.profile is None:
            raise MalformedRequest("profiles: one has no profile", field="profiles")
        pair = (one.profile.agent, one.profile.dimension)
        known_agent(pair[0], {agent.id: agent for agent in self.agents()})
        known_dimension(pair[1], [dimension.id for dimension in self.dimensions()])
        complaint = "is there twice" if pair in seen else _complaint(one)
        if complaint:
            raise InvalidProfile(f"profile of {pair[0]} in {pair[1]} {complaint}", agent=pair[0], dimension=pair[1])
        seen.add(pair)

    def _check(self, key: ApiKey, agent: str, dimension: str) -> None:
        if not key.may_teach:
            raise TeachingNotAllowed("this key may not change what was learned", key=key.name)
        self._check_names(agent, dimension)

    def _check_names(self, agent: str, dimension: str) -> None:
        if agent:
            known_agent(agent, {one.id: one for one in self.agents()})
        if dimension:
            known_dimension(dimension, [one.id for one in self.dimensions()])

    def _unlearned(self, pair: Pair, said: Sequence[tuple[str, str, bool]]) -> CapabilityProfile:
        frozen = next((is_frozen for a, d, is_frozen in said if a in ("", pair[0]) and d in ("", pair[1])), False)
        start = Profile(agent=pair[0], dimension=pair[1], learning_rate=self.learning_rate)
        limits = interval(start)
        return CapabilityProfile(
            agent=pair[0],
            dimension=pair[1],
            competence=start.competence,
            observations=0,
            competence_low=limits.low,
            competence_high=limits.high,
            memory=0.0,
            learning_rate=start.learning_rate,
            frozen=frozen,
        )


def _moment(told: str, token: str) -> datetime:
    try:
        return datetime.fromisoformat(told)
    except ValueError as wrong:
        raise InvalidPageToken(f"page_token {token!r} was not given by this service", field="page_token") from wrong


def _complaint(one: Imported) -> str:
    """What is wrong with an imported profile; empty for nothing."""
    given = one.profile
    assert given is not None
    if not 0 <= given.competence <= 1:
        return f"has the competence {given.competence}; it must lie in [0, 1]"
    if given.observations < 0:
        return f"has {given.observations} observations; there cannot be fewer than none"
    if [change.sequence for change in one.history] != list(range(1, len(one.history) + 1)):
        return "has a history whose places are not 1, 2, 3, ..."
    try:
        changes = [
            Change(
                change=ProfileChange(change.change or ""),
                outcome=change.outcome,
                learning_rate=change.learning_rate,
                competence_after=change.competence_after,
            )
            for change in one.history
        ]
        ends = replayed(changes)
    except (ValueError, AssertionError):
        return "has a history with an incomplete change"
    if changes and ends != given.competence:
        return f"has a history that ends at {ends}, not at its competence {given.competence}"
    return ""
