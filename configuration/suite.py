"""The services of a suite share settings: addresses, databases, models and keys."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from kernel.envelope import (
    CEILING_GENERATED_TOKENS,
    CEILING_GENERATIONS,
    CEILING_TIMEOUT_MS,
    LARGEST_LIMIT,
    Ceilings,
)
from kernel.msv.affect import AffectName
from kernel.prices import LARGEST_AMOUNT, Price, read_prices


class SuiteSettings(BaseSettings):
    """All services of a suite share these settings; environment variables `METACOG_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_", env_ignore_empty=True, frozen=True)

    home: Path = Field(Path(".metacog"), description="Folder for what a service keeps on disk")
    database_url: str = Field(
        "postgresql+psycopg://metacog@127.0.0.1:5432/metacog",
        description="PostgreSQL with pgvector, as SQLAlchemy URL; arbiter and assigner store calls only if it is set",
    )
    models_file: Path | None = Field(
        None,
        description="models.yaml, with every model and its endpoints; empty: the one of METACOG_INFERENCE_...",
    )
    inference_url: str = Field("http://127.0.0.1:8000/v1", description="Any OpenAI-compatible server, with its /v1")
    inference_model: str = Field("", description="Model to use there; empty: the first one it lists")
    inference_api_key: SecretStr = Field(SecretStr(""), description="Key for that server")
    inference_max_reply_bytes: int = Field(
        64 * 2**20,
        ge=2**16,
        description="Bound on one reply of a model server, whole or streamed, as it is sent [bytes]; more is "
        "`BACKEND_REPLY_INVALID`",
    )
    prices: Annotated[dict[str, Price], BeforeValidator(read_prices)] = Field(
        {},
        description="Price of each model's tokens where there is no models.yaml, per million and in one currency, e.g. "
        '{"smollm2": {"prompt": 0.15, "completion": 0.6}}; "*" for any other; without one, costs are unknown',
    )
    ceiling_generations: int = Field(
        CEILING_GENERATIONS,
        ge=1,
        le=LARGEST_LIMIT,
        description="Samples that the envelope of a request may have at most, at every service; the four ceilings also"
        " lower the default envelopes",
    )
    ceiling_generated_tokens: int = Field(
        CEILING_GENERATED_TOKENS, ge=1, le=LARGEST_LIMIT, description="The same: tokens"
    )
    ceiling_timeout_ms: int = Field(CEILING_TIMEOUT_MS, ge=1, le=LARGEST_LIMIT, description="The same: time [ms]")
    ceiling_cost: float | None = Field(
        None,
        gt=0,
        le=LARGEST_AMOUNT,
        description="The same: cost [currency of the prices], also of requests that state none, so every model needs a"
        " price; empty: no such ceiling",
    )
    encoder_url: str = Field("http://127.0.0.1:8001/v1", description="OpenAI-compatible embeddings server")
    encoder_model: str = Field("", description="Model to use there; empty: the first one it lists")
    encoder_api_key: SecretStr = Field(SecretStr(""), description="Key for that server")
    agents_file: Path | None = Field(None, description="agents.yaml; empty: five prompted agents on one model")
    affect: AffectName = Field(
        "vader", description="How the emotional response is measured; nrc: research only, needs the extra `nrc`"
    )
    keys_file: Path | None = Field(None, description="API keys, hashed; needed to listen beyond loopback")
    peer_key: SecretStr = Field(SecretStr(""), description="API key with which this service calls the others")
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR")
    otlp_endpoint: str = Field("", description="OTLP/gRPC collector for traces; empty: no traces are sent")
    assigner_address: str = Field("127.0.0.1:50052", description="gRPC address of the assigner")
    arbiter_address: str = Field("127.0.0.1:50053", description="gRPC address of the arbiter")
    delegation_address: str = Field("127.0.0.1:50054", description="gRPC address of the delegation service")

    @property
    def has_database(self) -> bool:
        """Return whether the database URL is set; arbiter and assigner store calls only then."""
        return "database_url" in self.model_fields_set

    @property
    def ceilings(self) -> Ceilings:
        """Return the most that one request may spend."""
        return Ceilings(
            max_generations=self.ceiling_generations,
            max_generated_tokens=self.ceiling_generated_tokens,
            timeout_ms=self.ceiling_timeout_ms,
            max_cost=self.ceiling_cost,
        )
