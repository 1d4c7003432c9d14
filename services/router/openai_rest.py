"""This module serves the OpenAI API of the router: `/v1/chat/completions` and `/v1/models`."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from chassis.serving import edge
from chassis.serving.named_errors import named_error
from chassis.serving.rest import Application, Json, caller, problem, until_disconnect
from chassis.serving.sse import HEARTBEAT, HEARTBEAT_S, ClosingStream, in_batches
from chassis.serving.wire import body_of_json
from inference import BackendModelClients
from kernel.errors import MetacogError
from services.router.service.answering.answer import AnswerContext, answer
from services.router.service.answering.values import PassedThrough, RunFinished, RunStarted
from services.router.service.gateway import chat_completions
from services.router.service.gateway.chat_completions import ChatRequest, Passthrough, error_body
from services.router.service.gateway.chat_stream import DONE, Writer, data
from services.router.service.gateway.formatted_answer import strategies_in_format
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.runs.values import Run

CHAT_PATH = "/v1/chat/completions"
# A slash at the end: all paths below it.
PATHS = (CHAT_PATH, "/v1/models", "/v1/models/")
RUN_ID = edge.RUN_ID.decode()
REASON = "x-metacog-reason"

Events = AsyncGenerator[Any, None]
Batches = AsyncGenerator[Sequence[bytes], None]


class OfferedModels:
    """These models are offered beside the gateway's own: those of the catalogue, or those that the one server lists.

    Args:
        models: The models of the process.
        aliases: Names that stand for other models.
    """

    def __init__(self, models: BackendModelClients, aliases: Mapping[str, str]) -> None:
        self._models = models
        self._aliases = aliases

    async def names(self) -> Sequence[str]:
        """Return the names of all models, aliases among them."""
        return list(await self.described())

    async def described(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of all models by name: a model with its price, an alias with the model it stands for."""
        snapshot = self._models.latest()
        listed: dict[str, Mapping[str, Any]] = {}
        for model in snapshot.catalogue.models:
            price = snapshot.backends[model.name].config.price
            listed[model.name] = {"kind": "model", "price": None if price is None else asdict(price)}
            listed |= {alias: {"kind": "alias", "model": model.name} for alias in model.aliases}
        if not snapshot.catalogue.names_closed:
            with suppress(MetacogError):  # a server that is away lists nothing
                for served in await snapshot.default.models():
                    listed.setdefault(served.id, {"kind": "model", "price": None})
                    for alias in served.aliases:
                        listed.setdefault(alias, {"kind": "alias", "model": served.id})
        return listed

    async def answering(self, name: str) -> Sequence[str]:
        """Return the models that a request for `name` may mean: none where it is one of the gateway's own."""
        named = self._aliases.get(name, name)
        if named in chat_completions.MODELS:
            return ()
        default = self._models.latest().catalogue.default.name
        return (default,) if named == default else await self.names()


def add_paths(
    app: Application,
    *,
    context: AnswerContext,
    models: BackendModelClients,
    aliases: Mapping[str, str],
    media_hosts: Sequence[str],
    passed: PassedFields,
) -> None:
    """Put the OpenAI paths on `app`."""
    offered = OfferedModels(models, aliases)
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    app.state.unknown_shapes["/v1/"] = error_body
    began = int(time.time())

    async def listed() -> Mapping[str, Mapping[str, Any]]:
        own: dict[str, Mapping[str, Any]] = {name: {"kind": "strategy"} for name in chat_completions.MODELS}
        own |= {name: {"kind": "alias", "model": model} for name, model in aliases.items()}
        known = own | {name: about for name, about in (await offered.described()).items() if name not in own}
        return {
            name: {
                "id": name,
                "object": "model",
                "created": began,
                "owned_by": "metacog" if name in own else "backend",
                "metacog": about,
            }
            for name, about in known.items()
        }

    @app.get("/v1/models")
    async def list_models() -> Response:
        """List the models: the router's choice, one for each strategy, aliases, and every model of the catalogue."""
        return Json({"object": "list", "data": list((await listed()).values())})

    @app.get("/v1/models/{model:path}")
    async def get_model(model: str) -> Response:
        """Return one model."""
        entries = await listed()
        if model not in entries:
            return problem(chat_completions.unknown_model(model, await offered.names()), error_body)
        return Json(entries[model])

    @app.post(CHAT_PATH)
    async def create_chat_completion(request: Request) -> Response:
        """Create a chat completion as OpenAI does; its `metacog` field explains the answer."""
        body = body_of_json(await request.body())
        answering = await offered.answering(chat_completions.model_name(body))
        chat = chat_completions.parsed_request(
            body,
            aliases,
            models=answering,
            key_name=caller(request).name,
            media_hosts=media_hosts,
            passed=passed,
        )
        system_one = Passthrough(models, chat)
        own_context = context.with_system_one(
            system_one, system_one.drafter, strategies_in_format(chat, models, context.strategies)
        )
        events: Events = answer(chat.request, context=own_context, origin=chat.origin)
        if chat.stream:
            return await until_disconnect(request, _streamed_completion(events, chat))
        return await until_disconnect(request, _whole_completion(events, chat))

    app.serve_directly("POST", CHAT_PATH, create_chat_completion)


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
    completion = (
        chat_completions.passed_completion(document, run, chat)
        if document is not None
        else chat_completions.completion(run, chat)
    )
    totals = {**(completion.get("usage") or {}), **chat_completions.usage(run)}
    explained = {**completion, "usage": totals, "metacog": chat_completions.explanation(run)}
    return Json(explained, headers=_headers(run.run_id, chat))


async def _streamed_completion(events: Events, chat: ChatRequest) -> Response:
    """Return the stream; an error before its first chunk is an ordinary error response, a later one is inside.

    The stream begins, with a heartbeat, when its first chunk takes long.
    """
    started = await anext(events)
    batches = in_batches(Writer(started.run_id, chat).chunks(events), HEARTBEAT_S)
    try:
        first = await anext(batches, ())
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # the writer reads them, and closes them itself
            await events.aclose()
        raise
    except Exception as error:  # noqa: BLE001 - the edge: what is no MetacogError is a bug, logged and named
        return _error_response(error, started)
    headers = {**_headers(started.run_id, chat), "cache-control": "no-store"}
    return ClosingStream(completed_stream(_resumed(first, batches)), batches.aclose, headers=headers)


def _headers(run_id: str, chat: ChatRequest) -> Mapping[str, str]:
    """Return the headers of an answer: its run, and why System 1 gives it where another strategy was asked for."""
    return {RUN_ID: run_id, **({REASON: chat.origin.reason} if chat.replaced else {})}


async def completed_stream(batches: Batches) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a stream, those of a batch together, and its end mark.

    An empty batch is a heartbeat; a late error becomes a chunk of its own.
    """
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield b"".join(batch) or HEARTBEAT
    except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the error goes into the stream
        yield data(error_body(named_error(error)))
    yield DONE


async def _resumed(first: Sequence[bytes], batches: Batches) -> Batches:
    """Yield all batches, with the one that was read already."""
    async with aclosing(batches):
        yield first
        async for batch in batches:
            yield batch


def _error_response(error: Exception, started: RunStarted) -> Response:
    """Return the error of a run that had started."""
    reply = problem(named_error(error), error_body)
    reply.headers[RUN_ID] = started.run_id
    return reply
