"""This module serves the router over REST, beside the OpenAI API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.serving.rest import Json, caller, query, query_parameters, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from chassis.serving.wire import event_name
from services.router.service.answering.run_in_progress import RequestOrigin
from services.router.service.answering.values import AnswerRequest, Event, PassedThrough, RelayedEvent, RunFinished
from services.router.service.assessment.values import AssessRequest, AssessResponse, RouteRequest, RouteResponse
from services.router.service.calibration.calibration import CalibrationUseCases
from services.router.service.calibration.values import (
    GetActivationsRequest,
    GetActivationsResponse,
    GetCalibrationRequest,
    GetCalibrationResponse,
    GetCascadesRequest,
    GetCascadesResponse,
    GetPromisesRequest,
    GetPromisesResponse,
    RollbackCalibrationRequest,
    RollbackCalibrationResponse,
)
from services.router.service.feedback.feedback import SubmitFeedbackRequest, SubmitFeedbackResponse
from services.router.service.knowledge.knowledge import KnowledgeUseCases
from services.router.service.knowledge.values import (
    AddKnowledgeRequest,
    DeleteKnowledgeResponse,
    KnowledgeAdded,
    ListKnowledgeRequest,
    ListKnowledgeResponse,
    SearchKnowledgeRequest,
    SearchKnowledgeResponse,
)
from services.router.service.runs.values import GetRunResponse, ListRunsRequest, ListRunsResponse, Run
from services.router.service.shadow.values import GetShadowRequest, GetShadowResponse

T = TypeVar("T")

Answer = Callable[..., AsyncIterator[Event | PassedThrough]]


def add_decision_paths(
    app: FastAPI,
    *,
    assess: Callable[..., Awaitable[AssessResponse]],
    route: Callable[..., Awaitable[RouteResponse]],
    answer: Answer,
) -> None:
    """Put assessing, routing and answering on `app`."""

    @app.post("/v1/assess", response_model=AssessResponse)
    async def assess_question(body: AssessRequest, request: Request) -> Response:
        """Measure the metacognitive state of a question, without routing or answering it."""
        return Json(await until_disconnect(request, assess(body, key_name=caller(request).name)))

    @app.post("/v1/route", response_model=RouteResponse)
    async def route_question(body: RouteRequest, request: Request) -> Response:
        """Choose System 1 or System 2 for a question, and do not answer it."""
        return Json(await until_disconnect(request, route(body, key_name=caller(request).name)))

    @app.post("/v1/answers", response_model=RunFinished)
    async def answers(body: AnswerRequest, request: Request) -> Response:
        """Assess, route and answer a question; server-sent events when asked for, else the finished run."""
        streamed = wants_events(request)
        events = answer(body, origin=RequestOrigin(key_name=caller(request).name, streamed=streamed))
        if streamed:
            return await until_disconnect(request, event_stream(events, named=_named))
        return Json(await until_disconnect(request, _last(events)))


def add_run_paths(
    app: FastAPI,
    *,
    get_run: Callable[..., Awaitable[Run]],
    list_runs: Callable[..., Awaitable[ListRunsResponse]],
    submit_feedback: Callable[..., Awaitable[SubmitFeedbackResponse]],
) -> None:
    """Put the recorded runs, and feedback on them, on `app`."""

    @app.get("/v1/runs/{run_id}", response_model=GetRunResponse)
    async def run(run_id: str, request: Request) -> Response:
        """Return one recorded run with everything that explains it."""
        return Json(GetRunResponse(run=await get_run(run_id, key_name=caller(request).name)))

    @app.get("/v1/runs", response_model=ListRunsResponse, openapi_extra=query_parameters(ListRunsRequest))
    async def runs(request: Request) -> Response:
        """List recorded runs, newest first."""
        wanted = query(request, ListRunsRequest)
        return Json(await list_runs(wanted, key_name=caller(request).name))

    @app.post("/v1/feedback", response_model=SubmitFeedbackResponse)
    async def feedback(body: SubmitFeedbackRequest, request: Request) -> Response:
        """Label a run's answer as right or wrong; what can be learned from it is learned, now or later."""
        return Json(await submit_feedback(body, key=caller(request)))


def add_knowledge_paths(app: FastAPI, knowledge: KnowledgeUseCases) -> None:
    """Put the knowledge base on `app`."""

    @app.post("/v1/knowledge", response_model=KnowledgeAdded)
    async def add(body: AddKnowledgeRequest, request: Request) -> Response:
        """Add documents, all or none; progress as server-sent events when asked for, else the result."""
        events = knowledge.add(body, key=caller(request))
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, _last(events)))

    @app.get(
        "/v1/knowledge", response_model=ListKnowledgeResponse, openapi_extra=query_parameters(ListKnowledgeRequest)
    )
    async def page(request: Request) -> Response:
        """List documents, newest first, with totals of what is stored."""
        wanted = query(request, ListKnowledgeRequest)
        return Json(await knowledge.page(wanted, key_name=caller(request).name))

    @app.delete("/v1/knowledge/{document_id:path}", response_model=DeleteKnowledgeResponse)
    async def delete(document_id: str, request: Request) -> Response:
        """Delete a document and its chunks."""
        return Json(await knowledge.delete(document_id, key=caller(request)))

    @app.post("/v1/knowledge:search", response_model=SearchKnowledgeResponse)
    async def search(body: SearchKnowledgeRequest, request: Request) -> Response:
        """Return what is nearest in meaning to a text."""
        found = knowledge.search(body, key_name=caller(request).name)
        return Json(await until_disconnect(request, found))


def add_calibration_paths(app: FastAPI, use_cases: CalibrationUseCases) -> None:
    """Put calibration, the observed activations, cascades, shadow runs and promises on `app`."""

    @app.get(
        "/v1/calibration",
        response_model=GetCalibrationResponse,
        openapi_extra=query_parameters(GetCalibrationRequest),
    )
    async def calibration(request: Request) -> Response:
        """Return how far the confidence can be trusted, by strategy and source, and the map in force."""
        wanted = query(request, GetCalibrationRequest)
        return Json(await until_disconnect(request, use_cases.get(wanted)))

    @app.post("/v1/calibration:rollback", response_model=RollbackCalibrationResponse)
    async def rollback(body: RollbackCalibrationRequest, request: Request) -> Response:
        """Put an earlier recalibration map, none, or the newest again in force."""
        return Json(await use_cases.rollback(body, key=caller(request)))

    @app.get(
        "/v1/activations",
        response_model=GetActivationsResponse,
        openapi_extra=query_parameters(GetActivationsRequest),
    )
    async def activations(request: Request) -> Response:
        """Return the observed activations, and the share of runs that went to System 2."""
        wanted = query(request, GetActivationsRequest)
        return Json(await until_disconnect(request, use_cases.activations(wanted)))

    @app.get("/v1/cascades", response_model=GetCascadesResponse, openapi_extra=query_parameters(GetCascadesRequest))
    async def cascades(request: Request) -> Response:
        """Return how often votes were escalated to a stronger model, what that cost, and who was right."""
        wanted = query(request, GetCascadesRequest)
        return Json(await until_disconnect(request, use_cases.cascades(wanted)))

    @app.get("/v1/shadow", response_model=GetShadowResponse, openapi_extra=query_parameters(GetShadowRequest))
    async def shadow(request: Request) -> Response:
        """Return how shadow policies compare with what was served: agreement, cost, time, who was right."""
        wanted = query(request, GetShadowRequest)
        return Json(await until_disconnect(request, use_cases.shadow(wanted)))

    @app.get("/v1/promises", response_model=GetPromisesResponse, openapi_extra=query_parameters(GetPromisesRequest))
    async def promises(request: Request) -> Response:
        """Return which levels of agreement keep a promise, and what more labels would prove."""
        wanted = query(request, GetPromisesRequest)
        return Json(await until_disconnect(request, use_cases.promises(wanted, owner=caller(request).name)))


def _named(event: Event | PassedThrough) -> tuple[str, object]:
    """Return the name and the content of an event; one of another service keeps its name."""
    return (event.name, event.data) if isinstance(event, RelayedEvent) else (event_name(event), event)


async def _last(events: AsyncIterator[T]) -> T | None:
    finished: T | None = None
    async for event in events:
        finished = event
    return finished
