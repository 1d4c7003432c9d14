"""This module serves the router over gRPC."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, fields

from metacog.router.v1 import calibration_pb2 as pb_calibration
from metacog.router.v1 import feedback_pb2 as pb_feedback
from metacog.router.v1 import knowledge_pb2 as pb_knowledge
from metacog.router.v1 import router_pb2 as pb
from metacog.router.v1 import router_pb2_grpc as pb_grpc

from chassis.serving.auth import Keyring
from chassis.serving.rpc import Context, caller
from chassis.serving.stored import readable, unreadable
from chassis.serving.wire import event_to_proto, from_proto, known_part, to_proto
from services.router.service.answering.run_in_progress import RequestOrigin
from services.router.service.answering.values import AnswerRequest, Event, PassedThrough, RelayedEvent, RunFinished
from services.router.service.assessment.values import AssessRequest, AssessResponse, RouteRequest, RouteResponse
from services.router.service.calibration.calibration import CalibrationUseCases
from services.router.service.calibration.values import (
    GetActivationsRequest,
    GetCalibrationRequest,
    GetCascadesRequest,
    GetPromisesRequest,
    RollbackCalibrationRequest,
)
from services.router.service.feedback.feedback import SubmitFeedbackRequest, SubmitFeedbackResponse
from services.router.service.knowledge.knowledge import KnowledgeUseCases
from services.router.service.knowledge.values import AddKnowledgeRequest, ListKnowledgeRequest, SearchKnowledgeRequest
from services.router.service.runs.values import ACCOUNT_FIELDS, ListRunsRequest, ListRunsResponse, Run
from services.router.service.shadow.values import GetShadowRequest

# Events of the contract, with their fields. An event of delegation whose name is taken has one of its own.
EVENTS = {
    name: frozenset(field.message_type.fields_by_name)
    for name, field in pb.AnswerResponse.DESCRIPTOR.fields_by_name.items()
    if field.message_type is not None
}
RENAMED = "task_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterUseCases:
    """This value holds the use cases of the router."""

    assess: Callable[..., Awaitable[AssessResponse]]
    route: Callable[..., Awaitable[RouteResponse]]
    answer: Callable[..., AsyncGenerator[Event | PassedThrough, None]]
    get_run: Callable[..., Awaitable[Run]]
    list_runs: Callable[..., Awaitable[ListRunsResponse]]
    submit_feedback: Callable[..., Awaitable[SubmitFeedbackResponse]]
    knowledge: KnowledgeUseCases
    calibration: CalibrationUseCases


class RouterServicer(pb_grpc.RouterServiceServicer):
    """The servicer serves the router over gRPC."""

    def __init__(self, use: RouterUseCases, keyring: Keyring) -> None:
        self._use = use
        self._keyring = keyring

    async def Assess(self, request: pb.AssessRequest, context: Context) -> pb.AssessResponse:  # noqa: N802
        """Measure the metacognitive state of a question."""
        key_name = caller(context, self._keyring).name
        reply = await self._use.assess(from_proto(request, AssessRequest), key_name=key_name)
        return to_proto(reply, pb.AssessResponse)

    async def Route(self, request: pb.RouteRequest, context: Context) -> pb.RouteResponse:  # noqa: N802
        """Choose System 1 or System 2 for a question."""
        key_name = caller(context, self._keyring).name
        return to_proto(await self._use.route(from_proto(request, RouteRequest), key_name=key_name), pb.RouteResponse)

    async def Answer(  # noqa: N802
        self, request: pb.AnswerRequest, context: Context
    ) -> AsyncIterator[pb.AnswerResponse]:
        """Assess, route and answer a question."""
        wanted = from_proto(request, AnswerRequest)
        origin = RequestOrigin(key_name=caller(context, self._keyring).name, streamed=True)
        async with aclosing(self._use.answer(wanted, origin=origin)) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    yield pb.AnswerResponse(run_finished=pb.RunFinished(run=_run_message(event.run)))
                elif not isinstance(event, RelayedEvent):
                    yield event_to_proto(event, pb.AnswerResponse)
                elif field := _event_field(event):
                    yield to_proto({field: event.data}, pb.AnswerResponse)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:  # noqa: N802
        """Return one recorded run."""
        run = await self._use.get_run(request.run_id, key_name=caller(context, self._keyring).name)
        return pb.GetRunResponse(run=_run_message(run))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:  # noqa: N802
        """List recorded runs, newest first."""
        wanted = from_proto(request, ListRunsRequest)
        page = await self._use.list_runs(wanted, key_name=caller(context, self._keyring).name)
        runs = readable(page.runs, _run_message)
        unreadable = page.unreadable + len(page.runs) - len(runs)
        return pb.ListRunsResponse(runs=runs, next_page_token=page.next_page_token, unreadable=unreadable)

    async def SubmitFeedback(  # noqa: N802
        self, request: pb_feedback.SubmitFeedbackRequest, context: Context
    ) -> pb_feedback.SubmitFeedbackResponse:
        """Label a run's answer as right or wrong."""
        feedback = from_proto(request, SubmitFeedbackRequest)
        reply = await self._use.submit_feedback(feedback, key=caller(context, self._keyring))
        return to_proto(reply, pb_feedback.SubmitFeedbackResponse)

    async def AddKnowledge(  # noqa: N802
        self, request: pb_knowledge.AddKnowledgeRequest, context: Context
    ) -> AsyncIterator[pb_knowledge.AddKnowledgeResponse]:
        """Add documents, all or none, with progress."""
        documents = from_proto(request, AddKnowledgeRequest)
        async with aclosing(self._use.knowledge.add(documents, key=caller(context, self._keyring))) as events:
            async for event in events:
                yield event_to_proto(event, pb_knowledge.AddKnowledgeResponse)

    async def ListKnowledge(  # noqa: N802
        self, request: pb_knowledge.ListKnowledgeRequest, context: Context
    ) -> pb_knowledge.ListKnowledgeResponse:
        """List documents, newest first."""
        wanted = from_proto(request, ListKnowledgeRequest)
        page = await self._use.knowledge.page(wanted, key_name=caller(context, self._keyring).name)
        return to_proto(page, pb_knowledge.ListKnowledgeResponse)

    async def DeleteKnowledge(  # noqa: N802
        self, request: pb_knowledge.DeleteKnowledgeRequest, context: Context
    ) -> pb_knowledge.DeleteKnowledgeResponse:
        """Delete a document and its chunks."""
        deleted = await self._use.knowledge.delete(request.document_id, key=caller(context, self._keyring))
        return to_proto(deleted, pb_knowledge.DeleteKnowledgeResponse)

    async def SearchKnowledge(  # noqa: N802
        self, request: pb_knowledge.SearchKnowledgeRequest, context: Context
    ) -> pb_knowledge.SearchKnowledgeResponse:
        """Return what is nearest in meaning to a text."""
        wanted = from_proto(request, SearchKnowledgeRequest)
        found = await self._use.knowledge.search(wanted, key_name=caller(context, self._keyring).name)
        return to_proto(found, pb_knowledge.SearchKnowledgeResponse)

    async def GetCalibration(  # noqa: N802
        self, request: pb_calibration.GetCalibrationRequest, context: Context
    ) -> pb_calibration.GetCalibrationResponse:
        """Return how far the confidence can be trusted."""
        page = await self._use.calibration.get(from_proto(request, GetCalibrationRequest))
        return to_proto(page, pb_calibration.GetCalibrationResponse)

    async def RollbackCalibration(  # noqa: N802
        self, request: pb_calibration.RollbackCalibrationRequest, context: Context
    ) -> pb_calibration.RollbackCalibrationResponse:
        """Put another recalibration map in force."""
        choice = from_proto(request, RollbackCalibrationRequest)
        reply = await self._use.calibration.rollback(choice, key=caller(context, self._keyring))
        return to_proto(reply, pb_calibration.RollbackCalibrationResponse)

    async def GetActivations(  # noqa: N802
        self, request: pb_calibration.GetActivationsRequest, context: Context
    ) -> pb_calibration.GetActivationsResponse:
        """Return the observed activations, and the share sent to System 2."""
        seen = await self._use.calibration.activations(from_proto(request, GetActivationsRequest))
        return to_proto(seen, pb_calibration.GetActivationsResponse)

    async def GetCascades(  # noqa: N802
        self, request: pb_calibration.GetCascadesRequest, context: Context
    ) -> pb_calibration.GetCascadesResponse:
        """Return how often votes were escalated to a stronger model."""
        found = await self._use.calibration.cascades(from_proto(request, GetCascadesRequest))
        return to_proto(found, pb_calibration.GetCascadesResponse)

    async def GetShadow(  # noqa: N802
        self, request: pb_calibration.GetShadowRequest, context: Context
    ) -> pb_calibration.GetShadowResponse:
        """Return how shadow policies compare with what was served."""
        found = await self._use.calibration.shadow(from_proto(request, GetShadowRequest))
        return to_proto(found, pb_calibration.GetShadowResponse)

    async def GetPromises(  # noqa: N802
        self, request: pb_calibration.GetPromisesRequest, context: Context
    ) -> pb_calibration.GetPromisesResponse:
        """Return which levels of agreement keep a promise."""
        wanted = from_proto(request, GetPromisesRequest)
        found = await self._use.calibration.promises(wanted, owner=caller(context, self._keyring).name)
        return to_proto(found, pb_calibration.GetPromisesResponse)


def _run_message(run: Run) -> pb.Run:
    """Return `run` as the contract has it: the details of each strategy have a field of their own.

    Of the details that another version stored, it has those that the contract has.

    Raises:
        RecordUnreadable: When details that the contract has are stored in another form.
    """
    named = {one.name: getattr(run, one.name) for one in fields(run)}
    details, field = named.pop("deliberation"), ACCOUNT_FIELDS.get(run.strategy)
    try:
        if field and details is not None:
            named[field] = known_part(details, type(getattr(pb.Run(), field)))
        return to_proto(named, pb.Run)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(f"{type(error).__name__}: {error}", record="run", record_id=run.run_id) from error


def _event_field(event: RelayedEvent) -> str:
    """Return the field for a service's event; empty: there is none."""
    names = (event.name, RENAMED + event.name)
    return next((name for name in names if event.data.keys() <= EVENTS.get(name, frozenset())), "")
