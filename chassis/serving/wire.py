"""This module translates between messages of the contract, plain data and values, with one spelling for both APIs.

A message becomes plain data exactly as REST spells it (enum values without the prefix of the enum, in lower case where
it says so; undefined numbers as None; a message whose single field is named `by_...` as that field itself), and plain
data becomes a value through the same validation that REST bodies go through. So a service needs no translator of its
own; nor does a client of REST, which reads replies by `from_rest`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from metacog.common.v1 import rest_pb2
from pydantic import Field, TypeAdapter, ValidationError

from chassis.json_text import InvalidJson, loads_request, nul_problem, place_of_nul
from kernel.errors import MalformedRequest, MetacogError
from kernel.violations import OTHER, violation

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

M = TypeVar("M", bound=Message)


V = TypeVar("V", bound=int)


T = TypeVar("T")


MAX_COUNT = 2**31 - 1


MAX_SEED = 2**63 - 1


# Numbers as far as a message of the contract can carry them.
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


NO_TIME = "give a time between the years 1 and 9999"


# A caller's name for a request; printable, so that it can stand in logs and indexes.
RequestId = Annotated[str, Field(max_length=128, pattern=r"^[!-~]*$")]


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def plain(message: Message) -> dict[str, Any]:
    """Return `message` as plain data, spelled as REST spells it; undefined fields are None."""
    return {name: _plain_field(message, field) for name, field in _fields(message.DESCRIPTOR).items()}


def word(kind: "_EnumTypeWrapper[V]", number: V) -> str:
    """Return the word of a value of an enum, as REST spells it; empty for what is not stated.

    Example:
        >>> from metacog.common.v1.stage_pb2 import ROLE_CRITIC, ROLE_UNSPECIFIED, Role
        >>> word(Role, ROLE_CRITIC), word(Role, ROLE_UNSPECIFIED)
        ('CRITIC', '')
    """
    return enum_names(kind.DESCRIPTOR).get(number) or ""


def optional(message: Message, name: str) -> Any:  # noqa: ANN401 - of the field's own kind
    """Return what a field holds that may be left out; None where it is.

    Example:
        >>> from metacog.common.v1 import msv_pb2
        >>> state = msv_pb2.MSV(correctness=0.0)
        >>> optional(state, "correctness"), optional(state, "conflict")
        (0.0, None)
    """
    return getattr(message, name) if message.HasField(name) else None


def event(message: Message) -> tuple[str, Any]:
    """Return name and plain data of the one event in a streamed message with a single `oneof`."""
    name = message.WhichOneof("event")
    return (name, plain(getattr(message, name))) if name else ("", {})


def from_proto(message: Message, kind: type[T]) -> T:
    """Return `message` as a value of `kind`, validated as a REST body would be.

    Raises:
        MalformedRequest: When the message does not make a valid value.
    """
    return from_plain(checked_text(_without_none(plain(message))), kind)


def body_of_json(body: bytes) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return the JSON body of a request as plain data.

    Raises:
        MalformedRequest: When it is not JSON, or JSON that is not accepted; names the problem.
    """
    try:
        return loads_request(body)
    except InvalidJson as error:
        raise MalformedRequest(f"body: {error}", field="body") from error


def checked_text(data: T) -> T:
    """Return plain data of a request that did not come as JSON, if no text in it holds U+0000.

    Raises:
        MalformedRequest: When one does; names the place.
    """
    place = place_of_nul(data)
    if place is not None:
        raise MalformedRequest(nul_problem(place), field=place or "body")
    return data


def from_plain(data: object, kind: type[T]) -> T:
    """Return plain data as a value of `kind`.

    Raises:
        MalformedRequest: When the data does not make a valid value; names the place and the problem.
    """
    try:
        parsed: T = adapter(kind).validate_python(data)
    except ValidationError as error:
        raise malformed(error.errors()) from error
    return parsed


def adapter(kind: type) -> TypeAdapter[Any]:
    """Return the validator of plain data that makes values of `kind`; made once."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def json_schema(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a value's plain data; only enums are references."""
    return adapter(kind).json_schema(ref_template="#/components/schemas/{model}")


def malformed(complaints: Sequence[Mapping[str, Any]]) -> MetacogError:
    """Return the error for pydantic's complaints, in our words: the first is the message, all are its violations.

    A named error of a value that a complaint is about is returned itself; its fields are then those of the request.
    """
    problems = dict(problem for complaint in complaints for problem in _problems(complaint))
    named = next((error for error in map(_named, complaints) if error is not None), None)
    if named is not None:
        if named.metadata.get("field"):
            named.metadata["field"] = next(iter(problems))
        return named.with_violations(problems)
    place, first = next(iter(problems.items()), ("body", OTHER))
    error = MalformedRequest(f"{place}: {first}", **problems)
    return error.with_violations(problems or {place: first})


def _problems(complaint: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return what a complaint is about, by its place in the request."""
    place, named = ".".join(str(step) for step in complaint["loc"] if step != "body"), _named(complaint)
    if named is None or not named.violations:
        return [(place or "body", violation(complaint))]
    return [(f"{place}.{field}" if place else field, text) for field, text in named.violations.items()]


def _named(complaint: Mapping[str, Any]) -> MetacogError | None:
    error = complaint.get("ctx", {}).get("error")
    return error if isinstance(error, MetacogError) else None


def event_name(event: object) -> str:
    """Return the name of an event value in both APIs: its class name in snake case.

    Example:
        >>> class StageStarted: ...
        >>> event_name(StageStarted())
        'stage_started'
    """
    return _snake(type(event).__name__)


def event_to_proto(event: object, kind: type[M]) -> M:
    """Return an event value as the streamed message of `kind`, in the field that carries its name."""
    return to_proto({event_name(event): event}, kind)


def to_proto(value: object, kind: type[M]) -> M:
    """Return a value, or plain data, as a message of `kind`; None and unknown map values are left out.

    Raises:
        KeyError: For a field that the message lacks: the value and the contract have drifted apart.
    """
    message = kind()
    _fill(message, value)
    return message


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def known_part(data: Mapping[str, Any], kind: type[Message]) -> dict[str, Any]:
    """Return stored plain data without the fields and enum values that messages of `kind` do not have, at every level.

    So what another version of a service stored goes through gRPC as far as this version's contract has it.
    """
    return _known_fields(data, _fields_on_rest(kind().DESCRIPTOR))


def from_rest(content: object, kind: type[M]) -> M:
    """Return what REST wrote, a JSON reply or event, as a message of `kind`: the opposite of `plain`.

    What is null there is unset. Fields, and words of enums, that a newer server may write are left out.

    Raises:
        ValueError: When the content has another form than the contract's; the message names the problem.
    """
    name = kind.DESCRIPTOR.name
    if not isinstance(content, Mapping):
        raise ValueError(f"it is {type(content).__name__}, and no {name} of the contract")
    try:
        return to_proto(known_part(content, kind), kind)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no {name} of the contract: {error}") from error


def _known_fields(data: Mapping[str, Any], known: Mapping[str, Sequence[FieldDescriptor]]) -> dict[str, Any]:
    placed = ((_field_on_rest(known.get(name, ()), item), item) for name, item in data.items())
    return {field.name: _known(item, field) for field, item in placed if field is not None}


def _field_on_rest(candidates: Sequence[FieldDescriptor], item: object) -> FieldDescriptor | None:
    """Return the field of an item on REST: of several with its name, the one whose message knows most of the item."""
    if len(candidates) < 2 or not isinstance(item, Mapping):
        return next(iter(candidates), None)
    return min(candidates, key=lambda field: len(item.keys() - _fields(field.message_type).keys()))


@cache
def _fields_on_rest(descriptor: Descriptor) -> dict[str, list[FieldDescriptor]]:
    """Return the fields of a message by each name that they have, the field of that very name first."""
    found = {field.name: [field] for field in descriptor.fields}
    for field in descriptor.fields:
        shared = field.GetOptions().Extensions[rest_pb2.rest_name]
        if shared:
            found.setdefault(shared, []).append(field)
    return found


def _known(item: Any, field: FieldDescriptor) -> Any:  # noqa: ANN401 - plain data is of any kind
    if item is None:
        return None
    if is_map(field):
        held = _fields(field.message_type)["value"]
        return {key: _known_item(one, held) for key, one in item.items()}
    if field.is_repeated:
        known = [_known_item(one, field) for one in item]
        return [one for one in known if one is not None]
    return _known_item(item, field)


def _known_item(item: Any, field: FieldDescriptor) -> Any:  # noqa: ANN401 - plain data is of any kind
    if field.enum_type is not None:
        return item if item in _enum_numbers(field.enum_type) else None
    wrapped = wrapped_field(field.message_type) if field.message_type is not None else None
    if wrapped is not None:
        return _known(item, wrapped)
    if field.message_type is None or not isinstance(item, Mapping):
        return item
    return _known_fields(item, _fields_on_rest(field.message_type))


def _without_none(data: object) -> object:
    if isinstance(data, Mapping):
        return {key: _without_none(item) for key, item in data.items() if item is not None}
    if isinstance(data, list | tuple):
        return [_without_none(item) for item in data]
    return data


def _plain_field(message: Message, field: FieldDescriptor) -> Any:  # noqa: ANN401 - plain data is of any kind
    if field.is_repeated:
        held = getattr(message, field.name)
        if is_map(field):
            item = _fields(field.message_type)["value"]
            return {str(key): _plain_item(held[key], item) for key in sorted(held)}
        return [_plain_item(one, field) for one in held]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain_item(getattr(message, field.name), field)


def _plain_item(held: Any, field: FieldDescriptor) -> Any:  # noqa: ANN401 - plain data is of any kind
    if field.enum_type is not None:
        return enum_names(field.enum_type).get(held)
    if field.message_type is None:
        return held
    if isinstance(held, Timestamp):
        return _time(held, field)
    wrapped = wrapped_field(field.message_type)
    return _plain_field(held, wrapped) if wrapped else plain(held)


def _time(held: Timestamp, field: FieldDescriptor) -> str:
    try:
        return held.ToDatetime(tzinfo=UTC).isoformat()
    except ValueError as error:
        raise MalformedRequest(f"{field.name}: {NO_TIME}", field=field.name) from error


def _fill(message: Message, value: object) -> None:
    known = _fields(message.DESCRIPTOR)
    for name, item in _items(value):
        if item is not None:
            _fill_field(message, known[name], item)


def _fill_field(message: Message, field: FieldDescriptor, item: Any) -> None:  # noqa: ANN401 - plain data is of any kind
    if is_map(field):
        _fill_map(getattr(message, field.name), _fields(field.message_type)["value"], item)
    elif field.is_repeated:
        held = getattr(message, field.name)
        for one in item:
            if field.message_type is not None:
                _fill_message(held.add(), one)
            else:
                held.append(_scalar(field, one))
    elif field.message_type is not None:
        submessage = getattr(message, field.name)
        submessage.SetInParent()
        _fill_message(submessage, item)
    else:
        setattr(message, field.name, _scalar(field, item))


def _fill_map(held: Any, field: FieldDescriptor, items: Mapping[Any, Any]) -> None:  # noqa: ANN401 - generated container
    for key, one in items.items():
        if one is None:
            continue
        if field.message_type is not None:
            _fill_message(held[str(key)], one)
        else:
            held[str(key)] = _scalar(field, one)


def _fill_message(message: Message, item: Any) -> None:  # noqa: ANN401 - plain data is of any kind
    wrapped = wrapped_field(message.DESCRIPTOR)
    if isinstance(message, Timestamp):
        message.FromDatetime(item if isinstance(item, datetime) else datetime.fromisoformat(item))
    elif wrapped:
        _fill_field(message, wrapped, item)
    else:
        _fill(message, item)


def _items(value: object) -> list[tuple[str, Any]]:
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return list(value.items())
    raise TypeError(f"{type(value).__name__} is neither a value nor plain data")


def _scalar(field: FieldDescriptor, item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    if field.enum_type is not None:
        if isinstance(item, Enum) and item.name not in type(item).__members__:
            return 0  # a stored word of another version; see `chassis.serving.stored`
        return _enum_numbers(field.enum_type)[item.value if isinstance(item, Enum) else item]
    return item.value if isinstance(item, Enum) else item


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field of the contract is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


@cache
def _fields(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    return {field.name: field for field in descriptor.fields}


@cache
def wrapped_field(descriptor: Descriptor) -> FieldDescriptor | None:
    """Return the only field of a message that REST spells as that field itself; None for every other message."""
    only = list(_fields(descriptor).values())
    return only[0] if len(only) == 1 and only[0].name.startswith("by_") else None


@cache
def enum_names(descriptor: EnumDescriptor) -> dict[int, str | None]:
    """Return the words of an enum as REST spells them, by number; None for the unspecified one."""
    prefix = next(v.name for v in descriptor.values if v.number == 0).removesuffix("UNSPECIFIED")
    names = {v.number: v.name.removeprefix(prefix) if v.number else None for v in descriptor.values}
    if not descriptor.GetOptions().Extensions[rest_pb2.lower_case]:
        return names
    return {number: name and name.lower() for number, name in names.items()}


@cache
def _enum_numbers(descriptor: EnumDescriptor) -> dict[str, int]:
    return {name: number for number, name in enum_names(descriptor).items() if name is not None}
