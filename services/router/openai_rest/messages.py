"""This module serves Anthropic's Messages API: `/v1/messages` and `/v1/messages/count_tokens`."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.rest import Application, caller, until_disconnect
from chassis.serving.wire import body_of_json
from inference import EndpointNotServed
from services.router.openai_rest import shapes
from services.router.openai_rest.replies import StreamFormat, streamed_reply, whole_reply
from services.router.service.gateway.chat_gateway import ChatGateway, StartedChat
from services.router.service.gateway.chat_stream import Writer
from services.router.service.gateway.messages_reply import MessageWriter, error_body, error_event, message_of
from services.router.service.gateway.messages_request import (
    COUNTED_FIELDS,
    FIELDS,
    chat_of_message_request,
    counted_call,
)
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.passing.endpoints import ENDPOINTS
from services.router.service.passing.gateway import PassingGateway
from services.router.service.passing.passing import pass_on
from services.router.service.runs.values import CallKind, Run

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
PATHS = (PATH, COUNT_PATH)


def add_paths(app: Application, chats: ChatGateway, passing: PassingGateway) -> None:
    """Put the Messages API on `app`."""
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    app.state.error_schemas[error_body] = shapes.MESSAGE_ERROR
    hosts, more = passing.media_hosts, passing.more_fields
    fields, counted_fields = PassedFields(more, FIELDS), PassedFields(more, COUNTED_FIELDS)

    @app.post(PATH, openapi_extra=shapes.CREATE_MESSAGE)
    async def create_message(request: Request) -> Response:
        """Create a message as Anthropic does; its `metacog` field explains the answer.

        Fails with `MODEL_NOT_FOUND`, `UNKNOWN_STRATEGY`, `UNKNOWN_ASSESSOR`, `MEDIA_SOURCE_NOT_ALLOWED`,
        `PROMPT_TOO_LONG`, `BACKEND_REJECTED`, `BACKEND_UNAVAILABLE`, `BACKEND_OVERLOADED`, `BUDGET_EXHAUSTED`,
        `DEADLINE_EXCEEDED`, or a strategy's own error.
        """
        body = chat_of_message_request(body_of_json(await request.body()), fields, hosts, more)
        key_name = caller(request).name

        async def answered() -> Response:
            return await _message(await chats.start(body, key_name, CallKind.MESSAGE), body.get("stop", []))

        return await until_disconnect(request, answered())

    @app.post(COUNT_PATH, openapi_extra=shapes.COUNT_TOKENS)
    async def count_tokens(request: Request) -> Response:
        """Count the tokens of a message with its tools, by the model server's own template.

        Fails with `MODEL_NOT_FOUND`, `ENDPOINT_NOT_SERVED`, `MEDIA_SOURCE_NOT_ALLOWED`, `BACKEND_REJECTED`,
        `BACKEND_UNAVAILABLE`, `BACKEND_OVERLOADED` or `DEADLINE_EXCEEDED`.
        """
        body = counted_call(body_of_json(await request.body()), counted_fields, hosts)
        call = await passing.parsed(body, ENDPOINTS[CallKind.TOKENIZE], caller(request).name, for_chat=True)
        events = pass_on(call, context=passing.context)
        return await until_disconnect(request, whole_reply(events, _count, error_body))


async def _message(chat: StartedChat, stops: list[str]) -> Response:
    request, events = chat.request, chat.events
    if not request.stream:
        return await whole_reply(
            events,
            lambda run, document: message_of(chat.completion(run, document), run.run_id, stops),
            error_body,
            chat.headers,
        )
    form = StreamFormat(
        write=lambda run_id, source: MessageWriter(run_id, request.model, stops).events(
            Writer(run_id, request).chunks(source)
        ),
        error=error_event,
        end=b"",
        shape=error_body,
        headers=chat.headers,
    )
    return await streamed_reply(events, form)


def _count(run: Run, document: Mapping[str, Any] | None) -> Mapping[str, Any]:
    count = (document or {}).get("count")
    if not isinstance(count, int):
        raise EndpointNotServed(
            f"the server of {run.model or 'this model'} does not count the tokens of messages; name a model of vLLM",
            path="/tokenize",
        )
    return {"input_tokens": count}
