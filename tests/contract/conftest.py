"""Router, assigner and arbiter over fakes, delegation as it is, each called through REST and through gRPC."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from services.assigner.compose import CONTRACT as ASSIGNER
from services.delegation.compose import CONTRACT as DELEGATION
from services.router.compose import compose
from tests.contract.arbiter_fakes import fake_arbiter
from tests.contract.fakes import assigner_parts, router_parts
from tests.support.apis import Api, RestApi, RpcApi, Running
from tests.support.arbiter import ARBITER
from tests.support.assigner import assigner_of
from tests.support.stack import ROUTER, process, router_settings, served


@dataclass(frozen=True)
class Served:
    """A service with its contract and both APIs."""

    contract: ServiceDescriptor
    running: Running

    @property
    def rest(self) -> RestApi:
        """Its REST API."""
        return RestApi(self.running.rest, self.contract)

    @property
    def rpc(self) -> RpcApi:
        """Its gRPC API."""
        return RpcApi(self.running.grpc, self.contract)

    def api(self, name: str) -> Api:
        """The API called `name`."""
        return self.rest if name == "rest" else self.rpc


@pytest.fixture(scope="session")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Served]]:
    """All four services, by name."""
    async with AsyncExitStack() as stack:
        yield {
            "router": Served(ROUTER, await stack.enter_async_context(_router(tmp_path_factory.mktemp("router")))),
            "assigner": Served(ASSIGNER, await stack.enter_async_context(assigner_of(assigner_parts()))),
            "arbiter": Served(ARBITER, await stack.enter_async_context(fake_arbiter())),
            "delegation": Served(DELEGATION, await _process(stack, "delegation", METACOG_INFERENCE_MODEL="nobody")),
        }


def _router(home: Path) -> AbstractAsyncContextManager[Running]:
    return served(compose(router_settings(), router_parts(home)))


async def _process(stack: AsyncExitStack, name: str, **settings: object) -> Running:
    started = await stack.enter_async_context(process(name, **settings))
    return Running(rest=started.rest, grpc=started.grpc)


@pytest.fixture(params=["rest", "rpc"])
def api(request: pytest.FixtureRequest) -> str:
    """Each API in turn; one test body holds for both."""
    name: str = request.param
    return name


@pytest.fixture
def router(services: dict[str, Served], api: str) -> Api:
    """The router, by one of its APIs."""
    return services["router"].api(api)


@pytest.fixture
def assigner(services: dict[str, Served], api: str) -> Api:
    """The assigner, by one of its APIs."""
    return services["assigner"].api(api)


@pytest.fixture
def arbiter(services: dict[str, Served], api: str) -> Api:
    """The arbiter, by one of its APIs."""
    return services["arbiter"].api(api)
