"""Settings of the delegation service."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import FaceSettings


class Settings(FaceSettings):
    """Environment variables `METACOG_DELEGATION_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_DELEGATION_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8083, ge=0, le=65535, description="Port of the REST face")
    grpc_port: int = Field(50054, ge=0, le=65535, description="Port of the gRPC face")
