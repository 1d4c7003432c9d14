"""Models are configured in `models.yaml`, the one place for endpoints, keys, prices and features.

All services read it, check it with line numbers, and read it again when it changes. Without a file there is one model,
from the settings `METACOG_INFERENCE_...`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import Field

from chassis.errors import ConfigurationInvalid
from configuration.agents import AgentConfig
from configuration.yaml_file import Number, WatchedFile, YamlFile, file_stamp
from kernel.prices import LARGEST_AMOUNT, Price
from kernel.values import value

# Models of one file, endpoints and other names of one model, and characters of a name [count].
MOST_MODELS, MOST_ENDPOINTS, MOST_ALIASES, LONGEST_NAME = 200, 32, 16, 200
# The names of the router's own models begin with it.
OWN_NAME = "metacog"
FROM_SETTINGS = "settings"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")

Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Amount = Annotated[Number, Field(ge=0, le=LARGEST_AMOUNT)]
Work = Literal["ASSESS", "SYSTEM_ONE", "STAGE"]


@value
class ModelEndpoint:
    """A model endpoint is one OpenAI-compatible server of a model.

    Attributes:
        url: http(s) URL, with its /v1.
        weight: Share of the requests, in proportion to the other endpoints'.
        api_key_env: Environment variable that holds its key; empty: none.
        api_key_file: File that holds its key; empty: none.
    """

    url: str
    weight: Annotated[Number, Field(gt=0, le=1000)] = 1.0
    api_key_env: str = ""
    api_key_file: str = ""


@value
class ModelPrice:
    """A model price is what a million tokens cost, in one currency for all models."""

    prompt: Amount
    completion: Amount


@value
class ModelPool:
    """A model pool bounds one kind of work on one model.

    Attributes:
        in_flight: Requests at a time [count].
        queue: Requests that may wait [count].
    """

    in_flight: Count
    queue: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1024


@value
class ModelFeatures:
    """Model features state what a model can do; what is left out is detected when it is first used.

    Attributes:
        tools: Whether it calls tools.
        images: Whether it reads images.
        schema: Whether it follows a JSON schema.
        logprobs: Whether it reports log-probabilities.
        samples_per_call: Largest `n` of one request [count].
    """

    tools: bool | None = None
    images: bool | None = None
    schema: bool | None = None
    logprobs: bool | None = None
    samples_per_call: Count | None = None


@value
class ModelConfig:
    """A model configuration states where a model is served and how it may be used.

    Attributes:
        name: Name by which clients, agents and policies name it.
        endpoints: Its servers; several are replicas of each other.
        served_as: Name by which its servers know it; empty: the same.
        aliases: Further names for it.
        context_tokens: Its context [tokens]; None: as its servers list it.
        features: What it can do.
        price: What its tokens cost; None: unknown.
        pools: Bounds by kind of work.
        priorities: vLLM's request priority by kind of work (lower goes first); left out: none is sent.
        thinking_on: Fields of a request that switch a thinking model's reasoning on; None: the client's default.
        thinking_off: The same for off.
    """

    name: Name
    endpoints: Annotated[Sequence[ModelEndpoint], Field(min_length=1, max_length=MOST_ENDPOINTS)]
    served_as: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    aliases: Annotated[Sequence[Name], Field(max_length=MOST_ALIASES)] = ()
    context_tokens: Count | None = None
    features: ModelFeatures = field(default_factory=ModelFeatures)
    price: ModelPrice | None = None
    pools: Mapping[Work, ModelPool] = field(default_factory=dict)
    priorities: Mapping[Work, int] = field(default_factory=dict)
    thinking_on: Mapping[str, object] | None = None
    thinking_off: Mapping[str, object] | None = None

    @property
    def served_name(self) -> str:
        """Return the name by which its servers know it."""
        return self.served_as or self.name

    @property
    def tariff(self) -> Price | None:
        """Return its price as the kernel counts with it; None where it is unknown."""
        return None if self.price is None else Price(prompt=self.price.prompt, completion=self.price.completion)


@value
class ModelsFile:
    """The models file lists the models; `default` is the name of System 1's, the first where it is left out."""

    models: Annotated[Sequence[ModelConfig], Field(max_length=MOST_MODELS)]
    default: str = ""


@value
class ModelCatalogue:
    """A catalogue holds the models of one version of the file.

    Attributes:
        version: Digest of its content; `settings` where there is no file.
        models: The models, the default one first.
        names_closed: Whether a model must be listed to be used; without a file, any model of the one server may be.
    """

    version: str
    models: Sequence[ModelConfig]
    names_closed: bool = True

    def key_stamps(self) -> Sequence[tuple[int, int]]:
        """Return numbers that are others when a file with a key has changed."""
        endpoints = (endpoint for model in self.models for endpoint in model.endpoints)
        return [file_stamp(Path(endpoint.api_key_file)) for endpoint in endpoints if endpoint.api_key_file]

    @property
    def default(self) -> ModelConfig:
        """Return the model of System 1."""
        return self.models[0]

    def named(self, name: str) -> ModelConfig | None:
        """Return the model of this name or alias; the default one for an empty name; None where there is none."""
        if not name:
            return self.default
        return next((model for model in self.models if name == model.name or name in model.aliases), None)


class Models(WatchedFile[ModelCatalogue]):
    """The models are read again when their file changes; while it is invalid, the last valid ones stay in use.

    Args:
        path: The file.

    Raises:
        ConfigurationInvalid: When the file cannot be used at start; names the line and the reason.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_models, "models")


def read_models(path: Path, *, environment: Callable[[str], str | None] | None = os.environ.get) -> ModelCatalogue:
    """Return the catalogue of the file at `path`.

    Args:
        path: The file.
        environment: Returns an environment variable, to check that each key is there; None: keys are not checked.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, ModelsFile)
    listed = file.content.models
    if not listed:
        raise file.error_at(["models"], "models: at least one model is needed")
    taken: dict[str, int] = {}
    for place, model in enumerate(listed):
        for name in (model.name, *model.aliases):
            if problem := _name_problem(name, taken):
                raise file.error_at(["models", place, "name"], f"models.{place}: {problem}")
            taken[name] = place
        for number, endpoint in enumerate(model.endpoints):
            if problem := _endpoint_problem(endpoint, environment):
                steps: list[str | int] = ["models", place, "endpoints", number]
                raise file.error_at(steps, f"models.{place}.endpoints.{number}: {problem}")
    default = file.content.default
    if default and default not in taken:
        raise file.error_at(["default"], f"default: {default!r} is no model of this file; there are {', '.join(taken)}")
    first = taken[default] if default else 0
    ordered = (listed[first], *listed[:first], *listed[first + 1 :])
    digest = sha256(orjson.dumps([asdict(model) for model in ordered], option=orjson.OPT_SORT_KEYS)).hexdigest()
    return ModelCatalogue(version=digest[:12], models=ordered)


def key_of(endpoint: ModelEndpoint, environment: Callable[[str], str | None] = os.environ.get) -> str | None:
    """Return the key of `endpoint`; None where it needs none.

    Raises:
        ConfigurationInvalid: When the variable or the file with the key is not there, or is empty.
    """
    if problem := _endpoint_problem(endpoint, environment):
        raise ConfigurationInvalid(f"endpoint {endpoint.url}: {problem}", problem=problem)
    if endpoint.api_key_file:
        return Path(endpoint.api_key_file).read_text().strip()
    return environment(endpoint.api_key_env) if endpoint.api_key_env else None


def unlisted_model(agents: Sequence[AgentConfig], catalogue: ModelCatalogue) -> str:
    """Return the problem of the first agent whose model is not in the catalogue; empty where there is none.

    Args:
        agents: The agents.
        catalogue: The models.
    """
    if not catalogue.names_closed:
        return ""
    known = ", ".join(model.name for model in catalogue.models)
    return next(
        (
            f"model {agent.model!r} of agent {agent.id!r} is not in models.yaml; there are {known}"
            for agent in agents
            if catalogue.named(agent.model) is None
        ),
        "",
    )


def _name_problem(name: str, taken: Mapping[str, int]) -> str:
    if not _NAME.fullmatch(name):
        return f"name {name!r} must be letters, digits and . _ : / @ + -, and begin with a letter or digit"
    if name == OWN_NAME or name.startswith((f"{OWN_NAME}/", f"{OWN_NAME}-")):
        return f"name {name!r} is one of the router's own models"
    return f"name {name!r} is used twice" if name in taken else ""


def _endpoint_problem(endpoint: ModelEndpoint, environment: Callable[[str], str | None] | None) -> str:
    parts = urlsplit(endpoint.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"url: {endpoint.url!r} must be an http or https URL, such as http://127.0.0.1:8000/v1"
    if parts.username or parts.password:
        return "url: it holds a user or password; give the key by api_key_env or api_key_file"
    if endpoint.api_key_env and endpoint.api_key_file:
        return "api_key_env and api_key_file: give one of them"
    if environment is None:
        return ""
    if endpoint.api_key_env and not environment(endpoint.api_key_env):
        return f"api_key_env: the environment variable {endpoint.api_key_env} is not set"
    return _key_file_problem(endpoint.api_key_file) if endpoint.api_key_file else ""


def _key_file_problem(name: str) -> str:
    try:
        return "" if Path(name).read_text().strip() else f"api_key_file: {name} is empty"
    except (OSError, ValueError) as error:
        return f"api_key_file: {name} cannot be read: {error}"
