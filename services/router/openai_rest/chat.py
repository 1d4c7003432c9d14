"""This module serves the OpenAI API of the router: `/v1/chat/completions` and `/v1/models`."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.rest import Application, Json, caller, problem, until_disconnect
from chassis.serving.wire import body_of_json
from services.router.openai_rest import shapes
from services.router.openai_rest.replies import StreamFormat, streamed_reply, whole_reply
from services.router.service.gateway.chat_gateway import ChatGateway, StartedChat
from services.router.service.gateway.chat_reply import error_body
from services.router.service.gateway.chat_request import MODELS, unknown_model
from services.router.service.gateway.chat_stream import Writer

CHAT_PATH = "/v1/chat/completions"
# A slash at the end: all paths below it.
PATHS = (CHAT_PATH, "/v1/models", "/v1/models/")


def add_paths(app: Application, gateway: ChatGateway, encoder: Callable[[], Awaitable[str | None]]) -> None:
    """Put the OpenAI paths of chats and models on `app`.

    Args:
        app: The application.
        gateway: What chats need.
        encoder: Returns the name of the sentence encoder; None: unknown.
    """
    offered = gateway.offered
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    app.state.unknown_shapes["/v1/"], app.state.error_schemas[error_body] = error_body, shapes.ERROR
    began = int(time.time())

    async def listed() -> Mapping[str, Mapping[str, Any]]:
        own: dict[str, Mapping[str, Any]] = {name: {"kind": "strategy"} for name in MODELS}
        own |= {name: {"kind": "alias", "model": model} for name, model in gateway.aliases.items()}
        known = own | {name: about for name, about in (await offered.described()).items() if name not in own}
        if encoding := await encoder():
            known.setdefault(encoding, {"kind": "encoder"})
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

    @app.get("/v1/models", openapi_extra=shapes.LIST_MODELS)
    async def list_models() -> Response:
        """List the models: the router's choice, the strategies, aliases, the models of the catalogue, the encoder."""
        return Json({"object": "list", "data": list((await listed()).values())})

    @app.get("/v1/models/{model:path}", openapi_extra=shapes.GET_MODEL)
    async def get_model(model: str) -> Response:
        """Return one model.

        Fails with `MODEL_NOT_FOUND`.
        """
        entries = await listed()
        if model not in entries:
            return problem(unknown_model(model, await offered.names()), error_body)
        return Json(entries[model])

    @app.post(CHAT_PATH, openapi_extra=shapes.CREATE_CHAT_COMPLETION)
    async def create_chat_completion(request: Request) -> Response:
        """Create a chat completion as OpenAI does; its `metacog` field explains the answer.

        Fails with `MODEL_NOT_FOUND`, `UNKNOWN_STRATEGY`, `UNKNOWN_ASSESSOR`, `MEDIA_SOURCE_NOT_ALLOWED`,
        `PROMPT_TOO_LONG`, `BACKEND_REJECTED`, `BACKEND_UNAVAILABLE`, `BACKEND_OVERLOADED`, `BUDGET_EXHAUSTED`,
        `DEADLINE_EXCEEDED`, `REQUEST_ID_REUSED`, or a strategy's own error.
        """
        body, key_name = body_of_json(await request.body()), caller(request).name

        async def answered() -> Response:
            return await _completion(await gateway.start(body, key_name))

        return await until_disconnect(request, answered())

    app.serve_directly("POST", CHAT_PATH, create_chat_completion)


async def _completion(chat: StartedChat) -> Response:
    request, events = chat.request, chat.events
    if request.stream:
        form = StreamFormat(write=lambda run_id, source: Writer(run_id, request).chunks(source), headers=chat.headers)
        return await streamed_reply(events, form)
    return await whole_reply(events, chat.completion, error_body, chat.headers)
