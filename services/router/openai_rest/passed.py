"""This module serves the endpoints of model servers that are passed on, such as `/v1/embeddings`."""

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.rest import Application, caller, until_disconnect
from chassis.serving.wire import body_of_json
from services.router.openai_rest import shapes
from services.router.openai_rest.replies import StreamFormat, streamed_reply, whole_reply
from services.router.service.gateway.chat_reply import error_body
from services.router.service.passing.calls import PassedRequest, passed_chunks, whole_passed_reply
from services.router.service.passing.endpoints import ENDPOINTS, PassedEndpoint
from services.router.service.passing.gateway import PassingGateway
from services.router.service.passing.passing import pass_on

DESCRIPTION = """Pass {path} on to a model server.

Fails with `MODEL_NOT_FOUND`, `ENDPOINT_NOT_SERVED`, `MEDIA_SOURCE_NOT_ALLOWED`, `PROMPT_TOO_LONG`, `BACKEND_REJECTED`,
`BACKEND_UNAVAILABLE`, `BACKEND_OVERLOADED`, `ENCODER_UNAVAILABLE`, `BUDGET_EXHAUSTED` or `DEADLINE_EXCEEDED`.
"""
PATHS = tuple(path for endpoint in ENDPOINTS.values() for path in endpoint.paths)


def add_paths(app: Application, gateway: PassingGateway) -> None:
    """Put the endpoints that are passed on on `app`."""
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    for endpoint in ENDPOINTS.values():
        for path in endpoint.paths:
            _add_path(app, path, endpoint, gateway)


def _add_path(app: Application, path: str, endpoint: PassedEndpoint, gateway: PassingGateway) -> None:
    @app.post(
        path,
        name=f"{endpoint.call.lower()} at {path}",
        description=DESCRIPTION.format(path=path),
        openapi_extra=shapes.of_passed(endpoint),
    )
    async def serve(request: Request) -> Response:
        passed = await gateway.parsed(body_of_json(await request.body()), endpoint, caller(request).name)
        return await until_disconnect(request, _reply(passed, gateway))


async def _reply(request: PassedRequest, gateway: PassingGateway) -> Response:
    events = pass_on(request, context=gateway.context)
    if request.stream:
        return await streamed_reply(
            events, StreamFormat(write=lambda run_id, source: passed_chunks(run_id, source, request))
        )
    return await whole_reply(events, lambda run, document: whole_passed_reply(document, run, request), error_body)
