"""Settings of the router."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import FaceSettings
from services.router.core.activation import Route


class Settings(FaceSettings):
    """Environment variables `METACOG_ROUTER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ROUTER_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8080, ge=0, le=65535, description="Port of the REST and OpenAI face")
    grpc_port: int = Field(50051, ge=0, le=65535, description="Port of the gRPC face")
    threshold: float = Field(0.45, ge=0, le=1, description="System 2 if and only if the activation reaches it")
    weight_correctness: float = Field(0.30, description="Weight of 1 - correctness in the activation")
    weight_conflict: float = Field(0.25, description="Weight of conflict in the activation")
    weight_importance: float = Field(0.25, description="Weight of importance in the activation")
    weight_experience: float = Field(0.20, description="Weight of 1 - experience in the activation")
    undetermined: Route = Field(Route.SYSTEM_TWO, description="System for a state of which too little is known")
    config_version: str = Field(
        "", description="Name recorded with each decision; empty: `paper`, or a digest of what differs from it"
    )
    model_aliases: dict[str, str] = Field({}, description='Model names that stand for ours, e.g. {"gpt-4o": "metacog"}')
    answer_max_tokens: int = Field(1024, ge=1, description="Tokens of a System 1 answer whose request states none")
    system_one_max_generated_tokens: int = Field(2048, ge=1, description="Default envelope of System 1: tokens")
    max_generations: int = Field(32, ge=1, description="Default envelope of everything else: samples")
    max_generated_tokens: int = Field(8192, ge=1, description="Default envelope of everything else: tokens")
    timeout_ms: int = Field(180_000, ge=1, description="Default envelope: time [ms]")
    spool_dir: Path | None = Field(
        None, description="Where runs wait while the database is away; empty: `spool` in METACOG_HOME"
    )
    spool_max_bytes: int = Field(256 * 1024 * 1024, ge=1024, description="Bytes of runs that may wait there")
