"""This module serves the assigner over gRPC."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from metacog.assigner.v1 import assigner_pb2 as pb
from metacog.assigner.v1 import assigner_pb2_grpc as pb_grpc

from chassis.calls.values import ListCallsRequest
from chassis.serving.auth import Keyring
from chassis.serving.rpc import Context, caller
from chassis.serving.wire import event_to_proto, from_proto, to_proto
from services.assigner.service.use_cases import AssignerUseCases
from services.assigner.service.values import (
    AssignRequest,
    DeliberateRequest,
    GetDeliberationResponse,
    ListDeliberationsResponse,
)


class AssignerServicer(pb_grpc.AssignerServiceServicer):
    """The servicer serves the assigner over gRPC."""

    def __init__(self, use_cases: AssignerUseCases, keyring: Keyring) -> None:
        self._use_cases = use_cases
        self._keyring = keyring

    async def Assign(self, request: pb.AssignRequest, context: Context) -> pb.AssignResponse:  # noqa: N802
        """Assign each role to an agent so that total fitness is largest; no model call."""
        return to_proto(await self._use_cases.assign(from_proto(request, AssignRequest)), pb.AssignResponse)

    async def Deliberate(  # noqa: N802
        self, request: pb.DeliberateRequest, context: Context
    ) -> AsyncIterator[pb.DeliberateResponse]:
        """Run the five-role dialectic."""
        wanted = from_proto(request, DeliberateRequest)
        async with aclosing(self._use_cases.deliberate(wanted, key_name=self._caller(context))) as events:
            async for event in events:
                yield event_to_proto(event, pb.DeliberateResponse)

    async def GetDeliberation(  # noqa: N802
        self, request: pb.GetDeliberationRequest, context: Context
    ) -> pb.GetDeliberationResponse:
        """Return one stored deliberation."""
        stored = await self._use_cases.deliberations.get(request.run_id, key_name=self._caller(context))
        return to_proto(GetDeliberationResponse(deliberation=stored), pb.GetDeliberationResponse)

    async def ListDeliberations(  # noqa: N802
        self, request: pb.ListDeliberationsRequest, context: Context
    ) -> pb.ListDeliberationsResponse:
        """List stored deliberations, newest first."""
        wanted = from_proto(request, ListCallsRequest)
        page = await self._use_cases.deliberations.page(wanted, key_name=self._caller(context))
        listed = ListDeliberationsResponse(deliberations=page.calls, **page.position())
        return to_proto(listed, pb.ListDeliberationsResponse)

    def _caller(self, context: Context) -> str:
        return caller(context, self._keyring).name
