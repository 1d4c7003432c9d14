"""Settings of the console."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The settings are environment variables `METACOG_CONSOLE_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_CONSOLE_", env_ignore_empty=True, frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on; beyond loopback only with METACOG_KEYS_FILE")
    port: int = Field(8090, ge=0, le=65535, description="Port of the console")
    login: Literal["auto", "always"] = Field(
        "auto", description="When a user must log in with an API key: beyond loopback only, or always"
    )
    allowed_hosts: list[str] = Field(
        [], description='Accepted host names besides those of loopback, e.g. ["console.example.org"]'
    )
    secure_cookie: bool = Field(False, description="Whether the login's cookie is sent over HTTPS only")
    session_hours: float = Field(12.0, gt=0, description="Time after which a login ends [h]")
    max_live: int = Field(64, ge=1, description="Maximum number of running questions and uploads")
    unwatched_s: float = Field(
        30.0, gt=0, description="Time after which a question without an open page is stopped [s]"
    )
    answer_timeout_s: float = Field(600.0, gt=0, description="Time limit of one question [s]")
    max_upload_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Largest document accepted [bytes]")


class Addresses(BaseSettings):
    """The addresses of the services are environment variables `METACOG_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_", env_ignore_empty=True, frozen=True)

    router_url: str = Field("http://127.0.0.1:8080", description="URL of the router")
    delegation_url: str = Field("http://127.0.0.1:8083", description="URL of the delegation service")
