"""This module serves the assigner over REST."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.serving.rest import Json, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from services.assigner.service.values import (
    AssignRequest,
    AssignResponse,
    DeliberateRequest,
    DeliberationFinished,
    Event,
)

Assign = Callable[[AssignRequest], Awaitable[AssignResponse]]
Deliberate = Callable[[DeliberateRequest], AsyncGenerator[Event, None]]


def add_paths(app: FastAPI, *, assign: Assign, deliberate: Deliberate) -> None:
    """Add the assigner's paths to `app`."""

    @app.post("/v1/assignments", response_model=AssignResponse)
    async def assignments(body: AssignRequest) -> Response:
        """Assign each role to an agent so that total fitness is largest; no model call."""
        return Json(await assign(body))

    @app.post("/v1/deliberations", response_model=DeliberationFinished)
    async def deliberations(body: DeliberateRequest, request: Request) -> Response:
        """Run the five-role dialectic; return server-sent events or the finished deliberation."""
        events = deliberate(body)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))


async def last(events: AsyncIterator[Event]) -> Event | None:
    """Return the last event."""
    finished: Event | None = None
    async for event in events:
        finished = event
    return finished
