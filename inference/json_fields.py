"""This module reads JSON of other programs: each function returns what is there, or an empty value."""

from collections.abc import Mapping, Sequence

from chassis.json_text import InvalidJson, loads

# More tokens are in no request of any model; a server that reports more is not believed [tokens].
MOST_TOKENS = 2**24
NO_FIELDS: Mapping[str, object] = {}


def parse_object(body: bytes) -> Mapping[str, object]:
    """Return the JSON object in `body`; empty if there is none, or one that is nested too deep."""
    try:
        return object_of(loads(body))
    except InvalidJson:
        return NO_FIELDS


def object_of(value: object) -> Mapping[str, object]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else NO_FIELDS


def objects_of(value: object) -> Sequence[Mapping[str, object]]:
    """Return the objects among the items of `value`, if it is an array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return `value` if it is a text, else an empty one; parts of a multi-part content are joined."""
    if isinstance(value, list):
        return "".join(text_of(part.get("text")) for part in objects_of(value))
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int | None:
    """Return `value` if it is a whole number of at least 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def tokens_of(value: object) -> int | None:
    """Return `value` if it can be the tokens of one request, else None."""
    count = count_of(value)
    return count if count is not None and count <= MOST_TOKENS else None
