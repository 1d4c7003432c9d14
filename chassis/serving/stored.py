"""Stored documents are read leniently: another version of the suite may have written them.

While versions are exchanged one after another, and after a roll-back, a version reads what the next one stored:

- A field that this version does not know is ignored, at every level.
- A value that an enum of this version does not list stays as it is: it is no member that the code compares with, REST
  returns it unchanged, and gRPC as the unspecified value. An empty one, as versions before wrote for none, is None.
- A document whose meaning changed has a higher `document_version` at its top level; without one it has version 1. A
  document of a version above `DOCUMENT_VERSION`, or one that lacks what this version needs, cannot be read. That is an
  error of this document alone: a list leaves it out.

Requests are read strictly, by `chassis.serving.wire`: there an unknown field is a mistake of the caller.
"""

import copy
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from prometheus_client import Counter
from pydantic import ValidationError

from chassis.log import logger
from chassis.serving.wire import adapter
from kernel.errors import Code, MetacogError
from kernel.violations import violation

# The newest form of stored documents that this version reads, and the one that it writes.
DOCUMENT_VERSION = 1
VERSION_FIELD = "document_version"

UNREADABLE = Counter(
    "metacog_stored_unreadable_total", "Stored documents that could not be read, each time that one was.", ["kind"]
)

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E", bound=StrEnum)

_log = logger(__name__)


class RecordUnreadable(MetacogError):
    """A stored document cannot be read by this version."""

    code = Code.INTERNAL
    reason = "RECORD_UNREADABLE"


class _NewerVersion(Exception):
    """The document has a version above `DOCUMENT_VERSION`."""


# What reading a document of another form may raise: pydantic's complaints, and what the checks of a value itself raise.
FORM_ERRORS = (ValidationError, MetacogError, _NewerVersion, ArithmeticError, LookupError, TypeError)


def from_stored(document: object, kind: type[T], *, record: str, record_id: str) -> T:
    """Return a stored document as a value of `kind`; unknown fields are ignored, unknown values of enums stay.

    Args:
        document: Plain data, as it was stored.
        kind: The type of the value.
        record: What the document is, as metric, log and error name it: `run`.
        record_id: Which one it is, as log and error name it.

    Raises:
        RecordUnreadable: When this version cannot read it; the error is logged and counted.
    """
    try:
        _check_version(document)
        return _read(document, kind)
    except FORM_ERRORS as error:
        raise unreadable(_problem(error), record=record, record_id=record_id) from error


def unreadable(problem: str, *, record: str, record_id: str) -> RecordUnreadable:
    """Log and count a stored document that cannot be read, and return its error.

    Args:
        problem: What is wrong with it.
        record: What the document is.
        record_id: Which one it is.
    """
    UNREADABLE.labels(record).inc()
    _log.error("a stored document cannot be read", record=record, record_id=record_id, problem=problem)
    message = (
        f"{record} {record_id!r} is stored in a form that this version of metacog cannot read ({problem}). "
        "A newer version may have written it: upgrade this one, or delete the record"
    )
    return RecordUnreadable(message, record=record, record_id=record_id)


def readable(rows: Iterable[R], read: Callable[[R], T]) -> Sequence[T]:
    """Return the values that `read` makes of `rows`, without those of unreadable documents."""
    values: list[T] = []
    for row in rows:
        try:
            values.append(read(row))
        except RecordUnreadable:  # logged and counted where it was raised
            continue
    return values


def enum_from_stored(word: str, kind: type[E]) -> E:
    """Return the member of an enum that a column names; a word that it does not list stays as it is.

    Example:
        >>> class Colour(StrEnum):
        ...     RED = "RED"
        >>> enum_from_stored("RED", Colour) is Colour.RED, enum_from_stored("BLUE", Colour).value, len(Colour)
        (True, 'BLUE', 1)
    """
    try:
        return kind(word)
    except ValueError:
        return _unlisted(word, kind)


def _check_version(document: object) -> None:
    version = document.get(VERSION_FIELD, 1) if isinstance(document, Mapping) else 1
    if not isinstance(version, int) or version > DOCUMENT_VERSION:
        raise _NewerVersion(f"{VERSION_FIELD} is {version!r}; this version reads up to {DOCUMENT_VERSION}")


def _read(document: object, kind: type[T]) -> T:
    try:
        value: T = adapter(kind).validate_python(document, extra="ignore")
    except ValidationError as error:
        value = adapter(kind).validate_python(_with_unlisted(document, kind, error), extra="ignore")
    return value


def _with_unlisted(document: object, kind: type, error: ValidationError) -> object:
    """Return `document` with unlisted members in the places of the words that enums do not list.

    Raises:
        ValidationError: `error`, when it has other complaints too.
    """
    repaired: Any = copy.deepcopy(document)
    for complaint in error.errors(include_url=False):
        *path, last = complaint["loc"] or ("",)
        enum = _type_at(kind, complaint["loc"])
        if complaint["type"] != "enum" or enum is None or not isinstance(complaint["input"], str):
            raise error
        place = repaired
        for step in path:
            place = place[step]
        place[last] = _unlisted(complaint["input"], enum) if complaint["input"] else None
    return repaired


def _unlisted(word: str, kind: type[E]) -> E:
    """Return a value of an enum's type that is none of its members; it differs from each of them."""
    member = str.__new__(kind, word)
    member._name_ = member._value_ = word
    return member


def _type_at(kind: Any, path: Sequence[int | str]) -> type[StrEnum] | None:  # noqa: ANN401 - a type, or a form of typing
    """Return the enum at a place of a document that is a `kind`; None where there is none."""
    for step in path:
        kind = _hints(kind).get(str(step)) if isinstance(kind, type) else _item(kind)
        kind = _without_none(kind)
    return kind if isinstance(kind, type) and issubclass(kind, StrEnum) else None


def _item(kind: Any) -> Any:  # noqa: ANN401 - a type, or a form of typing
    """Return the type of the items of a list or a mapping."""
    return next((argument for argument in reversed(get_args(kind)) if argument is not Ellipsis), None)


def _without_none(kind: Any) -> Any:  # noqa: ANN401 - a type, or a form of typing
    """Return the one type beside None of an optional one."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    some = [argument for argument in get_args(kind) if argument is not types.NoneType]
    return some[0] if len(some) == 1 else None


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {violation(first)}" if place else violation(first)
