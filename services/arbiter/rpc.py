"""The gRPC API of the arbiter."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from metacog.arbiter.v1 import arbiter_pb2 as pb
from metacog.arbiter.v1 import arbiter_pb2_grpc as pb_grpc

from chassis.serving.rpc import Context
from chassis.serving.wire import event_to_proto, from_proto, to_proto
from services.arbiter.service.values import (
    ArbitrateRequest,
    Event,
    MeasureRequest,
    MeasureResponse,
    ReplayRequest,
    ReplayResponse,
)

Arbitrate = Callable[[ArbitrateRequest], AsyncGenerator[Event, None]]
Measure = Callable[[MeasureRequest], Awaitable[MeasureResponse]]
Replay = Callable[[ReplayRequest], Awaitable[ReplayResponse]]


class ArbiterServicer(pb_grpc.ArbiterServiceServicer):
    """The arbiter's servicer."""

    def __init__(self, *, arbitrate: Arbitrate, measure: Measure, replay: Replay) -> None:
        self._arbitrate = arbitrate
        self._measure = measure
        self._replay = replay

    async def Arbitrate(  # noqa: N802
        self, request: pb.ArbitrateRequest, context: Context
    ) -> AsyncIterator[pb.ArbitrateResponse]:
        """Solve, criticise, arbitrate and measure one question."""
        async with aclosing(self._arbitrate(from_proto(request, ArbitrateRequest))) as events:
            async for event in events:
                yield event_to_proto(event, pb.ArbitrateResponse)

    async def Measure(self, request: pb.MeasureRequest, context: Context) -> pb.MeasureResponse:  # noqa: N802
        """Measure samples that exist; no model call."""
        return to_proto(await self._measure(from_proto(request, MeasureRequest)), pb.MeasureResponse)

    async def Replay(self, request: pb.ReplayRequest, context: Context) -> pb.ReplayResponse:  # noqa: N802
        """Run a recorded question through either mode; no model call."""
        return to_proto(await self._replay(from_proto(request, ReplayRequest)), pb.ReplayResponse)
