"""The gateway writes chat completions as responses of OpenAI's Responses API, whole or as its events."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from chassis.serving.sse import sse
from inference import EventParser, count_of, object_of, objects_of, parse_object, text_of
from kernel.errors import MetacogError
from services.router.service.gateway.chat_reply import error_body
from services.router.service.gateway.response_request import ID_PREFIX, ResponseRequest

# Fields of a request that its response repeats, with what stands there where the request has none.
REPEATED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
TEXT, REASONING, CALL = "message", "reasoning", "function_call"


def response_of(completion: Mapping[str, Any], run_id: str, request: ResponseRequest, *, store: bool) -> dict[str, Any]:
    """Return a chat completion as a response.

    Args:
        completion: The completion.
        run_id: The run that it is of.
        request: Its request.
        store: Whether it can be continued.
    """
    choice = next(iter(objects_of(completion.get("choices"))), {})
    message = object_of(choice.get("message"))
    calls = objects_of(message.get("tool_calls"))
    thought, text = _thought(message), text_of(message.get("content"))
    output = [_reasoning(run_id, thought)] if thought else []
    output += [_message(run_id, text)] if text or not calls else []
    output += [_call(call) for call in calls]
    head = _head(run_id, completion, request, store=store)
    return {**head, **_ended(choice, completion), "output": output}


def _head(run_id: str, completion: Mapping[str, Any], request: ResponseRequest, *, store: bool) -> dict[str, Any]:
    repeated = {name: request.given.get(name, default) for name, default in REPEATED.items()}
    return {
        "id": f"{ID_PREFIX}{run_id}",
        "object": "response",
        "created_at": completion.get("created"),
        "model": completion.get("model"),
        **repeated,
        "store": store,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "status": "in_progress",
        "output": [],
        "usage": None,
    }


def _ended(choice: Mapping[str, Any], completion: Mapping[str, Any]) -> dict[str, Any]:
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    cut = reasons.get(text_of(choice.get("finish_reason")))
    return {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "usage": _usage(object_of(completion.get("usage"))),
        "metacog": completion.get("metacog"),
    }


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage; of the details, which clients add up, what no server reports counts as none."""
    read, written = object_of(usage.get("prompt_tokens_details")), object_of(usage.get("completion_tokens_details"))
    return {
        "input_tokens": usage.get("prompt_tokens"),
        "input_tokens_details": {"cached_tokens": count_of(read.get("cached_tokens")) or 0},
        "output_tokens": usage.get("completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": count_of(written.get("reasoning_tokens")) or 0},
        "total_tokens": usage.get("total_tokens"),
    }


def _thought(message: Mapping[str, Any]) -> str:
    return text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))


def _reasoning(run_id: str, text: str, status: str = "completed") -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"type": REASONING, "id": f"rs_{run_id}", "summary": [], "content": content, "status": status}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(run_id: str, text: str, status: str = "completed") -> dict[str, Any]:
    content = [_part(text)] if status == "completed" else []
    return {"type": TEXT, "id": f"msg_{run_id}", "role": "assistant", "status": status, "content": content}


def _call(call: Mapping[str, Any], status: str = "completed") -> dict[str, Any]:
    function, name = object_of(call.get("function")), text_of(call.get("id"))
    return {
        "type": CALL,
        "id": f"fc_{name}",
        "call_id": name,
        "name": function.get("name"),
        "arguments": text_of(function.get("arguments")),
        "status": status,
    }


class ResponseWriter:
    """The writer writes the events of one response from the chunks of a chat completion.

    Args:
        run_id: The run that it is of.
        request: Its request.
        store: Whether it may be continued; whether it can be is `finished` with its run.
    """

    def __init__(self, run_id: str, request: ResponseRequest, *, store: bool) -> None:
        self._run_id = run_id
        self._request = request
        self._store = store
        self._number = 0
        self._head: dict[str, Any] = {}
        self._output: list[dict[str, Any]] = []
        self._open = ""
        self._pieces: list[str] = []
        self._call: dict[str, Any] = {}
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

    def finished(self, *, store: bool) -> None:
        """Note whether the response can be continued, which its last event states."""
        self._store = store

    def error(self, error: MetacogError) -> bytes:
        """Return the event of an error after the first event."""
        about = error_body(error)["error"]
        return self._event("error", code=about["code"], message=about["message"], param=about["param"])

    def _event(self, kind: str, **more: Any) -> bytes:  # noqa: ANN401 - JSON is of any kind
        self._number += 1
        return sse(kind, {"type": kind, "sequence_number": self._number - 1, **more})

    def _events(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if not self._head:
            self._head = _head(self._run_id, chunk, self._request, store=self._store)
            yield self._event("response.created", response=self._head)
            yield self._event("response.in_progress", response=self._head)
        for choice in objects_of(chunk.get("choices")):
            yield from self._delta(object_of(choice.get("delta")))
            if choice.get("finish_reason"):
                self._last = choice
        explained = object_of(chunk.get("metacog"))
        if "event" in explained:
            yield self._event("response.in_progress", response=self._head, metacog=explained)
        elif explained:
            yield from self._finished(chunk)

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[bytes]:
        if thought := _thought(delta):
            yield from self._item(REASONING)
            yield self._piece("response.reasoning_text.delta", thought, content_index=0)
        if text := text_of(delta.get("content")):
            yield from self._item(TEXT)
            yield self._piece("response.output_text.delta", text, content_index=0, logprobs=[])
        for call in objects_of(delta.get("tool_calls")):
            if self._open != CALL or call.get("index") != self._call.get("index"):
                yield from self._closed()
                self._call = {**call, "function": object_of(call.get("function"))}
                yield from self._item(CALL)
            if arguments := text_of(object_of(call.get("function")).get("arguments")):
                yield self._piece("response.function_call_arguments.delta", arguments)

    def _item(self, kind: str) -> Iterator[bytes]:
        """Begin an item, unless one of this kind is open."""
        if self._open == kind:
            return
        yield from self._closed()
        self._open, self._pieces = kind, []
        yield self._event("response.output_item.added", **self._place, item=self._now("in_progress"))
        if kind == TEXT:
            yield self._event("response.content_part.added", **self._at, content_index=0, part=_part(""))

    @property
    def _place(self) -> dict[str, Any]:
        return {"output_index": len(self._output)}

    @property
    def _at(self) -> dict[str, Any]:
        return {"item_id": self._now("in_progress")["id"], **self._place}

    def _now(self, status: str) -> dict[str, Any]:
        """Return the open item as it is now."""
        text = "".join(self._pieces)
        if self._open == CALL:
            function = {**self._call["function"], "arguments": text}
            return _call({**self._call, "function": function}, status)
        return _message(self._run_id, text, status) if self._open == TEXT else _reasoning(self._run_id, text, status)

    def _piece(self, kind: str, delta: str, **more: Any) -> bytes:  # noqa: ANN401 - JSON is of any kind
        self._pieces.append(delta)
        return self._event(kind, **self._at, delta=delta, **more)

    def _closed(self) -> Iterator[bytes]:
        if not self._open:
            return
        text, at = "".join(self._pieces), self._at
        match self._open:
            case "message":
                yield self._event("response.output_text.done", **at, content_index=0, text=text, logprobs=[])
                yield self._event("response.content_part.done", **at, content_index=0, part=_part(text))
            case "reasoning":
                yield self._event("response.reasoning_text.done", **at, content_index=0, text=text)
            case _:
                name = self._call["function"].get("name")
                yield self._event("response.function_call_arguments.done", **at, name=name, arguments=text)
        item = self._now("completed")
        yield self._event("response.output_item.done", **self._place, item=item)
        self._output.append(item)
        self._open = ""

    def _finished(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if not self._output and not self._open:
            yield from self._item(TEXT)
        yield from self._closed()
        response = {**self._head, "store": self._store, **_ended(self._last, chunk), "output": self._output}
        yield self._event(f"response.{response['status']}", response=response)
