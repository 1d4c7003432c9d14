"""The settings of the embedded suite: environment variables, which the command line overrides."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from configuration.services import GRPC_PORTS, REST_PORTS, SERVICES
from embedded.errors import SuiteError
from embedded.llm import default_threads
from embedded.vllm import VllmSettings, read_vllm

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PORTS = {
    **{
        f"METACOG_{name.upper()}_{api}_PORT": ports[name]
        for name in SERVICES
        for api, ports in (("REST", REST_PORTS), ("GRPC", GRPC_PORTS))
    },
    "METACOG_CONSOLE_PORT": 8090,
    "METACOG_INFERENCE_PORT": 8000,
    "METACOG_ENCODER_PORT": 8001,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of the `up` command; each overrides its variable.

    Args:
        inference_url: Base URL of an OpenAI-compatible server; with it the suite starts no model server.
        inference_model: Name of the model in requests.
        backend: Model server that the suite starts without `inference_url`: `llamacpp` or `vllm`.
        model: GGUF file for llama.cpp instead of the small model; name or folder of a model for vLLM.
        threads: Threads of llama.cpp.
        models: Catalogue of models (models.yaml), whose servers are used instead of one that the suite starts.
    """

    inference_url: str | None = None
    inference_model: str | None = None
    models: str | None = None
    backend: str = "llamacpp"
    model: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """The settings of one suite; `None` for an address means that the suite starts that part itself.

    Args:
        home: Folder of models, data, logs and pid files.
        ports: Port of each setting in `DEFAULT_PORTS`.
        database_url: SQLAlchemy URL of a PostgreSQL with pgvector.
        encoder_url: Base URL of an OpenAI-compatible embeddings server.
        inference_url: Base URL of an OpenAI-compatible model server.
        inference_model: Name of the model in requests.
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
    vllm: VllmSettings | None = None
    model: Path | None = None
    threads: int = 1

    @property
    def starts_model_server(self) -> bool:
        """Return whether the suite starts a model server: neither a server nor a catalogue of models is named."""
        return self.inference_url is None and MODELS_FILE not in self.files


MODELS_FILE = "METACOG_MODELS_FILE"


def home_path(environment: Mapping[str, str]) -> Path:
    """Return the home of the suite: METACOG_HOME, or `.metacog` in the repository."""
    return Path(environment.get("METACOG_HOME") or ROOT / ".metacog").expanduser().absolute()


def read_settings(environment: Mapping[str, str], up_options: UpOptions = UpOptions()) -> SuiteSettings:
    """Return the settings of the suite.

    Raises:
        SuiteError: A port is invalid, or two settings exclude each other.
    """
    if up_options.models:
        environment = {**environment, MODELS_FILE: up_options.models}
    models = environment.get(MODELS_FILE)
    if models and (up_options.model or up_options.backend == "vllm" or up_options.inference_url):
        raise SuiteError(
            f"{MODELS_FILE} (--models) lists the models; leave out --inference-url, --backend and --model",
            setting=MODELS_FILE,
        )
    url = up_options.inference_url or environment.get("METACOG_INFERENCE_URL") or None
    if url and (up_options.model or up_options.backend == "vllm"):
        raise SuiteError("--model and --backend start a model server, --inference-url uses another; give one of them")
    vllm = read_vllm(environment, up_options.model) if up_options.backend == "vllm" else None
    return SuiteSettings(
        home=home_path(environment),
        ports={name: _port(name, environment.get(name), usual) for name, usual in DEFAULT_PORTS.items()},
        database_url=environment.get("METACOG_DATABASE_URL") or None,
        encoder_url=environment.get("METACOG_ENCODER_URL") or None,
        inference_url=url.rstrip("/") if url else None,
        inference_model=up_options.inference_model or environment.get("METACOG_INFERENCE_MODEL") or None,
        inference_key=environment.get("METACOG_INFERENCE_API_KEY") or None,
        files=_files(environment),
        vllm=vllm,
        model=Path(up_options.model).expanduser().absolute() if up_options.model and vllm is None else None,
        threads=up_options.threads or default_threads(),
    )


def _files(environment: Mapping[str, str]) -> dict[str, str]:
    """Return every METACOG_..._FILE as an absolute path: the parts run in another folder than the user's."""
    named = {name: text for name, text in environment.items() if name.startswith("METACOG_") and name.endswith("_FILE")}
    return {name: str(Path(text).expanduser().absolute()) for name, text in named.items() if text}


def _port(name: str, text: str | None, usual: int) -> int:
    """Return the port number in `text`, or `usual` if `text` is empty.

    Raises:
        SuiteError: `text` is not a port number.
    """
    if not text:
        return usual
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise SuiteError(f"{name} is {text!r}; a port is a number from 1 to 65535", setting=name, value=text)
    return int(text)


def from_environment(up_options: UpOptions = UpOptions()) -> SuiteSettings:
    """Return the settings of the suite from this process's environment."""
    return read_settings(os.environ, up_options)
