"""Whether contents are stored, and for how long: the router's settings are the defaults of the other services."""

from typing import TypeVar

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from chassis.calls.records import CallStorage
from chassis.settings import ApiSettings
from configuration.suite import SuiteSettings

S = TypeVar("S", bound=BaseSettings)


class RouterContentsSettings(BaseSettings):
    """The settings of the router that hold for the other services too; environment variables `METACOG_ROUTER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ROUTER_", env_ignore_empty=True, frozen=True)

    keep_contents: bool = Field(True, description="Whether questions and answers are stored")
    retention_days: int = Field(90, ge=0, le=36_500, description="Age from which they are deleted [days]; 0: never")


class CallSettings(ApiSettings):
    """A service that stores its calls has these settings; environment variables `METACOG_<SERVICE>_...`."""

    keep_contents: bool | None = Field(
        None, description="Whether questions and answers are stored; empty: as METACOG_ROUTER_KEEP_CONTENTS says"
    )
    retention_days: int | None = Field(
        None,
        ge=0,
        le=36_500,
        description="Age from which stored calls are deleted [days], 0: never; empty: as METACOG_ROUTER_RETENTION_DAYS"
        " says",
    )


def with_router_defaults(settings: S, router: RouterContentsSettings) -> S:
    """Return `settings` with what the router keeps, and for how long, where they leave it open."""
    given = settings.model_dump(include={"keep_contents", "retention_days"}, exclude_none=True)
    return settings.model_copy(update={**router.model_dump(), **given})


def call_storage(name: str, suite: SuiteSettings, settings: CallSettings) -> CallStorage | None:
    """Return where the service called `name` stores its calls; None where no database is named."""
    if not suite.has_database:
        return None
    return CallStorage(
        url=suite.database_url,
        spool=suite.home / "spool" / f"{name}-{settings.rest_port}.jsonl",
        contents=settings.keep_contents is not False,
        days=settings.retention_days or 0,
    )
