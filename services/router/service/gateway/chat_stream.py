"""A streamed chat completion is written chunk by chunk."""

import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from chassis.json_text import dumps
from chassis.serving.wire import event_name
from inference import parse_event, parse_object
from services.router.service.answering.stop_texts import restarts_answer
from services.router.service.answering.values import AnswerToken, PassedThrough, RelayedEvent, RunFinished
from services.router.service.assessment.values import Routed
from services.router.service.gateway import chat_reply
from services.router.service.gateway.chat_request import ChatRequest
from services.router.service.runs.values import FellBack, Run

DONE = b"data: [DONE]\n\n"


class Writer:
    """The writer writes the chunks of one stream.

    Args:
        run_id: The run that it is of.
        chat: The chat request.
    """

    def __init__(self, run_id: str, chat: ChatRequest) -> None:
        self._chat = chat
        self._head = chat_reply.head(run_id, int(time.time()), chat, "chat.completion.chunk")
        self._backend = _BackendChunks(own=self._head, include_usage=chat.include_usage)
        self._sent = ""
        self._has_role = False
        self._text_is_void = False
        self._held: Sequence[bytes] = ()

    async def chunks(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
        """Yield what each event has for the client, and nothing for an event that has nothing.

        So whoever waits for the next piece sees how long the client has had none. The decision waits for what follows
        it: an error until then is an ordinary error response. The last chunk has the `metacog` field. The end mark is
        left to the caller, who writes it after an error too.
        """
        async with aclosing(events) as source:
            async for event in source:
                chunks = self._chunks(event)
                if isinstance(event, Routed):
                    self._held = chunks
                elif chunks:
                    held, self._held = self._held, ()
                    yield b"".join([*held, *chunks])

    def _chunks(self, event: object) -> Sequence[bytes]:
        match event:
            case PassedThrough():
                return self._pass(event)
            case AnswerToken():
                return self._token(event.text)
            case RunFinished():
                return self._finish(event.run)
            case FellBack():
                self._text_is_void = bool(self._sent)
                return self._stage_event(event)
            case Routed() | RelayedEvent():
                self._text_is_void = self._text_is_void or (
                    isinstance(event, RelayedEvent) and bool(self._sent) and restarts_answer(event)
                )
                role = self._role() if isinstance(event, RelayedEvent) else []
                return [*role, *self._stage_event(event)]
        return []

    def _stage_event(self, event: Routed | RelayedEvent | FellBack) -> list[bytes]:
        """Return a stage event, where the client asks for them: one choice, an empty delta, and the event beside it."""
        if not self._chat.options.stage_events:
            return []
        name, content = (event.name, event.data) if isinstance(event, RelayedEvent) else (event_name(event), event)
        return [self._own({}, metacog={"event": name, "data": content})]

    def _pass(self, piece: PassedThrough) -> list[bytes]:
        """Return the backend's own chunks; the text of a strategy that failed is set off from them."""
        separator = [self._own({"content": "\n\n"})] if self._sent and not self._backend.began else []
        return [*separator, *self._backend.passed(piece)]

    def _token(self, text: str) -> list[bytes]:
        if self._text_is_void or (not self._sent and not text.strip()):
            return []
        return [self._content(text if self._sent else text.lstrip())]

    def _role(self) -> list[bytes]:
        """Return the chunk by which a deliberation begins, before any of its text; none if there was one."""
        return [] if self._has_role else [self._content("")]

    def _content(self, text: str) -> bytes:
        delta = {"content": text} if self._has_role else {"role": "assistant", "content": text}
        self._sent += text
        self._has_role = True
        return self._own(delta)

    def _finish(self, run: Run) -> list[bytes]:
        """Return the text that is still to be sent, and the last chunks."""
        if self._backend.began:
            last = self._backend.last or self._chunk({}, run.finish_reason or "stop")
            return self._ended(last, run, self._backend.usage)
        rest = self._rest(chat_reply.content(run, self._chat.options))
        pieces = [self._content(rest)] if rest.strip() else []
        delta = {} if self._has_role else {"role": "assistant", "content": ""}
        return [*pieces, *self._ended(self._chunk(delta, run.finish_reason or "stop"), run, {})]

    def _rest(self, text: str) -> str:
        """Return the part of `text` that has not been sent; all of it, set off, where other text was sent."""
        if not self._text_is_void:
            for sent in (self._sent, self._sent.rstrip()):
                if text.startswith(sent):
                    return text.removeprefix(sent)
        return f"\n\n{text}"

    def _ended(self, last: Mapping[str, Any], run: Run, usage: Mapping[str, Any]) -> list[bytes]:
        """Return the chunk that ends the choice and, if asked for, one with usage alone; the last explains the run."""
        totals = {**usage, **chat_reply.usage(run)}
        explained = {"metacog": chat_reply.explanation(run, self._chat)}
        if self._chat.include_usage:
            head = {name: last[name] for name in self._head if name in last}
            return [data({**last, "usage": None}), data({**head, "choices": [], "usage": totals, **explained})]
        return [data({**last, **({"usage": totals} if last.get("usage") else {}), **explained})]

    def _own(self, delta: Mapping[str, Any], **more: Any) -> bytes:  # noqa: ANN401 - JSON is of any kind
        return data({**self._chunk(delta), **more})

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "choices": [choice], **({"usage": None} if self._chat.include_usage else {})}


class _BackendChunks:
    """The backend's chunks pass to the client with their bytes unchanged, but for their name and what OpenAI promises.

    The end of a choice is held back, since the last one contains more; usage comes once, last, and from us.

    Args:
        own: The completion's `id` and `model`.
        include_usage: Whether every chunk has a `usage`.

    Attributes:
        began: Whether there was a chunk.
        last: The end of a choice that is held back.
        usage: Usage as the backend reports it.
    """

    def __init__(self, *, own: Mapping[str, Any], include_usage: bool) -> None:
        self.began = False
        self.last: Mapping[str, Any] | None = None
        self.usage: Mapping[str, Any] = {}
        self._own = {name: own[name] for name in ("id", "model")}
        self._replacements: Sequence[Replacement] = ()
        self._include_usage = include_usage

    def passed(self, piece: PassedThrough) -> list[bytes]:
        """Return what goes to the client now."""
        self.began = True
        chunk = piece.document
        if chunk is None:
            return [*self._released(), self._completed(piece.raw)]
        self.usage = chunk.get("usage") or self.usage
        if not chunk.get("choices"):
            return []
        ready = self._released()
        self.last = {**chat_reply.without_server_fields(chunk), **self._own}
        return ready

    def _released(self) -> list[bytes]:
        held, self.last = self.last, None
        if held is None:
            return []
        return [data({**held, "usage": None} if self._include_usage else held)]

    def _completed(self, raw: bytes) -> bytes:
        """Return `raw` with our id and model, and with a null usage where each chunk has one; a comment as it is."""
        if not raw.startswith(b"data:"):
            return raw
        raw = self._renamed(raw)
        if self._include_usage:
            chunk = raw.rstrip()
            if chunk.endswith(b"}") and b'"usage"' not in chunk:
                return chunk[:-1] + b',"usage":null}\n\n'
        return raw

    def _renamed(self, raw: bytes) -> bytes:
        """Return a chunk with our id and model, its bytes otherwise as they came; written anew where that is unsafe."""
        renamed = _replaced(raw, self._replacements)
        if renamed is not None:
            return renamed
        chunk = parse_object(parse_event(raw).data or b"")
        if not chunk:
            return raw
        self._replacements = _replacements(chunk, self._own)
        renamed = _replaced(raw, self._replacements)
        return data({**chat_reply.without_server_fields(chunk), **self._own}) if renamed is None else renamed


# The name of a field in quotes, the field with its value as the model server writes it, and the field as we write it.
Replacement = tuple[bytes, re.Pattern[bytes], bytes]


def _replacements(chunk: Mapping[str, Any], own: Mapping[str, Any]) -> Sequence[Replacement]:
    """Return how chunks like `chunk` get the `own` id and model; nothing where one of the two has no text."""
    if not all(isinstance(chunk.get(name), str) for name in own):
        return ()
    return [
        (
            dumps(name),
            re.compile(rb"%s\s*:\s*%s" % (dumps(name), re.escape(dumps(chunk[name])))),
            dumps({name: ours})[1:-1].replace(b"\\", rb"\\"),
        )
        for name, ours in own.items()
    ]


_SERVER_FIELDS = tuple(map(dumps, sorted(chat_reply.SERVER_FIELDS)))


def _replaced(raw: bytes, replacements: Sequence[Replacement]) -> bytes | None:
    """Return a chunk with all fields replaced; None where one is not there once, e.g. beside the id of a tool call.

    None too where the chunk has fields that only its model server has.
    """
    if not replacements or any(name in raw for name in _SERVER_FIELDS):
        return None
    for name, theirs, ours in replacements:
        if raw.count(name) != 1:
            return None
        raw, found = theirs.subn(ours, raw)
        if not found:
            return None
    return raw


def data(document: object) -> bytes:
    """Return one server-sent event of a stream of chunks."""
    return b"data: " + dumps(document) + b"\n\n"
