"""This module serves the assigner over gRPC."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from metacog.assigner.v1 import assigner_pb2 as pb
from metacog.assigner.v1 import assigner_pb2_grpc as pb_grpc

from chassis.serving.rpc import Context
from chassis.serving.wire import event_to_proto, from_proto, to_proto
from services.assigner.service.values import AssignRequest, AssignResponse, DeliberateRequest, Event

Assign = Callable[[AssignRequest], Awaitable[AssignResponse]]
Deliberate = Callable[[DeliberateRequest], AsyncGenerator[Event, None]]


class AssignerServicer(pb_grpc.AssignerServiceServicer):
    """The servicer serves the assigner over gRPC."""

    def __init__(self, *, assign: Assign, deliberate: Deliberate) -> None:
        self._assign = assign
        self._deliberate = deliberate

    async def Assign(self, request: pb.AssignRequest, context: Context) -> pb.AssignResponse:  # noqa: N802
        """Assign each role to an agent so that total fitness is largest; no model call."""
        return to_proto(await self._assign(from_proto(request, AssignRequest)), pb.AssignResponse)

    async def Deliberate(  # noqa: N802
        self, request: pb.DeliberateRequest, context: Context
    ) -> AsyncIterator[pb.DeliberateResponse]:
        """Run the five-role dialectic."""
        async with aclosing(self._deliberate(from_proto(request, DeliberateRequest))) as events:
            async for event in events:
                yield event_to_proto(event, pb.DeliberateResponse)
