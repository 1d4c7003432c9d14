"""The gateway writes chat completions as messages of Anthropic's API, whole or as its events."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from chassis.errors import EXACT_STATUSES
from chassis.json_text import InvalidJson, loads
from chassis.serving.sse import sse
from inference import EventParser, object_of, objects_of, parse_object, text_of
from kernel.errors import Code, MetacogError
from services.router.service.gateway.chat_reply import error_body as chat_error_body

# Why an answer was cut; one that was not ends with `tool_use` where it has calls, else with `end_turn`.
CUT: Mapping[str, str] = {"length": "max_tokens", "content_filter": "refusal"}
ERROR_TYPES: Mapping[Code, str] = {
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.NOT_FOUND: "not_found_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
    Code.DEADLINE_EXCEEDED: "timeout_error",
    Code.UNAVAILABLE: "overloaded_error",
}
TOO_LARGE = 413


def error_body(error: MetacogError) -> dict[str, Any]:
    """Return an error in Anthropic's shape, with our reason and the field beside it."""
    kind = ERROR_TYPES.get(error.code, "invalid_request_error" if error.code.http < 500 else "api_error")
    if EXACT_STATUSES.get(error.reason) == TOO_LARGE:
        kind = "request_too_large"
    known = chat_error_body(error)["error"]
    about = {"type": kind, "message": error.message, "param": known["param"], "code": known["code"]}
    return {"type": "error", "error": about}


def error_event(error: MetacogError) -> bytes:
    """Return the event of an error after the first event of a stream."""
    return sse("error", error_body(error))


def message_of(completion: Mapping[str, Any], run_id: str, stops: Sequence[str]) -> dict[str, Any]:
    """Return a chat completion as a message.

    Args:
        completion: The completion.
        run_id: The run that it is of.
        stops: The texts that end the answer, of which a server may name the one that did.
    """
    choice = next(iter(objects_of(completion.get("choices"))), {})
    message = object_of(choice.get("message"))
    uses = [use for call in objects_of(message.get("tool_calls")) for use in _tool_use(call, choice)]
    thought, text = _thought(message), text_of(message.get("content"))
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    content += [{"type": "text", "text": text}] if text or not uses else []
    content += uses
    return {
        **_head(run_id, str(completion.get("model"))),
        "content": content,
        **_stop(choice, stops, has_calls=bool(uses)),
        "usage": _usage(completion),
        "metacog": completion.get("metacog"),
    }


def _head(run_id: str, model: str) -> dict[str, Any]:
    return {"id": f"msg_{run_id}", "type": "message", "role": "assistant", "model": model}


def _thought(message: Mapping[str, Any]) -> str:
    return text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))


def _tool_use(call: Mapping[str, Any], choice: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the block of a call; none where its arguments are no object, as those of an answer that was cut."""
    function = object_of(call.get("function"))
    arguments = text_of(function.get("arguments"))
    if not arguments and not _is_cut(choice):
        arguments = "{}"  # some servers write so that there are none
    try:
        given: object = loads(arguments.encode())
    except InvalidJson:
        return ()
    if not isinstance(given, dict):
        return ()
    return ({"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": given},)


def _is_cut(choice: Mapping[str, Any]) -> bool:
    return text_of(choice.get("finish_reason")) in CUT


def _stop(choice: Mapping[str, Any], stops: Sequence[str], *, has_calls: bool) -> dict[str, Any]:
    """Return why a message ended; a server that names the text that ended it has it in `stop_reason`."""
    named = choice.get("stop_reason")
    if isinstance(named, str) and named in stops:
        return {"stop_reason": "stop_sequence", "stop_sequence": named}
    reason = CUT.get(text_of(choice.get("finish_reason")), "tool_use" if has_calls else "end_turn")
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(completion: Mapping[str, Any]) -> dict[str, Any]:
    usage = object_of(completion.get("usage"))
    return {"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")}


class MessageWriter:
    """The writer writes the events of one message from the chunks of a chat completion.

    Args:
        run_id: The run that it is of.
        model: Model name as the client wrote it.
        stops: The texts that end the answer.
    """

    def __init__(self, run_id: str, model: str, stops: Sequence[str]) -> None:
        self._head = _head(run_id, model)
        self._stops = stops
        self._began = False
        self._blocks = 0
        self._open = ""
        self._call: object = None
        self._has_calls = False
        self._last: Mapping[str, Any] = {}

    async def events(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Yield the events, those of each piece of `chunks` together."""
        parser = EventParser()
        async with aclosing(chunks) as source:
            async for piece in source:
                documents = [parse_object(event.data) for event in parser.feed(piece) if event.data]
                written = b"".join(event for chunk in documents for event in self._events(chunk))
                if written:
                    yield written

    def _events(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if not self._began:
            self._began = True
            yield sse("message_start", {"type": "message_start", "message": self._started()})
        for choice in objects_of(chunk.get("choices")):
            yield from self._delta(object_of(choice.get("delta")))
            if choice.get("finish_reason"):
                self._last = choice
        explained = object_of(chunk.get("metacog"))
        if "event" in explained:  # clients know no other event that they skip
            yield sse("ping", {"type": "ping", "metacog": explained})
        elif explained:
            yield from self._ended(chunk)

    def _started(self) -> dict[str, Any]:
        usage = {"input_tokens": 0, "output_tokens": 0}  # the last event has the totals
        return {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[bytes]:
        thought, text = _thought(delta), text_of(delta.get("content"))
        if thought:
            yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._piece({"type": "thinking_delta", "thinking": thought})
        if text:
            yield from self._block("text", {"type": "text", "text": ""})
            yield self._piece({"type": "text_delta", "text": text})
        for call in objects_of(delta.get("tool_calls")):
            yield from self._called(call)

    def _called(self, call: Mapping[str, Any]) -> Iterator[bytes]:
        function = object_of(call.get("function"))
        if not self._has_calls or call.get("index") != self._call:
            yield from self._closed()
            named = {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": {}}
            self._has_calls, self._call = True, call.get("index")
            yield from self._block("tool_use", named)
        if arguments := text_of(function.get("arguments")):
            yield self._piece({"type": "input_json_delta", "partial_json": arguments})

    def _block(self, kind: str, block: Mapping[str, Any]) -> Iterator[bytes]:
        """Begin a block, unless one of this kind is open."""
        if self._open != kind:
            yield from self._closed()
            self._open = kind
            started = {"type": "content_block_start", "index": self._blocks, "content_block": block}
            yield sse("content_block_start", started)

    def _piece(self, delta: Mapping[str, Any]) -> bytes:
        return sse("content_block_delta", {"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _closed(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield sse("content_block_stop", {"type": "content_block_stop", "index": self._blocks})
            self._blocks += 1

    def _ended(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if not self._blocks and not self._open:
            yield from self._block("text", {"type": "text", "text": ""})
        yield from self._closed()
        delta = _stop(self._last, self._stops, has_calls=self._has_calls)
        explained = {"usage": _usage(chunk), "metacog": chunk.get("metacog")}
        yield sse("message_delta", {"type": "message_delta", "delta": delta, **explained})
        yield sse("message_stop", {"type": "message_stop"})
