"""This module serves OpenAI's Responses API: `/v1/responses` and what lies under it."""

from contextlib import aclosing

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.rest import Application, Json, caller, query, query_parameters, until_disconnect
from chassis.serving.wire import body_of_json
from kernel.errors import MetacogError
from services.router.openai_rest import shapes
from services.router.openai_rest.replies import Chunks, Events, StreamFormat, streamed_reply, whole_reply
from services.router.service.answering.values import RunFinished
from services.router.service.gateway.chat_gateway import ChatGateway, StartedChat
from services.router.service.gateway.chat_reply import error_body
from services.router.service.gateway.chat_stream import Writer
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.gateway.response_reply import ResponseWriter, response_of
from services.router.service.gateway.response_request import FIELDS, ResponseRequest, parsed_response
from services.router.service.gateway.stored_responses import (
    ListInputItemsRequest,
    RetrieveResponseRequest,
    StoredResponses,
    kept_request,
)
from services.router.service.runs.values import CallKind

PATH = "/v1/responses"


def add_paths(
    app: Application,
    chats: ChatGateway,
    stored: StoredResponses,
    more_fields: list[str],
) -> None:
    """Put the Responses API on `app`."""
    app.state.shapes |= dict.fromkeys((PATH, f"{PATH}/"), error_body)
    _add_stored_paths(app, stored)
    continuation = stored.continuation
    fields = PassedFields(more_fields, FIELDS)

    @app.post(PATH, openapi_extra=shapes.CREATE_RESPONSE)
    async def create_response(request: Request) -> Response:
        """Create a response as OpenAI does; its `metacog` field explains the answer.

        Fails with `MODEL_NOT_FOUND`, `UNKNOWN_STRATEGY`, `UNKNOWN_ASSESSOR`, `MEDIA_SOURCE_NOT_ALLOWED`,
        `PROMPT_TOO_LONG`, `BACKEND_REJECTED`, `BACKEND_UNAVAILABLE`, `BACKEND_OVERLOADED`, `BUDGET_EXHAUSTED`,
        `DEADLINE_EXCEEDED`, `RUN_NOT_FOUND`, `DATABASE_UNAVAILABLE`, or a strategy's own error.
        """
        body, key_name = body_of_json(await request.body()), caller(request).name
        asked = parsed_response(body, fields, chats.media_hosts, more_fields)

        async def answered() -> Response:
            continued = await continuation.chat(asked, key_name)
            chat = await chats.start(
                continued.body,
                key_name,
                CallKind.RESPONSE,
                kept_from=continued.kept_from,
                kept_request=kept_request(asked),
            )
            return await _response(asked, chat, store=continuation.is_kept(asked))

        return await until_disconnect(request, answered())


def _add_stored_paths(app: Application, stored: StoredResponses) -> None:
    @app.get(f"{PATH}/{{response_id}}", openapi_extra=shapes.GET_RESPONSE)
    async def get_response(response_id: str, request: Request) -> Response:
        """Return a response that was stored, as it was given, but for what its model thought.

        Fails with `RUN_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        query(request, RetrieveResponseRequest)
        return Json(await stored.retrieve(response_id, caller(request).name))

    @app.delete(f"{PATH}/{{response_id}}", openapi_extra=shapes.DELETE_RESPONSE)
    async def delete_response(response_id: str, request: Request) -> Response:
        """Delete what a stored response and its conversation say; its run keeps its numbers.

        Fails with `RUN_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        return Json(await stored.delete(response_id, caller(request).name))

    @app.get(
        f"{PATH}/{{response_id}}/input_items",
        openapi_extra={**shapes.LIST_INPUT_ITEMS, **query_parameters(ListInputItemsRequest)},
    )
    async def list_input_items(response_id: str, request: Request) -> Response:
        """List the items that the model read for a stored response, those of earlier responses among them.

        Fails with `RUN_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        wanted = query(request, ListInputItemsRequest)
        return Json(await stored.input_items(response_id, caller(request).name, wanted))


async def _response(asked: ResponseRequest, chat: StartedChat, *, store: bool) -> Response:
    request, events = chat.request, chat.events
    if not request.stream:
        return await whole_reply(
            events,
            lambda run, document: response_of(
                chat.completion(run, document), run.run_id, asked, store=bool(run.continuation)
            ),
            error_body,
            chat.headers,
        )
    writers: list[ResponseWriter] = []

    def write(run_id: str, source: Events) -> Chunks:
        writers.append(ResponseWriter(run_id, asked, store=store))
        return writers[0].events(Writer(run_id, request).chunks(_noted(source, writers[0])))

    def failed(error: MetacogError) -> bytes:
        return writers[0].error(error)

    form = StreamFormat(write=write, error=failed, end=b"", shape=error_body, headers=chat.headers)
    return await streamed_reply(events, form)


async def _noted(events: Events, writer: ResponseWriter) -> Events:
    """Yield the events of a run; its writer then knows whether it can be continued."""
    async with aclosing(events) as source:
        async for event in source:
            if isinstance(event, RunFinished):
                writer.finished(store=bool(event.run.continuation))
            yield event
