"""Settings of the arbiter service."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import FaceSettings


class Settings(FaceSettings):
    """Environment variables `METACOG_ARBITER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ARBITER_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8082, ge=0, le=65535, description="Port of the REST face")
    grpc_port: int = Field(50053, ge=0, le=65535, description="Port of the gRPC face")
