"""This module reads JSON in a model's text and checks it against its schema.

Grammars on backends enforce most of a schema but not all of it (llama.cpp ignores the bounds of numbers), and a backend
without them returns whatever the model wrote. Checked here: type, properties, required, items, enum, const, anyOf,
the lengths of texts and arrays. Numbers outside `minimum` and `maximum` are moved to the bound and named; everything
else that differs is an error. Keywords not in this list are not checked.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from chassis.json_text import InvalidJson, loads
from inference.errors import UnparsableOutput
from inference.json_fields import object_of, objects_of
from inference.values import Completion, Structured
from kernel.values import value

T = TypeVar("T")


class Mismatch(Exception):
    """The document does not follow the schema."""


@value
class Document:
    """A document holds parsed content and the paths of the numbers that were moved to their bounds."""

    content: object
    clamped: tuple[str, ...]


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "null": type(None),
}


def structured(completion: Completion, schema: Mapping[str, object], parse: Callable[[object], T]) -> Structured[T]:
    """Return the samples of `completion` read as documents that follow `schema`, and that `parse` has read.

    Raises:
        UnparsableOutput: When not one sample can be read; `parse` rejects one by a `ValueError`.
    """
    values: list[T] = []
    clamped: list[str] = []
    rejected: list[UnparsableOutput] = []
    for place, sample in enumerate(completion.samples):
        try:
            document = read_document(sample.text, schema)
            values.append(parse(document.content))
        except UnparsableOutput as unreadable:
            rejected.append(unreadable)
        except ValueError as unusable:
            rejected.append(UnparsableOutput(f"the model's output cannot be used: {unusable}", problem=str(unusable)))
        else:
            clamped.extend(f"{place}.{path}" for path in document.clamped)
    if not values:
        raise rejected[0]
    return Structured(values=tuple(values), completion=completion, clamped=tuple(clamped), rejected=tuple(rejected))


def is_no_json(text: str) -> bool:
    """Return whether there is no JSON object or array in `text`.

    Example:
        >>> is_no_json("I am fairly sure."), is_no_json('Sure: {"confidence": 0.8}')
        (True, False)
    """
    return not any(isinstance(candidate, dict | list) for candidate in candidates(text))


def read_document(text: str, schema: Mapping[str, object]) -> Document:
    """Return the first JSON document in `text` that follows `schema`; code fences and words around it are ignored.

    Raises:
        UnparsableOutput: When there is none.
    """
    reason = "there is no JSON in it"
    for candidate in candidates(text):
        clamped: list[str] = []
        try:
            return Document(content=_conformed(candidate, schema, "", clamped), clamped=tuple(clamped))
        except Mismatch as mismatch:
            reason = str(mismatch)
    raise UnparsableOutput(f"the model's output does not follow its schema: {reason}", problem=reason)


def candidates(text: str) -> Iterator[object]:
    """Return the documents that `text` may hold: all of it, or the outermost objects and arrays in it."""
    document = _document(text)
    if document is not None:
        yield document.content
        return
    decoder = json.JSONDecoder()
    start = _opening(text, 0)
    while start >= 0:
        try:
            _, end = decoder.raw_decode(text, start)
        except RecursionError:  # nested far deeper than what is accepted
            return
        except ValueError:
            end = start + 1
        else:
            document = _document(text[start:end])
            if document is not None:
                yield document.content
        start = _opening(text, end)


def _document(text: str) -> Document | None:
    """Return the JSON document that `text` is; None if it is none that is accepted."""
    try:
        return Document(content=loads(text), clamped=())
    except InvalidJson:
        return None


def _opening(text: str, start: int) -> int:
    """Return place of the next brace or bracket, -1 if there is none."""
    return next((place for place in range(start, len(text)) if text[place] in "{["), -1)


def _conformed(content: object, schema: Mapping[str, object], path: str, clamped: list[str]) -> object:
    """Return `content` with its numbers within bounds; raise `Mismatch` where it does not follow `schema`."""
    if "anyOf" in schema:
        return _any_of(content, objects_of(schema["anyOf"]), path, clamped)
    _check_kind(content, schema.get("type"), path)
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(allowed, list) and content not in allowed:
        raise Mismatch(f"{_place(path)} is none of the allowed values")
    if isinstance(content, dict):
        return _object(content, schema, path, clamped)
    if isinstance(content, list):
        return _array(content, schema, path, clamped)
    if isinstance(content, str):
        _check_size(len(content), schema, "minLength", "maxLength", path)
    if isinstance(content, int | float) and not isinstance(content, bool):
        return _number(content, schema, path, clamped)
    return content


def _any_of(content: object, schemas: Sequence[Mapping[str, object]], path: str, clamped: list[str]) -> object:
    for schema in schemas:
        moved: list[str] = []
        try:
            conformed = _conformed(content, schema, path, moved)
        except Mismatch:
            continue
        clamped.extend(moved)
        return conformed
    raise Mismatch(f"{_place(path)} follows none of its alternatives")


def _check_kind(content: object, kinds: object, path: str) -> None:
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and not any(_is_kind(content, name) for name in names):
        raise Mismatch(f"{_place(path)} is not of type {' or '.join(map(str, names))}")


def _is_kind(content: object, name: object) -> bool:
    if isinstance(content, bool):
        return name == "boolean"
    if name == "integer" and isinstance(content, float) and not content.is_integer():
        return False
    return isinstance(content, _KINDS.get(str(name), ()))


def _object(
    content: Mapping[str, object], schema: Mapping[str, object], path: str, clamped: list[str]
) -> dict[str, object]:
    properties = object_of(schema.get("properties"))
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    missing = [name for name in names if name not in content]
    if missing:
        raise Mismatch(f"{_place(path)} lacks {', '.join(missing)}")
    return {
        name: _conformed(field, object_of(properties.get(name)), f"{path}.{name}", clamped)
        for name, field in content.items()
    }


def _array(content: Sequence[object], schema: Mapping[str, object], path: str, clamped: list[str]) -> list[object]:
    _check_size(len(content), schema, "minItems", "maxItems", path)
    items = object_of(schema.get("items"))
    return [_conformed(item, items, f"{path}.{place}", clamped) for place, item in enumerate(content)]


def _check_size(size: int, schema: Mapping[str, object], least: str, most: str, path: str) -> None:
    lowest, highest = schema.get(least), schema.get(most)
    if isinstance(lowest, int) and size < lowest:
        raise Mismatch(f"{_place(path)} has size {size}, below {least} {lowest}")
    if isinstance(highest, int) and size > highest:
        raise Mismatch(f"{_place(path)} has size {size}, above {most} {highest}")


def _number(content: int | float, schema: Mapping[str, object], path: str, clamped: list[str]) -> int | float:
    """Return `content` moved into its bounds; whole, where the schema says integer and the model wrote 5.0."""
    if not math.isfinite(content):
        raise Mismatch(f"{_place(path)} is not a finite number")
    number = int(content) if schema.get("type") == "integer" else content
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    bounded = number
    if isinstance(lowest, int | float):
        bounded = max(bounded, lowest)
    if isinstance(highest, int | float):
        bounded = min(bounded, highest)
    if bounded != number:
        clamped.append(path.removeprefix("."))
    return bounded


def _place(path: str) -> str:
    return path.removeprefix(".") or "the document"
