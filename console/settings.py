"""Settings of the console."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Environment variables `METACOG_CONSOLE_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_CONSOLE_", env_ignore_empty=True, frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on; loopback only, the page asks for no key")
    port: int = Field(8090, ge=0, le=65535, description="Port of the page")
