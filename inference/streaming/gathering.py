"""One reply from the chunks of a stream, for a backend that must be read as a stream where its caller wants it whole.

llama.cpp looks whether a client that waits for a whole reply is still there only when it had nothing to send to anybody
for a second, so beside other streams it goes on generating for nobody until the end. Writing to a stream, it notices
at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inference.json_fields import count_of, objects_of

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
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        whole |= {name: item for name, item in chunk.items() if item is not None}
        for choice in objects_of(chunk.get("choices")):
            place = count_of(choice.get("index")) or 0
            named = {("message" if name == "delta" else name): item for name, item in choice.items()}
            choices[place] = _plus(choices.get(place), named)
    made = [choices[place] for place in sorted(choices)]
    for choice in made:
        for call in objects_of(choice.get("message", {}).get("tool_calls")):
            call.pop("index", None)  # type: ignore[attr-defined]
    return {**whole, "object": "chat.completion", "choices": made}


def _plus(before: Any, more: Any) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return `more` added to what came before it."""
    if more is None:
        return before
    if isinstance(more, dict):
        known = dict(before or {})
        return known | {
            name: item if name in WHOLE and item is not None else _plus(known.get(name), item)
            for name, item in more.items()
        }
    if isinstance(more, list):
        return _joined(before or [], more)
    return before + more if isinstance(before, str) and isinstance(more, str) else more


def _joined(before: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    """Return both lists; an item that names its place is added to what is there."""
    joined = list(before)
    for item in more:
        place = item.get("index") if isinstance(item, dict) else None
        there = next((n for n, held in enumerate(joined) if place is not None and held.get("index") == place), None)
        if there is None:
            joined.append(_plus(None, item))
        else:
            joined[there] = _plus(joined[there], item)
    return joined
