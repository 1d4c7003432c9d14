"""This module serves the OpenAI API of the router: `/v1/chat/completions` and `/v1/models`."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from chassis.serving.named_errors import named_error
from chassis.serving.rest import Application, Json, caller, problem, until_disconnect
from chassis.serving.sse import HEARTBEAT_S, in_batches
from inference import Backend
from kernel.errors import MalformedRequest
from services.router.service.answering.answer import AnswerContext, answer
from services.router.service.answering.values import PassedThrough, RunFinished, RunStarted
from services.router.service.assessment.values import Routed
from services.router.service.gateway import chat_completions
from services.router.service.gateway.chat_completions import ChatRequest, Passthrough, error_body
from services.router.service.gateway.chat_stream import DONE, Writer, data
from services.router.service.runs.values import Run

# A slash at the end: all paths below it.
PATHS = ("/v1/chat/completions", "/v1/models", "/v1/models/")
RUN_ID = "x-metacog-run-id"

Events = AsyncGenerator[Any, None]
Batches = AsyncGenerator[Sequence[Any], None]


def add_paths(app: Application, *, context: AnswerContext, backend: Backend, aliases: Mapping[str, str]) -> None:
    """Put the OpenAI paths on `app`."""
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    began = int(time.time())

    @app.get("/v1/models")
    async def models() -> Response:
        """List the models of the gateway: the router's choice, and one for each strategy."""
        names = [*chat_completions.MODELS, *aliases]
        listed = [{"id": name, "object": "model", "created": began, "owned_by": "metacog"} for name in names]
        return Json({"object": "list", "data": listed})

    @app.get("/v1/models/{model:path}")
    async def model(model: str) -> Response:
        """Return one model of the gateway."""
        if model not in chat_completions.MODELS and model not in aliases:
            return problem(chat_completions.unknown_model(model), error_body)
        return Json({"id": model, "object": "model", "created": began, "owned_by": "metacog"})

    @app.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        """Create a chat completion as OpenAI does; its `metacog` field explains the answer."""
        chat = chat_completions.parsed_request(_json(await request.body()), aliases, key_name=caller(request).name)
        system_one = Passthrough(backend, chat)
        own_context = context.with_system_one(system_one, system_one.drafter)
        events: Events = answer(chat.request, context=own_context, origin=chat.origin)
        if chat.stream:
            return await until_disconnect(request, _streamed_completion(events, chat))
        return await until_disconnect(request, _whole_completion(events, chat))

    app.serve_directly("POST", "/v1/chat/completions", create_chat_completion)


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequest(f"the body is not JSON: {error}", field="body") from error


async def _whole_completion(events: Events, chat: ChatRequest) -> Response:
    """Return the answer as a whole."""
    document: Mapping[str, Any] | None = None
    run: Run | None = None
    started = await anext(events)
    try:
        async with aclosing(events) as items:
            async for event in items:
                if isinstance(event, PassedThrough):
                    document = event.document
                elif isinstance(event, RunFinished):
                    run = event.run
    except Exception as error:  # noqa: BLE001 - the edge: what is no MetacogError is a bug, logged and named
        return _error_response(error, started)
    assert run is not None
    completion = document if document is not None else chat_completions.completion(run, chat)
    totals = {**(completion.get("usage") or {}), **chat_completions.usage(run)}
    return Json(
        {**completion, "usage": totals, "metacog": chat_completions.explanation(run)}, headers={RUN_ID: run.run_id}
    )


async def _streamed_completion(events: Events, chat: ChatRequest) -> Response:
    """Return the stream; an error before its first event is an ordinary error response, a later one is inside.

    The stream begins, with a heartbeat, when its first event takes long.
    """
    started = await anext(events)
    batches = in_batches(events, HEARTBEAT_S)
    early: list[Sequence[Any]] = []
    try:
        async for batch in batches:
            early.append(batch)
            if not (batch and all(isinstance(event, Routed) for event in batch)):
                break
    except Exception as error:  # noqa: BLE001 - the edge: what is no MetacogError is a bug, logged and named
        return _error_response(error, started)
    headers = {RUN_ID: started.run_id, "cache-control": "no-store"}
    chunks = completed_stream(Writer(started.run_id, chat), _resumed(early, batches))
    return StreamingResponse(chunks, media_type="text/event-stream", headers=headers)


async def completed_stream(writer: Writer, batches: Batches) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a stream and its end mark; a late error becomes a chunk of its own."""
    try:
        async with aclosing(writer.chunks(batches)) as chunks:
            async for chunk in chunks:
                yield chunk
    except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the error goes into the stream
        yield data(error_body(named_error(error)))
    yield DONE


async def _resumed(early: Sequence[Sequence[Any]], batches: Batches) -> Batches:
    """Yield all batches, those that were read already first."""
    async with aclosing(batches):
        for batch in early:
            yield batch
        async for batch in batches:
            yield batch


def _error_response(error: Exception, started: RunStarted) -> Response:
    """Return the error of a run that had started."""
    reply = problem(named_error(error), error_body)
    reply.headers[RUN_ID] = started.run_id
    return reply
