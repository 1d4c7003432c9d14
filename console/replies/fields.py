"""Reads fields of the contract's messages as pages show them."""

from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from metacog.common.v1.msv_pb2 import MSV

from chassis.serving.wire import enum_names, is_map, optional


def known(message: Message, name: str) -> Any:  # noqa: ANN401 - a field is of any kind
    """Return a field as far as it is known: None if it can be unset and is; enums as words, a map as a dict.

    Example:
        >>> state = MSV(correctness=0.0, parts={"prior_share": 0.5})
        >>> known(state, "correctness"), known(state, "conflict"), known(state, "kind"), known(state, "parts")
        (0.0, None, None, {'prior_share': 0.5})
    """
    field, held = cast("FieldDescriptor", message.DESCRIPTOR.fields_by_name[name]), getattr(message, name)
    if field.is_repeated and field.enum_type is not None:
        return [enum_names(field.enum_type).get(one) for one in held]
    if field.is_repeated:
        return dict(held) if is_map(field) else held
    if field.has_presence:
        held = optional(message, name)
    return held if held is None or field.enum_type is None else enum_names(field.enum_type).get(held)


def component(state: MSV | None, name: str) -> float | None:
    """Return a component of a state [0..1]; None if it is unknown, or there is no state.

    Example:
        >>> component(MSV(conflict=0.5), "conflict"), component(MSV(), "conflict"), component(None, "conflict")
        (0.5, None, None)
    """
    return None if state is None else optional(state, name)
