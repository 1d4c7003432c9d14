"""Reading JSON that somebody else wrote: each function gives what is there, or a harmless nothing."""

from collections.abc import Mapping, Sequence

import orjson

NOTHING: Mapping[str, object] = {}


def document(body: bytes) -> Mapping[str, object]:
    """The JSON object in `body`; empty if there is none."""
    try:
        return mapping(orjson.loads(body))
    except orjson.JSONDecodeError:
        return NOTHING


def mapping(value: object) -> Mapping[str, object]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else NOTHING


def mappings(value: object) -> Sequence[Mapping[str, object]]:
    """The objects among the items of `value`, if it is an array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    """`value` if it is a text, else an empty one; parts of a multi-part content are joined."""
    if isinstance(value, list):
        return "".join(text(part.get("text")) for part in mappings(value))
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """`value` if it is a whole number of at least 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
