"""This module merges the chunks of a stream into one reply, for backends that must be read as a stream.

llama.cpp notices that a client of a whole reply has gone only when it had nothing to send to any client for a second,
so beside other streams it goes on generating to the end. While it writes to a stream, it notices at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inference.json_fields import count_of, object_of, objects_of

# What each delta repeats, or has whole.
WHOLE = frozenset({"role", "id", "type", "name", "index", "finish_reason"})


def merge_chunks(chunks: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the chat completion that `chunks` amount to.

    Example:
        >>> first = {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}}]}
        >>> last = {"id": "c", "choices": [{"index": 0, "delta": {"content": "b"}, "finish_reason": "stop"}]}
        >>> merge_chunks([first, last])["choices"]
        [{'index': 0, 'message': {'role': 'assistant', 'content': 'ab'}, 'finish_reason': 'stop'}]
    """
    whole: dict[str, object] = {}
    choices: dict[int, Any] = {}
    for chunk in chunks:
        whole |= {name: item for name, item in chunk.items() if item is not None}
        for choice in objects_of(chunk.get("choices")):
            place = count_of(choice.get("index")) or 0
            named = {("message" if name == "delta" else name): item for name, item in choice.items()}
            choices[place] = _plus(choices.get(place), named)
    merged = [_plain(choices[place]) for place in sorted(choices)]
    for choice in merged:
        for call in objects_of(object_of(choice.get("message")).get("tool_calls")):
            call.pop("index", None)  # type: ignore[attr-defined]
    return {**whole, "object": "chat.completion", "choices": merged}


class _Text:
    """A text in pieces, which are joined once."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


class _Items:
    """A list in which an item that names its place is added to what is there."""

    __slots__ = ("items", "places")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.places: dict[object, int] = {}

    def add(self, item: Any) -> None:  # noqa: ANN401 - JSON is of any kind
        """Add `item`."""
        place = count_of(item.get("index")) if isinstance(item, dict) else None
        if place in self.places:
            there = self.places[place]
            self.items[there] = _plus(self.items[there], item)
            return
        if place is not None:
            self.places[place] = len(self.items)
        self.items.append(_plus(None, item))


def _plus(before: Any, more: Any) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return `more` added to what was before it, which is changed; what is of another kind takes its place."""
    if more is None:
        return before
    if isinstance(more, dict):
        known = before if isinstance(before, dict) else {}
        for name, item in more.items():
            known[name] = item if name in WHOLE and item is not None else _plus(known.get(name), item)
        return known
    if isinstance(more, list):
        items = before if isinstance(before, _Items) else _Items()
        for item in more:
            items.add(item)
        return items
    if isinstance(more, str):
        text = before if isinstance(before, _Text) else _Text()
        text.pieces.append(more)
        return text
    return more


def _plain(merged: Any) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return what was merged as JSON has it."""
    if isinstance(merged, _Text):
        return "".join(merged.pieces)
    if isinstance(merged, _Items):
        return [_plain(item) for item in merged.items]
    if isinstance(merged, dict):
        return {name: _plain(item) for name, item in merged.items()}
    return merged
