"""This module serves the arbiter over gRPC."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from metacog.arbiter.v1 import arbiter_pb2 as pb
from metacog.arbiter.v1 import arbiter_pb2_grpc as pb_grpc
from metacog.arbiter.v1 import vote_pb2

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
from services.arbiter.service.voting.values import VoteEvent, VoteRequest

Arbitrate = Callable[[ArbitrateRequest], AsyncGenerator[Event, None]]
Measure = Callable[[MeasureRequest], Awaitable[MeasureResponse]]
Replay = Callable[[ReplayRequest], Awaitable[ReplayResponse]]
CastVotes = Callable[[VoteRequest], AsyncGenerator[VoteEvent, None]]


class ArbiterServicer(pb_grpc.ArbiterServiceServicer):
    """The servicer serves the arbiter over gRPC."""

    def __init__(self, *, arbitrate: Arbitrate, measure: Measure, replay: Replay, vote: CastVotes) -> None:
        self._arbitrate = arbitrate
        self._measure = measure
        self._replay = replay
        self._vote = vote

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

    async def Vote(self, request: vote_pb2.VoteRequest, context: Context) -> AsyncIterator[vote_pb2.VoteResponse]:  # noqa: N802
        """Ask until enough answers agree."""
        async with aclosing(self._vote(from_proto(request, VoteRequest))) as events:
            async for event in events:
                yield event_to_proto(event, vote_pb2.VoteResponse)
