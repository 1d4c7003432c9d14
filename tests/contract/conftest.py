"""Router, assigner and arbiter over fakes, delegation as it is, each called through REST and through gRPC."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor
from metacog.assigner.v1 import assigner_pb2_grpc

from chassis.serving.auth import Keyring
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from chassis.serving.server import grpc_server
from services.assigner import rest as assigner_rest
from services.assigner import rpc as assigner_rpc
from services.assigner.service.assign import assign
from services.delegation.compose import CONTRACT as DELEGATION
from services.router.compose import compose
from tests.contract.arbiter_fakes import fake_arbiter
from tests.contract.fakes import fake_deliberate, router_parts
from tests.support.apis import Api, RestApi, RpcApi, Running, serving
from tests.support.arbiter import ARBITER
from tests.support.stack import ASSIGNER, MAX_BODY_BYTES, ROUTER, process, router_settings, served


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
            "assigner": Served(ASSIGNER, await stack.enter_async_context(_assigner())),
            "arbiter": Served(ARBITER, await stack.enter_async_context(fake_arbiter())),
            "delegation": Served(DELEGATION, await _process(stack, "delegation", METACOG_INFERENCE_MODEL="nobody")),
        }


def _router(home: Path) -> AbstractAsyncContextManager[Running]:
    return served(compose(router_settings(), router_parts(home)))


def _assigner() -> AbstractAsyncContextManager[Running]:
    discuss = fake_deliberate()
    app = build_app("assigner", health=Health({}), keyring=Keyring(), max_body_bytes=MAX_BODY_BYTES)
    assigner_rest.add_paths(app, assign=assign, deliberate=discuss)
    server = grpc_server(Keyring())
    servicer = assigner_rpc.Servicer(assign=assign, deliberate=discuss)
    assigner_pb2_grpc.add_AssignerServiceServicer_to_server(servicer, server)
    return serving(app, server)


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
