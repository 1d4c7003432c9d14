"""Who speaks for whom: one inference backend per server and model, shared by all agents on it."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from chassis.agents import AgentConfig
from chassis.inference.client import Backend
from chassis.inference.config import BackendConfig
from chassis.inference.streaming import Streamed
from chassis.inference.values import Call, Completion, Structured
from chassis.spend import Spend
from kernel.prices import Prices, price_of
from kernel.ratings import ORDER, read_rating

T = TypeVar("T")

DEFAULT_AGENTS_FILE = Path(__file__).parents[1] / "config" / "agents.yaml"


class Voice:
    """A backend as one agent uses it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.model = backend.config.model
        self.price = backend.config.price

    async def stream(self, call: Call, spend: Spend) -> Streamed:
        """The text of one call, as it is generated; to be entered or closed."""
        return await self._backend.stream(call, spend)

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of one call."""
        return await self._backend.complete(call, spend)

    async def rate(self, call: Call, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """The numbers of one structured rating, by the names of `order`."""
        return await self.read(call, partial(read_rating, order=order), spend)

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """The document of one call that follows its schema, as `parse` reads it."""
        return (await self.structured(call, parse, spend)).values[0]

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """The documents of one call that follow its schema, as `parse` reads them, with what they cost."""
        return await self._backend.complete_json(call, parse, spend)


class Voices:
    """All backends of a process, by server and model.

    Args:
        default: Backend of agents that name no server or model, and of the assessor.
        build: Makes a backend of its configuration.
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

    def of(self, agent: AgentConfig) -> Voice:
        """Voice of `agent`."""
        base = self.default.config
        place = (agent.base_url or base.base_url, agent.model or base.model)
        if place not in self._backends:
            config = BackendConfig(
                name=f"{place[1]}@{place[0]}",
                base_url=place[0],
                model=place[1],
                api_key=self._key(agent),
                price=price_of(place[1], self._prices),
            )
            self._backends[place] = self._build(config)
        return Voice(self._backends[place])

    def _key(self, agent: AgentConfig) -> str | None:
        """Key for the agent's server; the default server's key is never shown to another one."""
        if agent.api_key_env:
            return os.environ.get(agent.api_key_env)
        base = self.default.config
        return base.api_key if agent.base_url in ("", base.base_url) else None

    def assessor(self) -> Voice:
        """Voice that judges all texts alike."""
        return Voice(self.default)

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.aclose()
