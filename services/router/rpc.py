"""gRPC face of the router."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from metacog.router.v1 import router_pb2 as pb
from metacog.router.v1 import router_pb2_grpc as pb_grpc

from chassis.auth import Keyring
from chassis.rpc import Context, caller
from chassis.wire import event_to_proto, from_proto, to_proto
from services.router.service.answer import Origin
from services.router.service.values import (
    AnswerRequest,
    AssessRequest,
    AssessResponse,
    Event,
    GetRunResponse,
    ListRunsRequest,
    ListRunsResponse,
    Passed,
    Relayed,
    RouteRequest,
    RouteResponse,
    Run,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """What the router can do."""

    assess: Callable[[AssessRequest], Awaitable[AssessResponse]]
    route: Callable[[RouteRequest], Awaitable[RouteResponse]]
    answer: Callable[..., AsyncGenerator[Event | Passed, None]]
    get_run: Callable[..., Awaitable[Run]]
    list_runs: Callable[..., Awaitable[ListRunsResponse]]


class Servicer(pb_grpc.RouterServiceServicer):
    """The router on gRPC."""

    def __init__(self, use: UseCases, keyring: Keyring) -> None:
        self._use = use
        self._keyring = keyring

    async def Assess(self, request: pb.AssessRequest, context: Context) -> pb.AssessResponse:  # noqa: N802
        """Measure the metacognitive state of a query."""
        return to_proto(await self._use.assess(from_proto(request, AssessRequest)), pb.AssessResponse)

    async def Route(self, request: pb.RouteRequest, context: Context) -> pb.RouteResponse:  # noqa: N802
        """Choose System 1 or System 2 for a query."""
        return to_proto(await self._use.route(from_proto(request, RouteRequest)), pb.RouteResponse)

    async def Answer(  # noqa: N802
        self, request: pb.AnswerRequest, context: Context
    ) -> AsyncIterator[pb.AnswerResponse]:
        """Assess, route and answer a query."""
        ask = from_proto(request, AnswerRequest)
        origin = Origin(key_name=caller(context, self._keyring).name)
        async with aclosing(self._use.answer(ask, origin=origin)) as events:
            async for event in events:
                if isinstance(event, Relayed):
                    yield to_proto({event.name: event.data}, pb.AnswerResponse)
                else:
                    yield event_to_proto(event, pb.AnswerResponse)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:  # noqa: N802
        """One recorded run."""
        run = await self._use.get_run(request.run_id, key_name=caller(context, self._keyring).name)
        return to_proto(GetRunResponse(run=run), pb.GetRunResponse)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:  # noqa: N802
        """Recorded runs, newest first."""
        ask = from_proto(request, ListRunsRequest)
        page = await self._use.list_runs(ask, key_name=caller(context, self._keyring).name)
        return to_proto(page, pb.ListRunsResponse)
