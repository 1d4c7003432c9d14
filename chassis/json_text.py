"""This module reads and writes JSON in the one way that every request, reply, event, stored document and digest has.

`loads` reads what another program or a file holds; `loads_request` reads what a caller asks, and rejects what two
readers of the same text may understand differently.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

# The JSON of plain data and values: times are in UTC with a `Z`, and non-finite numbers become null.
dumps: Callable[[object], bytes] = partial(orjson.dumps, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)

# Objects and arrays inside one another, the outermost counted: far more than any request of the contracts has, and so
# few that what holds a document, such as a stored run, can be written too (orjson writes 254).
MAX_DEPTH = 100
# Values of one request at any depth, as counted by commas and openings. A body of 32 MiB may be ten million objects,
# and while these are read, for seconds, nothing else is served.
MOST_VALUES = 250_000
# The one character that PostgreSQL cannot store.
NUL = "\x00"

_NESTED = (dict, list)


class InvalidJson(ValueError):
    """A text is not JSON, or it is JSON that is not accepted; the message names the problem.

    Args:
        message: The problem.
        line: Line of the text with the problem [>= 1]; None where it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def loads(text: bytes | str) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return the JSON `text` as plain data.

    Numbers that are not finite (NaN, Infinity, 1e400, whole numbers of 310 digits) and surrogates that stand alone are
    no JSON here, as no reply could carry them.

    Raises:
        InvalidJson: When it is not JSON, or nested deeper than `MAX_DEPTH`.

    Example:
        >>> loads('{"a": [1]}')
        {'a': [1]}
        >>> loads("[" * 101 + "]" * 101)
        Traceback (most recent call last):
        chassis.json_text.InvalidJson: it is nested deeper than 100 levels
    """
    content = _parsed(text)
    if _openings(text) > MAX_DEPTH:
        _count_names(content)
    return content


def loads_request(text: bytes | str) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return the JSON of a request as plain data.

    Raises:
        InvalidJson: When `loads` raises it, when there are more than `MOST_VALUES` values, when an object has a name
            twice, or when a text or name holds U+0000.

    Example:
        >>> loads_request('{"a": 1, "a": 2}')
        Traceback (most recent call last):
        chassis.json_text.InvalidJson: the name 'a' is there twice in one object
    """
    whole = text if isinstance(text, bytes) else text.encode(errors="replace")
    _check_values(whole)
    content = _parsed(text)
    names = _count_names(content)
    if names != whole.count(b":") and names != _without_texts(_unescaped(whole)).count(b":"):
        _check_names(text)
    if b"\\u0000" in whole:
        place = place_of_nul(content)
        if place is not None:
            raise InvalidJson(nul_problem(place))
    return content


def place_of_nul(content: object) -> str | None:
    """Return the place of the first text or name in `content` that holds U+0000; None if there is none.

    Example:
        >>> place_of_nul({"labels": [{"topic": "a" + NUL}]})
        'labels.0.topic'
    """
    left: list[tuple[str, object]] = [("", content)]
    while left:
        place, item = left.pop()
        if isinstance(item, str):
            if NUL in item:
                return place.replace(NUL, "")
        elif isinstance(item, dict):
            left += [(f"{place}.{name}".removeprefix("."), part) for name, part in reversed(item.items())]
            left += [(place, name) for name in item]
        elif isinstance(item, list | tuple):
            left += [(f"{place}.{n}".removeprefix("."), part) for n, part in reversed(list(enumerate(item)))]
    return None


def nul_problem(place: str) -> str:
    """Return what is wrong with a text at `place` that holds U+0000."""
    return f"{place or 'the document'} holds the character U+0000, which cannot be stored; leave it out"


def _parsed(text: bytes | str) -> Any:  # noqa: ANN401 - JSON is of any kind
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("depth limit exceeded"):
            raise _too_deep() from error
        line = "" if error.lineno == 1 else f"line {error.lineno}, "
        raise InvalidJson(f"it is not JSON: {error.msg} at {line}column {error.colno}", error.lineno) from error


def _too_deep() -> InvalidJson:
    return InvalidJson(f"it is nested deeper than {MAX_DEPTH} levels")


def _check_values(text: bytes) -> None:
    """Raise if `text`, where it is JSON, may have more than `MOST_VALUES` values; it is not parsed for that.

    Only a text with more signs, which may stand inside texts, is looked at without its texts.
    """
    if _most_values(text) <= MOST_VALUES:
        return
    unescaped = _unescaped(text)
    # A value has a name and a text at most, and each of these two quotation marks.
    too_many = unescaped.count(b'"') > 4 * MOST_VALUES or _most_values(_without_texts(unescaped)) > MOST_VALUES
    if too_many:
        raise InvalidJson(
            f"it has too many values: more than {MOST_VALUES:,} commas and openings of objects and arrays; send fewer"
            " at a time"
        )


def _most_values(text: bytes) -> int:
    """Return how many values a JSON text has at most [count, >= 1].

    Each value but the first of its object or array follows a comma, and the first one an opening.
    """
    return 1 + sum(text.count(sign) for sign in (b",", b"[", b"{"))


def _unescaped(text: bytes) -> bytes:
    """Return a JSON text without what hides the ends of its texts."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _without_texts(unescaped: bytes) -> bytes:
    r"""Return what stands outside of the texts of a JSON text.

    Example:
        >>> _without_texts(_unescaped(b'{"a:": "b \\\" :", "c": 1}'))
        b'{: , : 1}'
    """
    return b"".join(unescaped.split(b'"')[::2])


def _openings(text: bytes | str) -> int:
    """Return how many objects and arrays `text` has at most."""
    return text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")


def _count_names(content: object) -> int:
    """Return how many names the objects in `content` have; raise if it is nested too deep.

    It goes level by level, so that no depth is too much for it.
    """
    names, depth, level = 0, 0, [content] if isinstance(content, _NESTED) else []
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                names += len(item)
                inner += [part for part in item.values() if isinstance(part, _NESTED)]
            else:
                inner += [part for part in item if isinstance(part, _NESTED)]
        level = inner
    return names


def _check_names(text: bytes | str) -> None:
    """Raise if an object in `text` has a name twice."""
    _decoder.decode(text.decode() if isinstance(text, bytes) else text)


def _without_repeats(pairs: list[tuple[str, object]]) -> None:
    names = {name for name, _ in pairs}
    if len(names) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidJson(f"the name {twice!r} is there twice in one object")


_decoder = json.JSONDecoder(object_pairs_hook=_without_repeats)
