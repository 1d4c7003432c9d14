"""Whole replies of model servers: their first choice, and the same as the chunks of a stream."""

from collections.abc import Iterator, Mapping
from typing import Any

from inference import NO_FIELDS, object_of, objects_of


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of a chat completion; without fields where there is none."""
    return next(iter(objects_of(reply.get("choices"))), NO_FIELDS)


def has_more_than_text(message: Mapping[str, object]) -> bool:
    """Return whether a message, or a delta, has more than text: a named tool's call ends with `stop`, without content.

    Example:
        >>> has_more_than_text({"content": "Hello."}), has_more_than_text({"refusal": "No."})
        (False, True)
    """
    return any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))


def chunks_of(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a completion as chunks of a stream: each choice as one piece, and its end."""
    head = {name: item for name, item in document.items() if name not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"
    for number, choice in enumerate(objects_of(document.get("choices"))):
        delta = {name: item for name, item in object_of(choice.get("message")).items() if item is not None}
        calls = objects_of(delta.get("tool_calls"))
        if calls:
            delta["tool_calls"] = [{**call, "index": place} for place, call in enumerate(calls)]
        piece = {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [piece]}
        end = {"index": number, "delta": {}, "logprobs": None, "finish_reason": choice.get("finish_reason")}
        yield {**head, "choices": [end]}
