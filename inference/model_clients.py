"""This module gives each agent a client of the model that it uses.

`ModelClient` and `ModelClients` are what services depend on; tests pass in doubles of them.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

from configuration.agents import AgentConfig
from inference.backend_client import Backend
from inference.config import BackendConfig
from inference.spend import Spend
from inference.streaming.sample_stream import SampleStream
from inference.values import Call, Completion, Delta, Structured
from kernel.envelope import StageUsage
from kernel.msv.ratings import ORDER, read_rating
from kernel.prices import Price, Prices, price_of

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

    async def rate(self, call: Call, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""


class ModelClients(Protocol):
    """A process has one model client for each agent."""

    def of(self, agent: AgentConfig) -> ModelClient:
        """Return the client of `agent`."""

    def assessor(self) -> ModelClient:
        """Return the client of the model that rates all texts."""


class BackendModelClient:
    """The client calls one backend, as the agents of one model do."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.model = backend.config.model
        self.price = backend.config.price

    async def stream(self, call: Call, spend: Spend) -> SampleStream:
        """Return the stream of the one sample of `call`, to be entered or closed."""
        return await self._backend.stream(call, spend)

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of `call`."""
        return await self._backend.complete(call, spend)

    async def rate(self, call: Call, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""
        return await self.read(call, partial(read_rating, order=order), spend)

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""
        return (await self.structured(call, parse, spend)).values[0]

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""
        return await self._backend.complete_json(call, parse, spend)


class BackendModelClients:
    """The backends of a process are built when first used, one for each server and model.

    Args:
        default: Backend of agents that name no server or model, and of the assessor.
        build: Builds a backend from its configuration.
        prices: Prices by model.
    """

    def __init__(
        self, default: Backend, build: Callable[[BackendConfig], Backend], prices: Prices = MappingProxyType({})
    ) -> None:
        self.default = default
        self._build = build
        self._prices = prices
        self._backends: dict[tuple[str, str], Backend] = {
            (default.config.base_url, default.config.model): default,
        }

    def of(self, agent: AgentConfig) -> BackendModelClient:
        """Return the client of `agent`."""
        base = self.default.config
        server_and_model = (agent.base_url or base.base_url, agent.model or base.model)
        if server_and_model not in self._backends:
            config = BackendConfig(
                name=f"{server_and_model[1]}@{server_and_model[0]}",
                base_url=server_and_model[0],
                model=server_and_model[1],
                api_key=self._key(agent),
                price=price_of(server_and_model[1], self._prices),
            )
            self._backends[server_and_model] = self._build(config)
        return BackendModelClient(self._backends[server_and_model])

    def _key(self, agent: AgentConfig) -> str | None:
        """Return the key for the agent's server; another server never gets the default server's key."""
        if agent.api_key_env:
            return os.environ.get(agent.api_key_env)
        base = self.default.config
        return base.api_key if agent.base_url in ("", base.base_url) else None

    def assessor(self) -> BackendModelClient:
        """Return the client of the model that rates all texts."""
        return BackendModelClient(self.default)

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.aclose()
