"""This module serves the arbiter over gRPC."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from metacog.arbiter.v1 import arbiter_pb2 as pb
from metacog.arbiter.v1 import arbiter_pb2_grpc as pb_grpc
from metacog.arbiter.v1 import vote_pb2

from chassis.calls.values import ListCallsRequest
from chassis.serving.auth import Keyring
from chassis.serving.rpc import Context, caller
from chassis.serving.wire import event_to_proto, from_proto, to_proto
from services.arbiter.service.use_cases import ArbiterUseCases
from services.arbiter.service.values import (
    ArbitrateRequest,
    GetArbitrationResponse,
    ListArbitrationsResponse,
    MeasureRequest,
    ReplayRequest,
)
from services.arbiter.service.voting.values import GetVoteResponse, ListVotesResponse, VoteRequest


class ArbiterServicer(pb_grpc.ArbiterServiceServicer):
    """The servicer serves the arbiter over gRPC."""

    def __init__(self, use_cases: ArbiterUseCases, keyring: Keyring) -> None:
        self._use_cases = use_cases
        self._keyring = keyring

    async def Arbitrate(  # noqa: N802
        self, request: pb.ArbitrateRequest, context: Context
    ) -> AsyncIterator[pb.ArbitrateResponse]:
        """Solve, criticise, arbitrate and measure one question."""
        wanted = from_proto(request, ArbitrateRequest)
        async with aclosing(self._use_cases.arbitrate(wanted, key_name=self._caller(context))) as events:
            async for event in events:
                yield event_to_proto(event, pb.ArbitrateResponse)

    async def Measure(self, request: pb.MeasureRequest, context: Context) -> pb.MeasureResponse:  # noqa: N802
        """Measure samples that exist; no model call."""
        return to_proto(await self._use_cases.measure(from_proto(request, MeasureRequest)), pb.MeasureResponse)

    async def Replay(self, request: pb.ReplayRequest, context: Context) -> pb.ReplayResponse:  # noqa: N802
        """Run a recorded question through either mode; no model call."""
        return to_proto(await self._use_cases.replay(from_proto(request, ReplayRequest)), pb.ReplayResponse)

    async def Vote(self, request: vote_pb2.VoteRequest, context: Context) -> AsyncIterator[vote_pb2.VoteResponse]:  # noqa: N802
        """Ask until enough answers agree."""
        wanted = from_proto(request, VoteRequest)
        async with aclosing(self._use_cases.vote(wanted, key_name=self._caller(context))) as events:
            async for event in events:
                yield event_to_proto(event, vote_pb2.VoteResponse)

    async def GetArbitration(  # noqa: N802
        self, request: pb.GetArbitrationRequest, context: Context
    ) -> pb.GetArbitrationResponse:
        """Return one stored arbitration."""
        stored = await self._use_cases.arbitrations.get(request.run_id, key_name=self._caller(context))
        return to_proto(GetArbitrationResponse(arbitration=stored), pb.GetArbitrationResponse)

    async def ListArbitrations(  # noqa: N802
        self, request: pb.ListArbitrationsRequest, context: Context
    ) -> pb.ListArbitrationsResponse:
        """List stored arbitrations, newest first."""
        wanted = from_proto(request, ListCallsRequest)
        page = await self._use_cases.arbitrations.page(wanted, key_name=self._caller(context))
        listed = ListArbitrationsResponse(arbitrations=page.calls, **page.position())
        return to_proto(listed, pb.ListArbitrationsResponse)

    async def GetVote(  # noqa: N802
        self, request: vote_pb2.GetVoteRequest, context: Context
    ) -> vote_pb2.GetVoteResponse:
        """Return one stored vote."""
        stored = await self._use_cases.votes.get(request.run_id, key_name=self._caller(context))
        return to_proto(GetVoteResponse(vote=stored), vote_pb2.GetVoteResponse)

    async def ListVotes(  # noqa: N802
        self, request: vote_pb2.ListVotesRequest, context: Context
    ) -> vote_pb2.ListVotesResponse:
        """List stored votes, newest first."""
        page = await self._use_cases.votes.page(from_proto(request, ListCallsRequest), key_name=self._caller(context))
        return to_proto(ListVotesResponse(votes=page.calls, **page.position()), vote_pb2.ListVotesResponse)

    def _caller(self, context: Context) -> str:
        return caller(context, self._keyring).name
