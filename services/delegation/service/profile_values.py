"""Requests and results about profiles; field names are the contract's."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from chassis.wire import MAX_COUNT
from kernel.values import value
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
