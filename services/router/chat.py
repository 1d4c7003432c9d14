"""The OpenAI face of the router: `/v1/chat/completions` and `/v1/models`."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from chassis.inference.client import Backend
from chassis.rest import Json, caller, dumps, until_disconnect
from chassis.sse import HEARTBEAT_S, told, with_heartbeat
from chassis.wire import MalformedRequest, event_name
from kernel.errors import Code, MetacogError
from services.router.core.strategies import Strategy
from services.router.service import chat as chats
from services.router.service.answer import Desk, answer
from services.router.service.chat import Chat, Passthrough
from services.router.service.values import AnswerToken, FellBack, Passed, Relayed, Routed, Run, RunFinished, RunStarted

PATHS = ("/v1/chat/completions", "/v1/models")
DONE = b"data: [DONE]\n\n"

ERROR_TYPES: Mapping[Code, str] = {
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
}

Events = AsyncIterator[Any]


def error_body(error: MetacogError) -> dict[str, Any]:
    """A refusal in OpenAI's shape."""
    kind = ERROR_TYPES.get(error.code, "invalid_request_error" if error.code.http < 500 else "server_error")
    code = error.reason.lower()
    return {"error": {"message": error.message, "type": kind, "param": error.metadata.get("field"), "code": code}}


def add_paths(app: FastAPI, *, desk: Desk, backend: Backend, aliases: Mapping[str, str]) -> None:
    """Put the OpenAI paths on `app`."""
    app.state.shapes |= dict.fromkeys(PATHS, error_body)
    began = int(time.time())

    @app.get("/v1/models")
    async def models() -> Response:
        """List the models of the gateway: the router's choice, and one for each strategy."""
        names = [*chats.MODELS, *aliases]
        listed = [{"id": name, "object": "model", "created": began, "owned_by": "metacog"} for name in names]
        return Json({"object": "list", "data": listed})

    @app.get("/v1/models/{model:path}")
    async def model(model: str) -> Response:
        """One model of the gateway."""
        if model not in chats.MODELS and model not in aliases:
            return Json(error_body(chats.UnknownModel(f"the model {model!r} does not exist")), status_code=404)
        return Json({"id": model, "object": "model", "created": began, "owned_by": "metacog"})

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        """OpenAI's chat completions; the answer carries a `metacog` field that explains it."""
        chat = chats.understood(_parsed(await request.body()), aliases)
        plain = Passthrough(backend, chat)
        own = replace(desk, answerers={**desk.answerers, Strategy.SYSTEM_ONE: plain})
        events: Events = answer(chat.ask, desk=own, origin=replace(chat.origin, key_name=caller(request).name))
        if chat.stream:
            return await until_disconnect(request, _stream(events, chat))
        return await until_disconnect(request, _whole(events, chat))


def _parsed(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise MalformedRequest(f"the body is not JSON: {wrong}", field="body") from wrong


async def _whole(events: Events, chat: Chat) -> Response:
    document: Mapping[str, Any] | None = None
    run: Run | None = None
    async for event in events:
        if isinstance(event, Passed):
            document = event.document
        elif isinstance(event, RunFinished):
            run = event.run
    assert run is not None
    made = document if document is not None else chats.completion(run, chat)
    totals = {**(made.get("usage") or {}), **chats.usage(run)}
    made = {**made, "usage": totals, "metacog": chats.told(run)}
    return Json(made, headers={"x-metacog-run-id": run.run_id})


async def _stream(events: Events, chat: Chat) -> Response:
    """The stream; a refusal before its first event is an ordinary error answer, a later one is told inside."""
    started = await anext(events)
    assert isinstance(started, RunStarted)
    early: list[Any] = []
    async for event in events:
        early.append(event)
        if not isinstance(event, Routed):
            break
    writer = _Writer(started.run_id, chat)
    headers = {"x-metacog-run-id": started.run_id, "cache-control": "no-store"}
    return StreamingResponse(writer.written(early, events), media_type="text/event-stream", headers=headers)


class _Writer:
    """Writes the chunks of one stream."""

    def __init__(self, run_id: str, chat: Chat) -> None:
        self._chat = chat
        self._head = chats.head(run_id, int(time.time()), chat, "chat.completion.chunk")
        self._held: Mapping[str, Any] | None = None
        self._passed = False
        self._sent = ""
        self._void = False

    async def written(self, early: list[Any], events: Events) -> AsyncIterator[bytes]:
        """Chunks for the events, the last with the `metacog` field, then the end mark."""
        try:
            for event in early:
                for chunk in self._chunks(event):
                    yield chunk
            async with aclosing(with_heartbeat(events, HEARTBEAT_S)) as items:
                async for event in items:
                    if event is None:
                        yield b": still here\n\n"
                    for chunk in self._chunks(event):
                        yield chunk
        except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the stream itself has to tell
            yield _data(error_body(told(error)))
        yield DONE

    def _chunks(self, event: object) -> list[bytes]:
        match event:
            case Passed():
                return self._pass(event)
            case AnswerToken():
                return self._token(event.text)
            case RunFinished():
                return self._finish(event.run)
            case FellBack():
                self._void = bool(self._sent)
                return self._told(event)
            case Routed() | Relayed():
                if isinstance(event, Relayed) and event.name == "stage_started" and event.data["attempt"] > 1:
                    self._void = self._void or (bool(self._sent) and event.data["stage"] == "SYNTHESIS")
                return self._told(event)
        return []

    def _told(self, event: Routed | Relayed | FellBack) -> list[bytes]:
        """A stage event, for those who ask: one choice, an empty delta, and the event beside it."""
        if not self._chat.options.stage_events:
            return []
        name, data = (event.name, event.data) if isinstance(event, Relayed) else (event_name(event), event)
        return [_data({**self._chunk({}), "metacog": {"event": name, "data": data}})]

    def _pass(self, piece: Passed) -> list[bytes]:
        """Bytes go on as they came; only the ends are held back, for the last one carries more."""
        ready = [_data(self._chunk({"content": "\n\n"}))] if self._sent and not self._passed else []
        self._passed = True
        held, self._held = self._held, piece.document
        ready += [_data(held)] if held is not None else []
        return ready if piece.document is not None else [*ready, piece.raw]

    def _token(self, text: str) -> list[bytes]:
        if self._void or (not self._sent and not text.strip()):
            return []
        delta = {"content": text} if self._sent else {"role": "assistant", "content": text.lstrip()}
        self._sent += delta["content"]
        return [_data(self._chunk(delta))]

    def _finish(self, run: Run) -> list[bytes]:
        """What is still to be said, and the last chunk."""
        if self._passed:
            return self._finish_passed(run)
        text = chats.content(run, self._chat.options)
        rest = text.removeprefix(self._sent.rstrip()) if not self._void else ""
        if self._void or (self._sent and rest == text):
            rest = f"\n\n{text}"
        pieces = self._token_anyway(rest) if rest.strip() else []
        last = self._chunk({}, run.finish_reason or "stop")
        if self._chat.include_usage:
            pieces.append(_data(last))
            last = {**self._head, "choices": [], "usage": chats.usage(run)}
        return [*pieces, _data({**last, "metacog": chats.told(run)})]

    def _finish_passed(self, run: Run) -> list[bytes]:
        last = dict(self._held or self._chunk({}, run.finish_reason or "stop"))
        if last.get("usage"):
            last["usage"] = {**last["usage"], **chats.usage(run)}
        return [_data({**last, "metacog": chats.told(run)})]

    def _token_anyway(self, text: str) -> list[bytes]:
        delta = {"content": text} if self._sent else {"role": "assistant", "content": text}
        return [_data(self._chunk(delta))]

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "choices": [choice]}


def _data(document: object) -> bytes:
    return b"data: " + dumps(document) + b"\n\n"
