"""This module serves the assigner over REST."""

from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.calls.values import ListCallsRequest
from chassis.serving.rest import Json, caller, query, query_parameters, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from services.assigner.service.use_cases import AssignerUseCases
from services.assigner.service.values import (
    AssignRequest,
    AssignResponse,
    DeliberateRequest,
    DeliberationFinished,
    Event,
    GetDeliberationResponse,
    ListDeliberationsResponse,
)


def add_paths(app: FastAPI, use_cases: AssignerUseCases) -> None:
    """Add the assigner's paths to `app`."""

    @app.post("/v1/assignments", response_model=AssignResponse)
    async def assignments(body: AssignRequest) -> Response:
        """Assign each role to an agent so that total fitness is largest; no model call."""
        return Json(await use_cases.assign(body))

    @app.post("/v1/deliberations", response_model=DeliberationFinished)
    async def deliberate(body: DeliberateRequest, request: Request) -> Response:
        """Run the five-role dialectic; return server-sent events or the finished deliberation."""
        events = use_cases.deliberate(body, key_name=caller(request).name)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))

    @app.get("/v1/deliberations/{run_id}", response_model=GetDeliberationResponse)
    async def deliberation(run_id: str, request: Request) -> Response:
        """Return one stored deliberation."""
        stored = await use_cases.deliberations.get(run_id, key_name=caller(request).name)
        return Json(GetDeliberationResponse(deliberation=stored))

    @app.get(
        "/v1/deliberations",
        response_model=ListDeliberationsResponse,
        openapi_extra=query_parameters(ListCallsRequest),
    )
    async def deliberations(request: Request) -> Response:
        """List stored deliberations, newest first."""
        wanted = query(request, ListCallsRequest)
        page = await use_cases.deliberations.page(wanted, key_name=caller(request).name)
        return Json(ListDeliberationsResponse(deliberations=page.calls, **page.position()))


async def last(events: AsyncIterator[Event]) -> Event | None:
    """Return the last event."""
    finished: Event | None = None
    async for event in events:
        finished = event
    return finished
