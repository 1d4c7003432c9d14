"""The running suite: its four REST APIs, called as any client calls them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

from configuration.services import REST_PORTS, SERVICES
from evals.router_client import Body, RouterClient
from kernel.values import value


@value
class Addresses:
    """Addresses of the services' REST APIs."""

    router: str = f"http://127.0.0.1:{REST_PORTS['router']}"
    assigner: str = f"http://127.0.0.1:{REST_PORTS['assigner']}"
    arbiter: str = f"http://127.0.0.1:{REST_PORTS['arbiter']}"
    delegation: str = f"http://127.0.0.1:{REST_PORTS['delegation']}"


Post = Callable[[str, Body], Awaitable[Body]]
"""Posts a body to a path of the router."""

_SHORTEST: Body = {"question": "Say yes.", "strategy": "system1", "fallback": False, "max_tokens": 1, "seed": 0}

_COUNTS = ("generations", "http_calls", "prompt_tokens", "completion_tokens")


class SuiteClient:
    """Clients of all services; an async context manager. A service that gets no request need not run.

    Args:
        addresses: Their addresses.
        key: API key; empty where none is required.
        timeout_s: Time that one request is given [s].
    """

    def __init__(self, addresses: Addresses, *, key: str = "", timeout_s: float) -> None:
        self._clients: Mapping[str, RouterClient] = {
            service: RouterClient(getattr(addresses, service), key=key, timeout_s=timeout_s, service=service)
            for service in SERVICES
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
        """Return the reply of `service`; raises as `RouterClient.post` does."""
        return await self._clients[service].post(path, body)

    async def get(self, service: str, path: str) -> Body:
        """Return the reply of `service` to a request without a body."""
        return await self._clients[service].get(path)


@value
class RoutingFacts:
    """The facts that a router reports of itself, for the heading of a run.

    Attributes:
        suite: Its model, configuration, threshold and weights.
        spent: What the request for its model has cost.
    """

    suite: Mapping[str, object]
    spent: Body


async def routing_facts(suite: SuiteClient) -> RoutingFacts:
    """The router's configuration in force, by a decision that needs no model; and its model, by an answer of one token.

    Raises:
        ServiceUnreachable: When it, or the model behind it, cannot be reached.
    """
    configuration = await configuration_in_force(partial(suite.post, "router"))
    run = (await suite.post("router", "/v1/answers", dict(_SHORTEST)))["run"]
    facts = {"model": run["model"], **configuration}
    return RoutingFacts(suite=facts, spent={name: run["usage"][name] for name in _COUNTS})


async def configuration_in_force(post: Post) -> Mapping[str, object]:
    """The router's configuration in force, by a decision that needs no model: version, threshold and weights.

    Raises:
        ServiceUnreachable: When the router cannot be reached.
    """
    state = {"correctness": 0.5, "experience": 0.5, "conflict": 0.5, "importance": 0.5}
    decision = await post("/v1/route", {"msv": state})
    activation = decision["activation"]
    return {
        "config_version": decision["config_version"],
        "threshold": activation["threshold"],
        "weights": activation["weights"],
    }
