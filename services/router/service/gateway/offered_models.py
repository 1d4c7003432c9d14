"""The gateway offers models: its own names of strategies, and those of the catalogue or of the one server."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from inference import BackendModelClients
from kernel.errors import MetacogError
from services.router.service.gateway.chat_request import MODELS


class OfferedModels:
    """These models are offered beside the gateway's own: those of the catalogue, or those that the one server lists.

    Args:
        models: The models of the process.
        aliases: Names that stand for other models.
    """

    def __init__(self, models: BackendModelClients, aliases: Mapping[str, str]) -> None:
        self._models = models
        self._aliases = aliases

    async def names(self) -> Sequence[str]:
        """Return the names of all models, aliases among them."""
        return list(await self.described())

    async def described(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of all models by name: a model with its price, an alias with the model it stands for."""
        snapshot = self._models.latest()
        listed: dict[str, Mapping[str, Any]] = {}
        for model in snapshot.catalogue.models:
            price = snapshot.backends[model.name].config.price
            listed[model.name] = {"kind": "model", "price": None if price is None else asdict(price)}
            listed |= {alias: {"kind": "alias", "model": model.name} for alias in model.aliases}
        if not snapshot.catalogue.names_closed:
            with suppress(MetacogError):  # a server that is away lists nothing
                for served in await snapshot.default.models():
                    listed.setdefault(served.id, {"kind": "model", "price": None})
                    for alias in served.aliases:
                        listed.setdefault(alias, {"kind": "alias", "model": served.id})
        return listed

    async def answering(self, name: str) -> Sequence[str]:
        """Return the models that a request for `name` may mean: none where it is one of the gateway's own."""
        named = self._aliases.get(name, name)
        if named in MODELS:
            return ()
        default = self._models.latest().catalogue.default.name
        return (default,) if named == default else await self.names()
