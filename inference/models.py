"""The models of a process: a client for each, built from the catalogue and rebuilt where the catalogue changes."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from chassis.errors import ConfigurationInvalid
from configuration.agents import AgentConfig, Agents
from configuration.models import ModelCatalogue, ModelConfig, ModelFeatures, key_of, unlisted_model
from inference.backend_client import Backend
from inference.config import MAX_REPLY_BYTES, BackendConfig, Endpoint, PoolSize
from inference.errors import ModelNotFound
from inference.features import Features
from inference.sampling.ratings import CallInOrder, rated
from inference.spend import Spend
from inference.streaming.sample_stream import SampleStream
from inference.values import Call, Completion, Delta, Structured, WorkKind
from kernel.envelope import StageUsage
from kernel.msv.ratings import ORDER
from kernel.prices import Price

T = TypeVar("T")


class CompletionStream(Protocol):
    """A stream is iterated for the pieces of one sample; `aclose` ends it at any point."""

    @property
    def completion(self) -> Completion:
        """Return the whole sample and its cost, once the iteration has ended."""

    @property
    def usage(self) -> StageUsage:
        """Return what the stream has cost so far."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Return the pieces."""

    async def aclose(self) -> None:
        """Close the stream; the backend stops generating."""


class ModelClient(Protocol):
    """A model client calls the model of one agent.

    Every method raises `InferenceError`, or `BudgetExhausted` before anything is sent.
    """

    @property
    def model(self) -> str:
        """Return the name of the model."""

    @property
    def price(self) -> Price | None:
        """Return the price of the model's tokens; None where it is not known."""

    async def stream(self, call: Call, spend: Spend) -> CompletionStream:
        """Return the stream of the one sample of `call`, to be entered or closed."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of `call`."""

    async def rate(self, build: CallInOrder, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""


class ModelClients(Protocol):
    """A process has one model client for each agent."""

    def begin_run(self) -> None:
        """Use the models as they are now for everything that is done in this context, until the next `begin_run`."""

    def of(self, agent: AgentConfig) -> ModelClient:
        """Return the client of `agent`.

        Raises:
            ModelNotFound: When its model is not in the catalogue.
        """

    def assessor(self) -> ModelClient:
        """Return the client of the model that rates all texts."""


class BackendModelClient:
    """The client calls one backend, as the agents of one model do.

    Args:
        backend: Returns the backend; the one of the default model may be another for a later run.
    """

    def __init__(self, backend: Callable[[], Backend]) -> None:
        self._find = backend

    @property
    def _backend(self) -> Backend:
        return self._find()

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return self._backend.config.model

    @property
    def price(self) -> Price | None:
        """Return the price of the model's tokens; None where it is not known."""
        return self._backend.config.price

    async def stream(self, call: Call, spend: Spend) -> SampleStream:
        """Return the stream of the one sample of `call`, to be entered or closed."""
        return await self._backend.stream(call, spend)

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of `call`."""
        return await self._backend.complete(call, spend)

    async def rate(self, build: CallInOrder, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""
        return (await rated(self, build, order, spend)).values[0]

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""
        return (await self.structured(call, parse, spend)).values[0]

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""
        return await self._backend.complete_json(call, parse, spend)


# Backends that are kept of models beside those of the catalogue, where names are not closed [count].
MOST_UNLISTED = 256


class ModelSnapshot:
    """A snapshot holds the backends of one version of the catalogue.

    Args:
        catalogue: The models.
        backends: Backend by the name of its model.
        build: Builds the backend of a model that the catalogue does not list, where it may be used.
    """

    def __init__(
        self,
        catalogue: ModelCatalogue,
        backends: Mapping[str, Backend],
        build: Callable[[ModelConfig], Backend],
    ) -> None:
        self.catalogue = catalogue
        self.backends = backends
        self._build = build
        self._unlisted: OrderedDict[str, Backend] = OrderedDict()

    @property
    def default(self) -> Backend:
        """Return the backend of the default model."""
        return self.backends[self.catalogue.default.name]

    def catalogue_name(self, name: str) -> str:
        """Return the name in the catalogue of the model `name` (empty: the default); empty where no file lists it."""
        found = self.catalogue.named(name) if self.catalogue.names_closed else None
        return found.name if found is not None else ""

    def named(self, name: str) -> Backend:
        """Return the backend of the model `name`, or of the default model for an empty name.

        Of models that the catalogue does not list, the backends used last are kept; one that is dropped serves those
        calls that have it already, and the next call gets a new one.

        Raises:
            ModelNotFound: When the catalogue has no such model.
        """
        model = self.catalogue.named(name)
        if model is not None:
            return self.backends[model.name]
        if self.catalogue.names_closed:
            known = ", ".join(model.name for model in self.catalogue.models)
            raise ModelNotFound(
                f"the model {name!r} is not in models.yaml; there are {known}", model=name, served=known
            )
        if name not in self._unlisted:
            self._unlisted[name] = self._build(replace(self.catalogue.default, name=name, served_as="", price=None))
        self._unlisted.move_to_end(name)
        while len(self._unlisted) > MOST_UNLISTED:
            self._unlisted.popitem(last=False)
        return self._unlisted[name]


# The models of the run that a context belongs to, with those whose they are.
_OF_RUN: ContextVar["tuple[BackendModelClients, ModelSnapshot] | None"] = ContextVar("models_of_run", default=None)


class BackendModelClients:
    """The backends of a process follow the catalogue and the files with its keys.

    Those of unchanged models stay, with their pools and circuits.

    Args:
        catalogue: Returns the catalogue as it is now.
        build: Builds a backend from its configuration.
        config_of: Returns the configuration of the backend that serves a model.
        check_source: Returns if what the catalogue is read from can be used as it is now.

    Attributes:
        problem: Why the catalogue as it is now cannot be used; empty when it can.

    Raises:
        ConfigurationInvalid: When a key is missing at start.
    """

    def __init__(
        self,
        catalogue: Callable[[], ModelCatalogue],
        build: Callable[[BackendConfig], Backend],
        config_of: Callable[[ModelConfig], BackendConfig] | None = None,
        check_source: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._check_source = check_source
        self._build_backend = build
        self._config_of = config_of or backend_config
        # Backends that runs may still use: of an earlier catalogue, or of models that are not listed.
        self._others: WeakSet[Backend] = WeakSet()
        found = catalogue()
        self._keys = found.key_stamps()
        self._latest = self._snapshot(found, {})
        self.problem = ""

    def latest(self) -> ModelSnapshot:
        """Return the models as they are now; the last valid ones while they cannot be used."""
        catalogue = self._catalogue()
        keys = catalogue.key_stamps()
        if catalogue is not self._latest.catalogue or keys != self._keys:
            self._keys = keys
            try:
                self._latest, self.problem = self._snapshot(catalogue, self._latest.backends), ""
            except ConfigurationInvalid as error:
                self.problem = error.message
        return self._latest

    def begin_run(self) -> None:
        """Use the models as they are now for everything that is done in this context, until the next `begin_run`."""
        _OF_RUN.set((self, self.latest()))

    def current(self) -> ModelSnapshot:
        """Return the models of the run that this context belongs to; outside a run, as they are now."""
        of_run = _OF_RUN.get()
        return of_run[1] if of_run is not None and of_run[0] is self else self.latest()

    @property
    def default(self) -> Backend:
        """Return the backend of the default model."""
        return self.current().default

    def of(self, agent: AgentConfig) -> BackendModelClient:
        """Return the client of `agent`.

        Raises:
            ModelNotFound: When its model is not in the catalogue.
        """
        return self.named(agent.model)

    def named(self, name: str) -> BackendModelClient:
        """Return the client of the model `name`, or of the default model for an empty name.

        Raises:
            ModelNotFound: When it is not in the catalogue.
        """
        backend = self.current().named(name)
        return BackendModelClient(lambda: backend)

    def of_run(self, *names: str) -> Sequence[BackendModelClient]:
        """Return the models that a run may call: the default one, and those with these names.

        Raises:
            ModelNotFound: When one is not in the catalogue.
        """
        return [self.assessor(), *(self.named(name) for name in dict.fromkeys(names))]

    def assessor(self) -> BackendModelClient:
        """Return the client of the model that rates all texts."""
        return BackendModelClient(lambda: self.default)

    async def probe(self) -> None:
        """Check now that the backend of the default model is ready.

        Raises:
            InferenceError: As `Backend.probe`.
        """
        await self.latest().default.probe()

    async def check(self) -> None:
        """Return if the catalogue can be used as it is now.

        Raises:
            ConfigurationInvalid: While it cannot, and the last valid one is in use.
        """
        if self._check_source is not None:
            await self._check_source()
        self.latest()
        if self.problem:
            raise ConfigurationInvalid(f"{self.problem}; the models read before are in use")

    async def check_agents(self, agents: Agents) -> None:
        """Return if agents and models can be used together as they are now.

        Raises:
            ConfigurationInvalid: While one of their files is invalid, or an agent's model is not in the catalogue.
        """
        await agents.check()
        await self.check()
        if problem := unlisted_model(agents.current(), self.latest().catalogue):
            raise ConfigurationInvalid(problem, problem=problem)

    async def close(self) -> None:
        """Close every backend, those of earlier versions and of models that are not listed too."""
        for backend in (*self._latest.backends.values(), *self._others):
            await backend.aclose()

    def _snapshot(self, catalogue: ModelCatalogue, before: Mapping[str, Backend]) -> ModelSnapshot:
        configs = {model.name: self._config_of(model) for model in catalogue.models}
        kept = {name: before[name] for name, config in configs.items() if name in before}
        kept = {name: backend for name, backend in kept.items() if backend.config == configs[name]}
        backends = {name: kept.get(name) or self._build_backend(config) for name, config in configs.items()}
        self._others.update(backend for name, backend in before.items() if kept.get(name) is not backend)
        return ModelSnapshot(catalogue, backends, self._unlisted)

    def _unlisted(self, model: ModelConfig) -> Backend:
        backend = self._build_backend(self._config_of(model))
        self._others.add(backend)
        return backend


def backend_config(
    model: ModelConfig, *, max_tokens: int = 1024, max_reply_bytes: int = MAX_REPLY_BYTES
) -> BackendConfig:
    """Return the configuration of the backend that serves `model`.

    Args:
        model: The model.
        max_tokens: Tokens of a forwarded request that states none [count].
        max_reply_bytes: Bound on a reply, whole or streamed [bytes].

    Raises:
        ConfigurationInvalid: When a key is not there.
    """
    thinking: dict[str, Any] = {"thinking_on": model.thinking_on, "thinking_off": model.thinking_off}
    return BackendConfig(
        name=model.name,
        endpoints=tuple(
            Endpoint(url=endpoint.url, api_key=key_of(endpoint), weight=endpoint.weight) for endpoint in model.endpoints
        ),
        model=model.served_name,
        price=model.tariff,
        features=_features(model.features),
        pools={
            WorkKind(work): PoolSize(in_flight=pool.in_flight, queue=pool.queue) for work, pool in model.pools.items()
        },
        priorities={WorkKind(work): priority for work, priority in model.priorities.items()},
        context_tokens=model.context_tokens,
        default_max_tokens=max_tokens,
        max_reply_bytes=max_reply_bytes,
        **{name: switch for name, switch in thinking.items() if switch is not None},
    )


def _features(stated: ModelFeatures) -> Features:
    return Features(
        samples_per_call=stated.samples_per_call,
        logprobs=stated.logprobs,
        schema=stated.schema,
        tools=stated.tools,
        images=stated.images,
    )
