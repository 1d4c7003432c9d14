"""This module serves the arbiter over REST."""

from collections.abc import AsyncIterator
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.calls.values import ListCallsRequest
from chassis.serving.rest import Json, caller, query, query_parameters, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from services.arbiter.service.use_cases import ArbiterUseCases
from services.arbiter.service.values import (
    ArbitrateRequest,
    ArbitrationFinished,
    GetArbitrationResponse,
    ListArbitrationsResponse,
    MeasureRequest,
    MeasureResponse,
    ReplayRequest,
    ReplayResponse,
)
from services.arbiter.service.voting.values import GetVoteResponse, ListVotesResponse, VoteFinished, VoteRequest

E = TypeVar("E")


def add_paths(app: FastAPI, use_cases: ArbiterUseCases) -> None:
    """Put arbitrations, measurements, replays and votes on `app`."""

    @app.post("/v1/arbitrations", response_model=ArbitrationFinished)
    async def arbitrations(body: ArbitrateRequest, request: Request) -> Response:
        """Solve, criticise, arbitrate and measure; return server-sent events or the finished arbitration."""
        events = use_cases.arbitrate(body, key_name=caller(request).name)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))

    @app.post("/v1/measurements", response_model=MeasureResponse)
    async def measurements(body: MeasureRequest, request: Request) -> Response:
        """Measure samples that exist, of one question or of many; no model call."""
        return Json(await until_disconnect(request, use_cases.measure(body)))

    @app.post("/v1/replays", response_model=ReplayResponse)
    async def replays(body: ReplayRequest, request: Request) -> Response:
        """Run a recorded question through either mode; no model call."""
        return Json(await until_disconnect(request, use_cases.replay(body)))

    @app.post("/v1/votes", response_model=VoteFinished)
    async def votes(body: VoteRequest, request: Request) -> Response:
        """Ask until enough answers agree; return server-sent events or the finished vote."""
        events = use_cases.vote(body, key_name=caller(request).name)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))


def add_stored_paths(app: FastAPI, use_cases: ArbiterUseCases) -> None:
    """Put the stored arbitrations and votes on `app`."""
    parameters = query_parameters(ListCallsRequest)

    @app.get("/v1/arbitrations/{run_id}", response_model=GetArbitrationResponse)
    async def arbitration(run_id: str, request: Request) -> Response:
        """Return one stored arbitration."""
        stored = await use_cases.arbitrations.get(run_id, key_name=caller(request).name)
        return Json(GetArbitrationResponse(arbitration=stored))

    @app.get("/v1/arbitrations", response_model=ListArbitrationsResponse, openapi_extra=parameters)
    async def arbitrations(request: Request) -> Response:
        """List stored arbitrations, newest first."""
        wanted = query(request, ListCallsRequest)
        page = await use_cases.arbitrations.page(wanted, key_name=caller(request).name)
        return Json(ListArbitrationsResponse(arbitrations=page.calls, **page.position()))

    @app.get("/v1/votes/{run_id}", response_model=GetVoteResponse)
    async def vote(run_id: str, request: Request) -> Response:
        """Return one stored vote."""
        return Json(GetVoteResponse(vote=await use_cases.votes.get(run_id, key_name=caller(request).name)))

    @app.get("/v1/votes", response_model=ListVotesResponse, openapi_extra=parameters)
    async def votes(request: Request) -> Response:
        """List stored votes, newest first."""
        page = await use_cases.votes.page(query(request, ListCallsRequest), key_name=caller(request).name)
        return Json(ListVotesResponse(votes=page.calls, **page.position()))


async def last(events: AsyncIterator[E]) -> E | None:
    """Return the last event."""
    finished: E | None = None
    async for event in events:
        finished = event
    return finished
