"""This module defines the settings of the arbiter."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from configuration.contents import CallSettings
from kernel.arbitration.defaults import FIRST_BATCH_SAMPLES, STOPPING_PROBABILITY
from kernel.arbitration.modes import SolvingStop
from kernel.votes.votes import DEFAULT_RULE, MOST_VOTES


class Settings(CallSettings):
    """The settings are read from environment variables `METACOG_ARBITER_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_ARBITER_", env_ignore_empty=True, frozen=True)

    rest_port: int = Field(8082, ge=0, le=65535, description="Port of the REST API")
    grpc_port: int = Field(50053, ge=0, le=65535, description="Port of the gRPC API")
    max_generations: int = Field(96, ge=1, description="Default envelope of an arbitration: samples")
    max_generated_tokens: int = Field(24_576, ge=1, description="Default envelope of an arbitration: tokens")
    timeout_ms: int = Field(300_000, ge=1, description="Default envelope of an arbitration: time [ms]")
    solver_agents: list[str] = Field(
        [], description='Agents that solve when a request names none, e.g. ["ada", "ben"]; empty: the default model'
    )
    critic_agent: str = Field("", description="Agent that criticises; empty: the agent of the solver")
    arbiter_agent: str = Field("", description="Agent that arbitrates; empty: the default model")
    solver_max_tokens: int = Field(256, ge=1, description="Tokens of a solver sample whose request states none")
    critique_max_tokens: int = Field(192, ge=1, description="The same of a critique")
    arbitration_max_tokens: int = Field(256, ge=1, description="The same of an arbitration sample")
    input_max_tokens: int = Field(512, ge=32, description="Tokens of each trace and critique in a prompt")
    stopping_probability: float = Field(
        STOPPING_PROBABILITY, ge=STOPPING_PROBABILITY, le=1, description="Probability from which adaptive mode stops"
    )
    first_batch_samples: int = Field(
        FIRST_BATCH_SAMPLES, ge=1, description="Arbitration samples of adaptive mode's first batch"
    )
    solving_stop: SolvingStop = Field(
        SolvingStop.AGREE, description="When adaptive mode ends the solving: AGREE, or NONE for all samples in one call"
    )
    max_solvers: int = Field(16, ge=1, description="Solvers that a request may ask for")
    max_samples: int = Field(256, ge=1, le=1024, description="Samples of one stage that a request may ask for")
    vote_max_tokens: int = Field(512, ge=1, description="Tokens of a vote whose request states none")
    programs: bool = Field(
        True, description="Whether models may answer by a program, which runs in the sandbox where there is one"
    )
    max_programs: int = Field(
        MOST_VOTES,
        ge=DEFAULT_RULE.most,
        le=MOST_VOTES,
        description="Votes that a request may ask for where programs, or answers with tests, are run: 5 s each",
    )
    embedding_timeout_ms: int = Field(30_000, ge=1, description="Time for a batch of sentences to be embedded [ms]")
    tracing_timeout_ms: int = Field(
        5_000, ge=1, description="Time for the embedding measures of an arbitration, after its answer [ms]"
    )
    measure_max_body_bytes: int = Field(
        32 * 1024 * 1024, ge=1024, description="Largest request body on /v1/measurements and /v1/replays [bytes]"
    )
    measure_max_samples: int = Field(4_096, ge=1, description="Samples of one question that is measured or replayed")
