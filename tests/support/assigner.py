"""An assigner for tests, composed in this process on models of the test's choice.

async with assigner_at(scripted, agents) as running:
    api = RpcFace(running.grpc, ASSIGNER)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from chassis.calls.records import CallRecords
from chassis.serving.auth import Keyring
from chassis.serving.health import Health
from chassis.serving.peer import Peer
from chassis.serving.server import closing
from configuration.agents import DEFAULT_AGENTS_FILE, AgentConfig, read_agents
from configuration.models import ModelCatalogue, ModelConfig, ModelEndpoint, ModelPrice
from inference import BackendModelClients, backend_config, build_backend
from kernel.envelope import DEFAULT_CEILINGS, Ceilings
from kernel.msv.affect import vader
from kernel.prices import Price, Prices, price_of
from services.assigner.compose import Parts, compose
from services.assigner.settings import Settings
from tests.support.apis import Running, serving

NO_PRICES: Prices = MappingProxyType({})
NO_OTHERS: Mapping[str, Any] = MappingProxyType({})
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
SETTINGS = Settings.model_validate({"max_generations": 32, "max_generated_tokens": 8192, "timeout_ms": 60_000})


class ModelServer(Protocol):
    """An inference server: a scripted one, or a real one."""

    @property
    def url(self) -> str:
        """Return its URL, without `/v1`."""

    @property
    def model(self) -> str:
        """Return the name of its model."""


@asynccontextmanager
async def assigner_at(
    llm: ModelServer,
    agents: Sequence[AgentConfig] | None = None,
    *,
    keyring: Keyring | None = None,
    prices: Prices = NO_PRICES,
    others: Mapping[str, ModelServer] = NO_OTHERS,
    delegation: str = "",
    ceilings: Ceilings = DEFAULT_CEILINGS,
    records: CallRecords | None = None,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Running]:
    """An assigner on `llm` with both APIs; without `agents`, with those that ship; `others` are further models.

    With the gRPC address of a delegation service it asks that for the agents' experience.
    """
    clients = model_clients_of(llm, prices, others)
    configured = agents or read_agents(DEFAULT_AGENTS_FILE)
    peer = Peer("delegation", delegation) if delegation else None
    parts = Parts(
        model_clients=clients,
        agents=lambda: configured,
        affect=vader,
        close=partial(closing, clients.close, *([peer.close] if peer else [])),
        delegation=peer,
        keyring=keyring or Keyring(),
        ceilings=ceilings,
        records=records,
        health=Health({}, {"inference": clients.probe}),
    )
    async with assigner_of(parts, **settings) as running:
        yield running


@asynccontextmanager
async def assigner_of(parts: Parts, **settings: Any) -> AsyncIterator[Running]:  # noqa: ANN401
    """The assigner of `parts` with both APIs; `settings` replace those of the tests."""
    service = compose(SETTINGS.model_copy(update=settings), parts)
    service.start()
    async with serving(service.app, service.rpc) as running:
        yield running
    await service.close()


def model_clients_of(
    llm: ModelServer,
    prices: Prices = NO_PRICES,
    others: Mapping[str, ModelServer] = NO_OTHERS,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> BackendModelClients:
    """Model clients whose default is the model of `llm`.

    `others` are further models by name, and `aliases` are further names of models, with the model of each.
    """
    servers = {llm.model: llm, **others}
    models = tuple(
        ModelConfig(
            name=name,
            served_as=server.model,
            aliases=[alias for alias, named in aliases.items() if named == name],
            endpoints=(ModelEndpoint(url=server.url),),
            price=_price(price_of(name, prices)),
        )
        for name, server in servers.items()
    )
    catalogue = ModelCatalogue(version="tests", models=models)
    names = {llm.model: "default"}
    return BackendModelClients(
        lambda: catalogue,
        build_backend,
        lambda model: replace(backend_config(model), name=names.get(model.name, model.name)),
    )


def _price(price: Price | None) -> ModelPrice | None:
    return None if price is None else ModelPrice(prompt=price.prompt, completion=price.completion)
