"""What a user may set of the embedded suite: environment first, then the command line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from embedded.errors import SuiteError
from embedded.llm import default_threads
from embedded.vllm import VllmWish, read_vllm

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PORTS = {
    "METACOG_ROUTER_REST_PORT": 8080,
    "METACOG_ROUTER_GRPC_PORT": 50051,
    "METACOG_ASSIGNER_REST_PORT": 8081,
    "METACOG_ASSIGNER_GRPC_PORT": 50052,
    "METACOG_ARBITER_REST_PORT": 8082,
    "METACOG_ARBITER_GRPC_PORT": 50053,
    "METACOG_DELEGATION_REST_PORT": 8083,
    "METACOG_DELEGATION_GRPC_PORT": 50054,
    "METACOG_CONSOLE_PORT": 8090,
    "METACOG_INFERENCE_PORT": 8000,
    "METACOG_ENCODER_PORT": 8001,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line of `up` may say; each wins over its variable.

    Args:
        inference_url: Base URL of an OpenAI-compatible server; no model server is started then.
        inference_model: Name of the model to ask for.
        backend: What serves the model where no server is named: `llamacpp` or `vllm`.
        model: GGUF file for llama.cpp instead of the small model; name or folder of a model for vLLM.
        threads: Threads of llama.cpp.
    """

    inference_url: str | None = None
    inference_model: str | None = None
    backend: str = "llamacpp"
    model: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """The suite as it is to run; `None` for an address means that the suite starts that part itself.

    Args:
        home: Folder of models, data, logs and pid files.
        ports: Port of each setting in `DEFAULT_PORTS`.
        database_url: SQLAlchemy URL of a PostgreSQL with pgvector.
        encoder_url: Base URL of an OpenAI-compatible embeddings server.
        inference_url: Base URL of an OpenAI-compatible model server.
        inference_model: Name of the model to ask for.
        inference_key: Key of the model server.
        files: Absolute path of each METACOG_..._FILE that is set.
        vllm: vLLM instead of llama.cpp.
        model: GGUF file for llama.cpp, instead of the small model.
        threads: Threads of llama.cpp.
    """

    home: Path
    ports: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_PORTS))
    database_url: str | None = None
    encoder_url: str | None = None
    inference_url: str | None = None
    inference_model: str | None = None
    inference_key: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    vllm: VllmWish | None = None
    model: Path | None = None
    threads: int = 1


def home_path(environment: Mapping[str, str]) -> Path:
    """Home of the suite: METACOG_HOME, or `.metacog` in the repository."""
    return Path(environment.get("METACOG_HOME") or ROOT / ".metacog").expanduser().absolute()


def read_settings(environment: Mapping[str, str], wishes: Wishes = Wishes()) -> SuiteSettings:
    """Settings of the suite.

    Raises:
        SuiteError: A port is no port, or two settings exclude each other.
    """
    url = wishes.inference_url or environment.get("METACOG_INFERENCE_URL") or None
    if url and (wishes.model or wishes.backend == "vllm"):
        raise SuiteError("--model and --backend start a model server, --inference-url names another; give one of them")
    vllm = read_vllm(environment, wishes.model) if wishes.backend == "vllm" else None
    return SuiteSettings(
        home=home_path(environment),
        ports={name: _port(name, environment.get(name), usual) for name, usual in DEFAULT_PORTS.items()},
        database_url=environment.get("METACOG_DATABASE_URL") or None,
        encoder_url=environment.get("METACOG_ENCODER_URL") or None,
        inference_url=url.rstrip("/") if url else None,
        inference_model=wishes.inference_model or environment.get("METACOG_INFERENCE_MODEL") or None,
        inference_key=environment.get("METACOG_INFERENCE_API_KEY") or None,
        files=_files(environment),
        vllm=vllm,
        model=Path(wishes.model).expanduser().absolute() if wishes.model and vllm is None else None,
        threads=wishes.threads or default_threads(),
    )


def _files(environment: Mapping[str, str]) -> dict[str, str]:
    """Every METACOG_..._FILE as an absolute path: the parts run in another folder than the user is in."""
    named = {name: text for name, text in environment.items() if name.startswith("METACOG_") and name.endswith("_FILE")}
    return {name: str(Path(text).expanduser().absolute()) for name, text in named.items() if text}


def _port(name: str, text: str | None, usual: int) -> int:
    """Port number in `text`, or `usual` where nothing is set.

    Raises:
        SuiteError: `text` is no port.
    """
    if not text:
        return usual
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise SuiteError(f"{name} is {text!r}; a port is a number from 1 to 65535", setting=name, value=text)
    return int(text)


def from_environment(wishes: Wishes = Wishes()) -> SuiteSettings:
    """Settings of the suite from this process's environment."""
    return read_settings(os.environ, wishes)
