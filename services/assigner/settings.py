"""This module defines the settings of the assigner."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from configuration.contents import CallSettings
from kernel.roles import NOTE_EXPERIENCE, NOTE_IMPORTANCE


class Settings(CallSettings):
    """The settings are read from environment variables `METACOG_ASSIGNER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ASSIGNER_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8081, ge=0, le=65535, description="Port of the REST API")
    grpc_port: int = Field(50052, ge=0, le=65535, description="Port of the gRPC API")
    max_generations: int = Field(32, ge=1, description="Default envelope of a deliberation: samples")
    max_generated_tokens: int = Field(4096, ge=1, description="Default envelope of a deliberation: tokens")
    timeout_ms: int = Field(120_000, ge=1, description="Default envelope of a deliberation: time [ms]")
    stage_max_tokens: int = Field(256, ge=1, description="Tokens of one stage's text")
    input_max_tokens: int = Field(512, ge=32, description="Tokens of each earlier text in a stage's prompt")
    role_weights_file: Path | None = Field(None, description="Weights of the fitness; left out: the defaults")
    part_weights: dict[str, float] = Field(
        {},
        description="Weights of the parts of agents' and stages' ratings inside correctness and importance, where they "
        'are not 1, e.g. {"factual_accuracy": 2}',
    )
    exploration_share: float = Field(
        0.0, ge=0, le=1, description="Share of deliberations whose roles chance gives, so that weights can be learned"
    )
    keep_apart: bool = Field(
        False, description="Whether critic and evaluator, and chain and generalist, are different agents if they can"
    )
    note_importance: float = Field(
        NOTE_IMPORTANCE, ge=0, le=1, description="Importance from which the generalist writes a note"
    )
    note_experience: float = Field(NOTE_EXPERIENCE, ge=0, le=1, description="Experience above which it does not")
    delegation_address: str = Field(
        "",
        description="gRPC address of delegation, which is asked for the agents' experience where a request does not "
        "state it; empty: it is unknown then",
    )
    experience_timeout_ms: int = Field(1000, ge=1, description="Time its reply may take [ms]")
    assignments_max_body_bytes: int = Field(
        8 * 1024 * 1024, ge=1024, description="Largest request body on /v1/assignments [bytes]"
    )
