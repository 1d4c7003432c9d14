"""Reading the fields of a chat request: what is wrong is refused by name, whatever a backend would make of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from chassis.wire import MAX_COUNT, MAX_SEED, MalformedRequest
from services.router.service.values import Turn

COUNTS = ("n", "max_tokens", "max_completion_tokens")
TEXT_PARTS = ("text", "refusal")


def flag(body: Mapping[str, Any], name: str) -> bool:
    """Whether `name` is true; null and nothing are false."""
    given = body.get(name)
    if given is not None and not isinstance(given, bool):
        raise MalformedRequest(f"{name}: it must be true or false, not {given!r}", field=name)
    return given is True


def number(body: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    """The number `name`, which lies in [least, most]."""
    given = body.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise MalformedRequest(f"{name}: it must be a number in [{least}, {most}], not {given!r}", field=name)
    return given


def whole_number(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """The whole number `name`, which lies in [least, most]."""
    given = number(body, name, least, most)
    if given is not None and given != int(given):
        raise MalformedRequest(f"{name}: it must be a whole number, not {given!r}", field=name)
    return None if given is None else int(given)


def count(body: Mapping[str, Any], name: str) -> int | None:
    """The count `name`, at least 1."""
    return whole_number(body, name, 1, MAX_COUNT)


def seed(body: Mapping[str, Any]) -> int | None:
    """The seed as ours are: OpenAI's may be negative, and some backends draw at random for a negative one."""
    given = whole_number(body, "seed", -MAX_SEED - 1, MAX_SEED)
    return None if given is None else given & MAX_SEED


def whole(body: Mapping[str, Any]) -> Mapping[str, int]:
    """The whole numbers of `body` as such, also where they came as 5.0; the seed as ours are."""
    counts = {name: count(body, name) for name in COUNTS if name in body}
    found = {**counts, "seed": seed(body)} if "seed" in body else counts
    return {name: number for name, number in found.items() if number is not None}


def mapped(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object `name`; empty for nothing."""
    given = body.get(name)
    if given is not None and not isinstance(given, dict):
        raise MalformedRequest(f"{name}: it must be an object, not {given!r}", field=name)
    return given or {}


def stops(body: Mapping[str, Any]) -> Sequence[str]:
    """The texts that end an answer: one, a list of them, or none."""
    given = body.get("stop")
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise MalformedRequest(f"stop: it must be a text or a list of texts, none empty, not {given!r}", field="stop")
    return texts


def turns(messages: object) -> list[Turn]:
    """The conversation as text, for whoever judges or deliberates on it."""
    if not isinstance(messages, list) or not messages:
        raise MalformedRequest("messages: give at least one message", field="messages")
    return [_turn(place, message) for place, message in enumerate(messages)]


def more_than_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Where the first part of `messages` is that is no text, such as an image; empty if all is text."""
    for place, message in enumerate(messages):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if any(part.get("type", "text") not in TEXT_PARTS for part in parts):
            return f"messages.{place}.content"
    return ""


def _turn(place: int, message: object) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str) or not message["role"]:
        raise MalformedRequest(f"messages.{place}: give an object with a role", field=f"messages.{place}")
    said = [_text(place, message.get("content")), *_calls(message)]
    return Turn(role=message["role"], content="\n".join(text for text in said if text))


def _text(place: int, content: object) -> str:
    """Text of a message's content; parts that are no text are named."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        said = f"messages.{place}.content: give a text or a list of parts"
        raise MalformedRequest(said, field=f"messages.{place}.content")
    return "\n".join(_part(part) for part in content)


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type", "text")
    return str(part.get(kind, "")) if kind in TEXT_PARTS else f"[{kind}]"


def _calls(message: Mapping[str, Any]) -> list[str]:
    """The tools that a message calls, as text."""
    calls = message.get("tool_calls")
    asked = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    named = [call.get("function") or call.get("custom") for call in asked] + [message.get("function_call")]
    return [
        f"[calls {call.get('name', '')} with {call.get('arguments') or call.get('input') or ''}]"
        for call in named
        if isinstance(call, dict)
    ]
