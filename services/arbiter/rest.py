"""This module serves the arbiter over REST."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.serving.rest import Json, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from services.arbiter.service.values import (
    ArbitrateRequest,
    ArbitrationFinished,
    Event,
    MeasureRequest,
    MeasureResponse,
    ReplayRequest,
    ReplayResponse,
)
from services.arbiter.service.voting.values import VoteEvent, VoteFinished, VoteRequest

Arbitrate = Callable[[ArbitrateRequest], AsyncGenerator[Event, None]]
Measure = Callable[[MeasureRequest], Awaitable[MeasureResponse]]
Replay = Callable[[ReplayRequest], Awaitable[ReplayResponse]]
CastVotes = Callable[[VoteRequest], AsyncGenerator[VoteEvent, None]]
E = TypeVar("E")


def add_paths(app: FastAPI, *, arbitrate: Arbitrate, measure: Measure, replay: Replay, vote: CastVotes) -> None:
    """Add the arbiter's paths to `app`."""

    @app.post("/v1/arbitrations", response_model=ArbitrationFinished)
    async def arbitrations(body: ArbitrateRequest, request: Request) -> Response:
        """Solve, criticise, arbitrate and measure; return server-sent events or the finished arbitration."""
        events = arbitrate(body)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))

    @app.post("/v1/measurements", response_model=MeasureResponse)
    async def measurements(body: MeasureRequest, request: Request) -> Response:
        """Measure samples that exist, of one question or of many; no model call."""
        return Json(await until_disconnect(request, measure(body)))

    @app.post("/v1/replays", response_model=ReplayResponse)
    async def replays(body: ReplayRequest, request: Request) -> Response:
        """Run a recorded question through either mode; no model call."""
        return Json(await until_disconnect(request, replay(body)))

    @app.post("/v1/votes", response_model=VoteFinished)
    async def votes(body: VoteRequest, request: Request) -> Response:
        """Ask until enough answers agree; return server-sent events or the finished vote."""
        events = vote(body)
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))


async def last(events: AsyncIterator[E]) -> E | None:
    """Return the last event."""
    finished: E | None = None
    async for event in events:
        finished = event
    return finished
