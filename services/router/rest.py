"""REST face of the router, beside the OpenAI one."""

from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.rest import Json, caller, query_parameters, until_disconnect, wants_events
from chassis.sse import event_stream
from chassis.wire import event_name, from_plain
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
    RunFinished,
)

Answer = Callable[..., AsyncIterator[Event | Passed]]


def add_decision_paths(
    app: FastAPI,
    *,
    assess: Callable[[AssessRequest], Awaitable[AssessResponse]],
    route: Callable[[RouteRequest], Awaitable[RouteResponse]],
    answer: Answer,
) -> None:
    """Put assessing, routing and answering on `app`."""

    @app.post("/v1/assess", response_model=AssessResponse)
    async def assess_query(ask: AssessRequest, request: Request) -> Response:
        """Measure the metacognitive state of a query, without routing or answering it."""
        return Json(await until_disconnect(request, assess(ask)))

    @app.post("/v1/route", response_model=RouteResponse)
    async def route_query(ask: RouteRequest, request: Request) -> Response:
        """Choose System 1 or System 2 for a query, and do not answer it."""
        return Json(await until_disconnect(request, route(ask)))

    @app.post("/v1/answers", response_model=RunFinished)
    async def answers(ask: AnswerRequest, request: Request) -> Response:
        """Assess, route and answer a query; server-sent events when asked for, else the finished run."""
        events = answer(ask, origin=Origin(key_name=caller(request).name))
        if wants_events(request):
            return await until_disconnect(request, event_stream(events, named=_named))
        return Json(await until_disconnect(request, _last(events)))


def add_run_paths(
    app: FastAPI,
    *,
    get_run: Callable[..., Awaitable[Run]],
    list_runs: Callable[..., Awaitable[ListRunsResponse]],
) -> None:
    """Put the recorded runs on `app`."""

    @app.get("/v1/runs/{run_id}", response_model=GetRunResponse)
    async def run(run_id: str, request: Request) -> Response:
        """One recorded run with everything that explains it."""
        return Json(GetRunResponse(run=await get_run(run_id, key_name=caller(request).name)))

    @app.get("/v1/runs", response_model=ListRunsResponse, openapi_extra=query_parameters(ListRunsRequest))
    async def runs(request: Request) -> Response:
        """Recorded runs, newest first."""
        ask = from_plain(dict(request.query_params), ListRunsRequest)
        return Json(await list_runs(ask, key_name=caller(request).name))


def _named(event: Event | Passed) -> tuple[str, object]:
    """Name and content of an event; that of another service goes under the name that it came with."""
    return (event.name, event.data) if isinstance(event, Relayed) else (event_name(event), event)


async def _last(events: AsyncIterator[Event | Passed]) -> Event | Passed | None:
    finished: Event | Passed | None = None
    async for event in events:
        finished = event
    return finished
