"""A line of a batch is answered as a request to its endpoint is: by the same use case, as a run of its owner."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from chassis.errors import EXACT_STATUSES
from chassis.json_text import dumps
from chassis.serving.named_errors import named_error
from kernel.errors import MetacogError
from kernel.values import value
from services.router.service.answering.values import PassedThrough, RunFinished
from services.router.service.gateway.chat_gateway import ChatGateway
from services.router.service.gateway.chat_reply import error_body
from services.router.service.gateway.chat_request import repeatable_options
from services.router.service.gateway.continuation import Continuation
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.gateway.response_reply import response_of
from services.router.service.gateway.response_request import FIELDS, parsed_response
from services.router.service.gateway.stored_responses import kept_request
from services.router.service.passing.calls import whole_passed_reply
from services.router.service.passing.endpoints import ENDPOINTS, PassedEndpoint
from services.router.service.passing.gateway import PassingGateway
from services.router.service.passing.passing import pass_on
from services.router.service.runs.values import CallKind, Run

Document = Mapping[str, Any]
Answer = Callable[[dict[str, Any], str, str], Awaitable["LineReply"]]
PASSED = (CallKind.COMPLETION, CallKind.EMBEDDING)


@value
class LineReply:
    """The reply to a line.

    Attributes:
        status: Its HTTP status, as the endpoint would send it.
        run_id: The run; empty: there was none.
        body: The reply, or the error in OpenAI's shape.
    """

    status: int
    run_id: str
    body: Document


def reply_of_error(error: Exception) -> LineReply:
    """Return the reply to a line that ended in an error; what is no named error is a bug, logged and named."""
    named = error if isinstance(error, MetacogError) else named_error(error)
    status = EXACT_STATUSES.get(named.reason, named.code.http)
    return LineReply(status=status, run_id=named.metadata.get("run_id", ""), body=error_body(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAnswers:
    """These endpoints answer lines.

    Attributes:
        chats: Answers chats.
        continuation: Finds what responses continue.
        passing: Passes calls on.
        more_fields: Fields that the operator lets through, whatever the endpoint.
    """

    chats: ChatGateway
    continuation: Continuation
    passing: PassingGateway
    more_fields: list[str]

    @property
    def endpoints(self) -> Mapping[str, Answer]:
        """Return what answers the lines of each path."""
        passed = {ENDPOINTS[call].paths[0]: self._passed(ENDPOINTS[call]) for call in PASSED}
        return {"/v1/chat/completions": self._chat, "/v1/responses": self._response, **passed}

    async def answer(self, endpoint: str, body: dict[str, Any], key_name: str, request_id: str) -> LineReply:
        """Answer a line.

        Args:
            endpoint: Path of its endpoint.
            body: Its request.
            key_name: Name of the API key that its batch belongs to.
            request_id: Names the line, so that it is the same run when it is repeated, where the endpoint knows this.

        Raises:
            MetacogError: The error that left no reply.
        """
        return await self.endpoints[endpoint](body, key_name, request_id)

    async def _chat(self, body: dict[str, Any], key_name: str, request_id: str) -> LineReply:
        chat = await self.chats.start({**body, **repeatable_options(body, request_id)}, key_name)
        return await _reply(chat.events, chat.completion)

    async def _response(self, body: dict[str, Any], key_name: str, request_id: str) -> LineReply:
        fields = PassedFields(self.more_fields, FIELDS)
        given = {**body, **repeatable_options(body, request_id)}
        asked = parsed_response(given, fields, self.chats.media_hosts, self.more_fields)
        continued = await self.continuation.chat(asked, key_name)
        chat = await self.chats.start(
            continued.body,
            key_name,
            CallKind.RESPONSE,
            kept_from=continued.kept_from,
            kept_request=kept_request(asked),
        )

        def written(run: Run, document: Document | None) -> Document:
            return response_of(chat.completion(run, document), run.run_id, asked, store=bool(run.continuation))

        return await _reply(chat.events, written)

    def _passed(self, endpoint: PassedEndpoint) -> Answer:
        async def answer(body: dict[str, Any], key_name: str, _: str) -> LineReply:
            request = await self.passing.parsed(body, endpoint, key_name)
            events = pass_on(request, context=self.passing.context)
            return await _reply(events, lambda run, document: whole_passed_reply(document, run, request))

        return answer


async def _reply(events: AsyncGenerator[Any, None], written: Callable[[Run, Document | None], Document]) -> LineReply:
    document: Document | None = None
    run: Run | None = None
    async with aclosing(events) as items:
        async for event in items:
            if isinstance(event, PassedThrough):
                document = event.document
            elif isinstance(event, RunFinished):
                run = event.run
    assert run is not None
    return LineReply(status=200, run_id=run.run_id, body=written(run, document))


def written_line(line: Mapping[str, Any]) -> bytes:
    """Return a line of a file of results, with its end."""
    return dumps(line) + b"\n"
