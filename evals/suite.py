"""The running suite: its four REST faces, asked as any client asks them."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from evals.router_client import Body, RouterClient
from kernel.values import value


@value
class Addresses:
    """Where the services are; REST faces."""

    router: str = "http://127.0.0.1:8080"
    assigner: str = "http://127.0.0.1:8081"
    arbiter: str = "http://127.0.0.1:8082"
    delegation: str = "http://127.0.0.1:8083"


_SHORTEST: Body = {"question": "Say yes.", "strategy": "system1", "fallback": False, "max_tokens": 1, "seed": 0}

_COUNTS = ("generations", "http_calls", "prompt_tokens", "completion_tokens")


class Faces:
    """Clients of all services; an async context manager. A service that is never asked need not run.

    Args:
        addresses: Where they are.
        key: API key; empty where none is asked for.
        timeout_s: Time that one request is given [s].
    """

    def __init__(self, addresses: Addresses, *, key: str = "", timeout_s: float) -> None:
        self._clients: Mapping[str, RouterClient] = {
            service: RouterClient(getattr(addresses, service), key=key, timeout_s=timeout_s, service=service)
            for service in ("router", "assigner", "arbiter", "delegation")
        }
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for client in self._clients.values():
            await self._open.enter_async_context(client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def post(self, service: str, path: str, body: Body) -> Body:
        """The reply of `service`; raises as `RouterClient.post` does."""
        return await self._clients[service].post(path, body)

    async def get(self, service: str, path: str) -> Body:
        """The reply of `service` to a question without a body."""
        return await self._clients[service].get(path)


@value
class RoutingFacts:
    """What a router is, as runs are headed by it.

    Attributes:
        suite: Its model, configuration, threshold and weights.
        spent: What telling its model has cost.
    """

    suite: Mapping[str, object]
    spent: Body


async def routing_facts(faces: Faces) -> RoutingFacts:
    """The router's configuration in force, by a decision that needs no model; and its model, by an answer of one token.

    Raises:
        RouterAway: When it, or the model behind it, cannot be asked.
    """
    state = {"correctness": 0.5, "experience": 0.5, "conflict": 0.5, "importance": 0.5}
    told = await faces.post("router", "/v1/route", {"msv": state})
    activation = told["activation"]
    run = (await faces.post("router", "/v1/answers", dict(_SHORTEST)))["run"]
    suite = {
        "model": run["model"],
        "config_version": told["config_version"],
        "threshold": activation["threshold"],
        "weights": activation["weights"],
    }
    return RoutingFacts(suite=suite, spent={name: run["usage"][name] for name in _COUNTS})
