"""This module removes contents from what is stored, by the descriptor of the message that it has the form of.

Each field of the contract with text states by the option `(metacog.common.v1.holds)` what it holds. Numbers, truth
values, times and words of enums stay; a field that the message does not have, or that has another type than the
contract gives it, is dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from metacog.common.v1 import text_pb2

from chassis.serving.wire import enum_names, is_map, wrapped_field
from kernel.redaction.texts import bare_name, bare_reason

T = TypeVar("T")

# What an item becomes that has another type than the contract gives its field.
_DROPPED = object()
_TIMESTAMP = "google.protobuf.Timestamp"


def without_contents(data: T, message: Descriptor) -> T:
    """Return a value, or its plain data, without contents.

    Args:
        data: A value whose fields are those of `message`, or plain data, as REST spells it.
        message: The message of the contract that `data` has the form of.

    Example:
        >>> from metacog.common.v1.turn_pb2 import Turn
        >>> without_contents({"role": "user", "content": "Is Ann ill?", "added_later": "Ann"}, Turn.DESCRIPTOR)
        {'role': 'user', 'content': ''}
    """
    if is_dataclass(data) and not isinstance(data, type):
        items = {field.name: getattr(data, field.name) for field in fields(data)}
        return type(data)(**_redacted_fields(items, message))
    if isinstance(data, Mapping):
        return _redacted_fields(data, message)  # type: ignore[return-value]
    raise TypeError(f"{type(data).__name__} is neither a value nor plain data")


def held_text(field: FieldDescriptor) -> int:
    """Return what the texts of a field are, as a `Text` of the contract."""
    held: int = field.GetOptions().Extensions[text_pb2.holds]
    return held


def has_text(field: FieldDescriptor) -> bool:
    """Return whether a field has texts, so that the contract states what they are."""
    return is_map(field) or field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def _redacted_fields(items: Mapping[str, Any], message: Descriptor) -> dict[str, Any]:
    rules = _rules(message)
    redacted = {name: rules[name](item) if item is not None else None for name, item in items.items() if name in rules}
    return {name: item for name, item in redacted.items() if item is not _DROPPED}


@cache
def _rules(message: Descriptor) -> Mapping[str, Callable[[Any], Any]]:
    """Return what becomes of each field of a message, by its name."""
    return {field.name: _rule(field) for field in message.fields}


def _rule(field: FieldDescriptor) -> Callable[[Any], Any]:
    held = held_text(field)
    if held == text_pb2.TEXT_CONTENTS or (held == text_pb2.TEXT_UNSPECIFIED and has_text(field)):
        return _emptied
    if field.message_type is not None and is_map(field):
        return _for_each_named(_item_rule(field.message_type.fields_by_name["value"], held))
    item_rule = _item_rule(field, held)
    return _for_each(item_rule) if field.is_repeated else item_rule


def _item_rule(field: FieldDescriptor, held: int) -> Callable[[Any], Any]:
    """Return what becomes of one item of a field, or of the values of a map."""
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return _TEXTS[held]
    if field.enum_type is not None:
        return _word_rule(frozenset(word for word in enum_names(field.enum_type).values() if word is not None))
    if field.message_type is None:
        return _number
    if field.message_type.full_name == _TIMESTAMP:
        return _time
    return _message_rule(field.message_type)


def _word_rule(words: frozenset[str]) -> Callable[[Any], Any]:
    def redacted(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
        return item if isinstance(item, Enum) or (isinstance(item, str) and item in words) else _DROPPED

    return redacted


def _message_rule(message: Descriptor) -> Callable[[Any], Any]:
    def redacted(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
        wrapped = wrapped_field(message)  # REST spells such a message as its only field
        if wrapped is not None:
            return _rules(message)[wrapped.name](item)
        is_message = isinstance(item, Mapping) or is_dataclass(item)
        return without_contents(item, message) if is_message else _DROPPED

    return redacted


def _for_each(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def redacted(items: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
        if isinstance(items, str) or not isinstance(items, Sequence):
            return _DROPPED
        redacted_items = [rule(item) for item in items]
        kept = [item for item in redacted_items if item is not _DROPPED and item != ""]
        return tuple(kept) if isinstance(items, tuple) else kept

    return redacted


def _for_each_named(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def redacted(items: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
        if not isinstance(items, Mapping):
            return _DROPPED
        kept = {name: None if item is None else rule(item) for name, item in items.items() if bare_name(str(name))}
        return {name: item for name, item in kept.items() if item is not _DROPPED}

    return redacted


def _emptied(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    if isinstance(item, str | bytes):
        return item[:0]
    if isinstance(item, Mapping):
        return {}
    if isinstance(item, Sequence):
        return () if isinstance(item, tuple) else []
    return _DROPPED


def _number(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    return item if isinstance(item, bool | int | float) else _DROPPED


def _time(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    return item if isinstance(item, datetime) else _name(item)


def _name(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    return bare_name(item) if isinstance(item, str) else _DROPPED


def _reason(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    return bare_reason(item) if isinstance(item, str) else _DROPPED


def _verbatim(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    return item if isinstance(item, str) else _DROPPED


_TEXTS: Mapping[int, Callable[[Any], Any]] = {
    text_pb2.TEXT_REASON: _reason,
    text_pb2.TEXT_NAME: _name,
    text_pb2.TEXT_VERBATIM: _verbatim,
}
