"""These use cases list, reset, freeze, export and import profiles; field names are the contract's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from chassis.errors import RequestOverLimit
from chassis.page_tokens import page, parts_of, time_in, token_of
from chassis.serving.auth import TEACH, ApiKey
from chassis.serving.wire import MAX_COUNT
from configuration.dimensions import Dimension
from kernel.agents import check_agent
from kernel.confidence.rules import LEARNING_RATE
from kernel.errors import MalformedRequest, TeachingNotAllowed
from kernel.learning.profiles import Change, Profile, ProfileChange, interval, replayed_competence
from kernel.values import value
from services.delegation.errors import InvalidProfile
from services.delegation.service.dimensions import check_dimension
from services.delegation.service.task_context import Agents
from services.delegation.service.values import ProfileUpdate

MAX_PAGE = 1000
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE)]


class ImportRule(StrEnum):
    """An import replaces or keeps existing profiles."""

    REPLACE = "REPLACE"
    KEEP = "KEEP"


@value
class CapabilityProfile:
    """A capability profile is an agent's competence in one dimension, learned from outcomes."""

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
    """This request asks for a page of profiles."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""


@value
class ListProfilesResponse:
    """This response is a page of profiles."""

    profiles: Sequence[CapabilityProfile]
    next_page_token: str


@value
class ResetProfilesRequest:
    """This request resets profiles to their start."""

    agent: str = ""
    dimension: str = ""


@value
class ResetProfilesResponse:
    """This response counts the profiles that were reset."""

    reset: int


@value
class FreezeProfilesRequest:
    """This request freezes profiles, or unfreezes them."""

    frozen: bool
    agent: str = ""
    dimension: str = ""


@value
class FreezeProfilesResponse:
    """This response counts the profiles that were frozen or unfrozen."""

    changed: int
    frozen: bool


@value
class ExportedProfile:
    """An exported profile has its history."""

    profile: CapabilityProfile
    history: Sequence[ProfileUpdate] = ()


@value
class ExportProfilesRequest:
    """This request asks for a page of an export."""

    page_size: PageSize = 100
    page_token: str = ""
    agent: str = ""
    dimension: str = ""
    include_history: bool = False


@value
class ExportProfilesResponse:
    """This response is a page of an export."""

    profiles: Sequence[ExportedProfile]
    next_page_token: str
    exported_at: datetime


@value
class ImportedProfile:
    """The import reads these fields of an exported profile; further fields are accepted and ignored."""

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
    """The import reads these fields of an exported change."""

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
class ImportEntry:
    """An entry is a profile to import, with its history."""

    profile: ImportedProfile | None = None
    history: Sequence[ImportedUpdate] = ()


@value
class ImportProfilesRequest:
    """This request imports profiles."""

    profiles: Sequence[ImportEntry] = ()
    rule: ImportRule = ImportRule.REPLACE


@value
class ImportProfilesResponse:
    """This response counts the profiles that were imported, and those that were kept."""

    imported: int
    kept: int


Pair = tuple[str, str]


@value
class FreezeRule:
    """A freeze rule states whether new profiles are frozen.

    Attributes:
        agent: Their agent; empty for all.
        dimension: Their dimension; empty for all.
        frozen: Whether they are frozen.
    """

    agent: str
    dimension: str
    frozen: bool

    def applies_to(self, pair: Pair) -> bool:
        """Return whether the rule applies to the profile of an agent and a dimension."""
        return self.agent in ("", pair[0]) and self.dimension in ("", pair[1])


class ProfileStore(Protocol):
    """This store holds profiles. Every method may raise `DatabaseUnavailable`."""

    async def listed(self, agent: str = "", dimension: str = "") -> Mapping[Pair, CapabilityProfile]:
        """Return profiles that ever changed, or were frozen, by agent and dimension."""

    async def freeze_rules(self) -> Sequence[FreezeRule]:
        """Return the rules of whether new profiles are frozen, the latest first."""

    async def reset(self, agent: str, dimension: str) -> int:
        """Reset profiles to their start and keep their history. Return how many changed."""

    async def freeze(self, agent: str, dimension: str, *, frozen: bool) -> int:
        """Freeze or unfreeze profiles, new ones included. Return how many changed."""

    async def export(
        self, moment: datetime, after: Pair | None, *, agent: str, dimension: str, limit: int, with_history: bool
    ) -> Sequence[ExportedProfile]:
        """Return at most `limit` profiles as they were at `moment`, by agent and dimension, after the pair `after`."""

    async def import_all(self, profiles: Sequence[ImportEntry], rule: ImportRule) -> tuple[int, int]:
        """Import profiles, all or none. Return how many were imported, and how many were kept as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """This object serves the use cases about profiles.

    Attributes:
        store: The store of profiles.
        agents: The configured agents.
        dimensions: The configured dimensions.
        learning_rate: Step of a profile without a recent change, alpha (0..1].
        now: Wall clock.
    """

    store: ProfileStore
    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    learning_rate: float = LEARNING_RATE
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def page(self, request: ListProfilesRequest) -> ListProfilesResponse:
        """Return a page of profiles by agent and dimension: of all configured pairs, and learned ones of others.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            DatabaseUnavailable: When the database cannot be reached.
        """
        stored = dict(await self.store.listed(request.agent, request.dimension))
        rules = await self.store.freeze_rules()
        pairs = [(agent.id, dimension.id) for agent in self.agents() for dimension in self.dimensions()]
        wanted = [pair for pair in pairs if request.agent in ("", pair[0]) and request.dimension in ("", pair[1])]
        listed = {pair: self._initial(pair, rules) for pair in wanted} | stored
        ordered = [listed[pair] for pair in sorted(listed)]
        shown, token = page(
            ordered, lambda each: (each.agent, each.dimension), request.page_token, request.page_size, parts=2
        )
        return ListProfilesResponse(profiles=shown, next_page_token=token)

    async def reset(self, request: ResetProfilesRequest, *, key: ApiKey) -> ResetProfilesResponse:
        """Reset profiles to their start; their history is kept.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database cannot be reached.
        """
        self._check(key, request.agent, request.dimension)
        return ResetProfilesResponse(reset=await self.store.reset(request.agent, request.dimension))

    async def freeze(self, request: FreezeProfilesRequest, *, key: ApiKey) -> FreezeProfilesResponse:
        """Freeze profiles, so that they do not learn from outcomes, or unfreeze them.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database cannot be reached.
        """
        self._check(key, request.agent, request.dimension)
        changed = await self.store.freeze(request.agent, request.dimension, frozen=request.frozen)
        return FreezeProfilesResponse(changed=changed, frozen=request.frozen)

    async def export(self, request: ExportProfilesRequest) -> ExportProfilesResponse:
        """Return a page of profiles as they were when the first page was requested.

        Raises:
            InvalidPageToken: For a token that this service did not issue.
            UnknownAgent, UnknownDimension: For what is not configured.
            DatabaseUnavailable: When the database cannot be reached.
        """
        self._check_names(request.agent, request.dimension)
        moment, after = self.now(), None
        if request.page_token:
            text, agent, dimension = parts_of(request.page_token, 3)
            moment, after = time_in(text, request.page_token), (agent, dimension)
        shown = await self.store.export(
            moment,
            after,
            agent=request.agent,
            dimension=request.dimension,
            limit=request.page_size + 1,
            with_history=request.include_history,
        )
        has_more = len(shown) > request.page_size
        shown = shown[: request.page_size]
        # A page that is cut short by long histories has a next one, which may be empty.
        has_more = has_more or (request.include_history and bool(shown) and len(shown) < request.page_size)
        last = shown[-1].profile if shown else None
        token = token_of(moment.isoformat(), last.agent, last.dimension) if has_more and last else ""
        return ExportProfilesResponse(profiles=shown, next_page_token=token, exported_at=moment)

    async def import_all(self, request: ImportProfilesRequest, *, key: ApiKey) -> ImportProfilesResponse:
        """Import exported profiles, all or none.

        Raises:
            TeachingNotAllowed: For a key that may not teach.
            MalformedRequest, RequestOverLimit: For no profile, or too many.
            UnknownAgent, UnknownDimension: For what is not configured.
            InvalidProfile: For the first one that is not possible.
            DatabaseUnavailable: When the database cannot be reached.
        """
        if not request.profiles:
            raise MalformedRequest("give at least one profile", field="profiles")
        if len(request.profiles) > MAX_PAGE:
            message = f"there are {len(request.profiles)} profiles; the limit is {MAX_PAGE} in one request"
            raise RequestOverLimit(message, field="profiles", limit=str(MAX_PAGE))
        self._check(key, "", "")
        seen: set[Pair] = set()
        for place, entry in enumerate(request.profiles):
            self._check_entry(place, entry, seen)
        imported, kept = await self.store.import_all(request.profiles, request.rule)
        return ImportProfilesResponse(imported=imported, kept=kept)

    def _check_entry(self, place: int, entry: ImportEntry, seen: set[Pair]) -> None:
        if entry.profile is None:
            raise MalformedRequest("profiles: one has no profile", field="profiles")
        pair = (entry.profile.agent, entry.profile.dimension)
        check_agent(pair[0], [agent.id for agent in self.agents()], field=f"profiles.{place}.profile.agent")
        check_dimension(pair[1], [dimension.id for dimension in self.dimensions()])
        problem = "is there twice" if pair in seen else _problem(entry)
        if problem:
            raise InvalidProfile(f"profile of {pair[0]} in {pair[1]} {problem}", agent=pair[0], dimension=pair[1])
        seen.add(pair)

    def _check(self, key: ApiKey, agent: str, dimension: str) -> None:
        if not key.may(TEACH):
            raise TeachingNotAllowed("this key may not change what was learned", key=key.name)
        self._check_names(agent, dimension)

    def _check_names(self, agent: str, dimension: str) -> None:
        if agent:
            check_agent(agent, [each.id for each in self.agents()], field="agent")
        if dimension:
            check_dimension(dimension, [each.id for each in self.dimensions()])

    def _initial(self, pair: Pair, rules: Sequence[FreezeRule]) -> CapabilityProfile:
        """Return a profile that never changed."""
        frozen = next((rule.frozen for rule in rules if rule.applies_to(pair)), False)
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


def _problem(entry: ImportEntry) -> str:
    """Return what is wrong with an imported profile; empty for a valid one."""
    given = entry.profile
    assert given is not None
    if not 0 <= given.competence <= 1:
        return f"has the competence {given.competence}; it must lie in [0, 1]"
    if given.observations < 0:
        return f"has {given.observations} observations; there cannot be fewer than none"
    if [change.sequence for change in entry.history] != list(range(1, len(entry.history) + 1)):
        return "has a history whose places are not 1, 2, 3, ..."
    try:
        changes = [
            Change(
                change=ProfileChange(change.change or ""),
                outcome=change.outcome,
                learning_rate=change.learning_rate,
                competence_after=change.competence_after,
            )
            for change in entry.history
        ]
        final = replayed_competence(changes)
    except (ValueError, AssertionError):
        return "has a history with an incomplete change"
    if changes and final != given.competence:
        return f"has a history that ends at {final}, not at its competence {given.competence}"
    return ""
