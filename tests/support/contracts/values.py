"""The values that the services read and write messages of the contracts as, found by the names of the messages."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from chassis.calls.values import ListCallsRequest
from chassis.serving.wire import event_name, is_map
from tests.support.contracts.messages import SERVICES

# Requests of one or two plain arguments, which a service hands to its use case without a value.
WITHOUT_VALUE = frozenset(
    {
        "metacog.router.v1.GetRunRequest",
        "metacog.router.v1.DeleteKnowledgeRequest",
        "metacog.delegation.v1.GetTaskRequest",
        "metacog.arbiter.v1.GetArbitrationRequest",
        "metacog.arbiter.v1.GetVoteRequest",
        "metacog.assigner.v1.GetDeliberationRequest",
    }
)
# Values that several services share.
SHARED: Mapping[str, type] = {
    "metacog.arbiter.v1.ListArbitrationsRequest": ListCallsRequest,
    "metacog.arbiter.v1.ListVotesRequest": ListCallsRequest,
    "metacog.assigner.v1.ListDeliberationsRequest": ListCallsRequest,
}
# Values whose names the other services' values have too, and so another name than their messages.
RENAMED: Mapping[str, str] = {
    "metacog.delegation.v1.SubmitFeedbackRequest": "TaskFeedbackRequest",
    "metacog.delegation.v1.SubmitFeedbackResponse": "TaskFeedbackResponse",
}
# Modules that cannot be imported as such, or hold no values.
NO_VALUES = ("__main__", ".env", ".versions", ".runner")


@dataclass(frozen=True)
class Pair:
    """A message, and the value that a service reads or writes it as.

    Attributes:
        service: Name of the service.
        message: Descriptor of the message.
        kind: Type of the value; None where the service has none.
        event: Field of the stream's message that carries it; empty for a request or reply.
        stream: Descriptor of that stream's message; None for a request or reply.
    """

    service: str
    message: Descriptor
    kind: type | None
    event: str = ""
    stream: Descriptor | None = None

    def __str__(self) -> str:
        return f"{self.service}-{self.event or self.message.name}"


@cache
def pairs() -> tuple[Pair, ...]:
    """Every request, reply and event of every operation of the four services, each with its value.

    Events that the router relays from the other services have no value there.
    """
    return tuple(pair for service in SERVICES for pair in dict.fromkeys(_pairs(service)))


def _pairs(service: str) -> Iterator[Pair]:
    kinds = _kinds(service)
    by_event = {event_name(object.__new__(kind)): kind for kind in kinds.values()}
    for method in SERVICES[service].methods:
        for message in (method.input_type, method.output_type):
            if "event" in message.oneofs_by_name:
                for field in message.oneofs_by_name["event"].fields:
                    assert field.message_type is not None
                    yield Pair(service, field.message_type, by_event.get(field.name), field.name, message)
            elif message.full_name not in WITHOUT_VALUE:
                named = kinds.get(RENAMED.get(message.full_name, message.name))
                yield Pair(service, message, SHARED.get(message.full_name, named))


def _kinds(service: str) -> Mapping[str, type]:
    """The values that a service declares, by name; where two modules have one, that of `values`."""
    package = importlib.import_module(f"services.{service}.service")
    found: dict[str, type] = {}
    for module in sorted(pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda one: one.name):
        if any(part in module.name for part in NO_VALUES):
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and is_dataclass(kind) and kind.__module__ == module.name:
                found[name] = kind
    return found


@cache
def enums() -> Mapping[str, frozenset[type[StrEnum]]]:
    """The enums of the values by the full names of the contract's enums, as the types of the values' fields say."""
    found: dict[str, set[type[StrEnum]]] = {}
    for field, hint in fields_with_types():
        if field.enum_type is not None:
            kinds = (one for one in _classes(hint) if issubclass(one, StrEnum))
            found.setdefault(field.enum_type.full_name, set()).update(kinds)
    return {name: frozenset(kinds) for name, kinds in found.items()}


@cache
def fields_with_types(*, of_replies: bool = False) -> Sequence[tuple[FieldDescriptor, Any]]:
    """The fields of all messages that have a value, or only of replies, each with the type of the value's field."""
    return tuple(
        (field, hints[field.name])
        for message, kind in messages_with_values(of_replies=of_replies)
        for hints in (get_type_hints(kind),)
        for field in message.fields
        if field.name in hints
    )


@cache
def messages_with_values(*, of_replies: bool = False) -> Sequence[tuple[Descriptor, type]]:
    """All messages that have a value, or only those of replies, each with the type of the value; inner ones too."""
    wanted = [pair for pair in pairs() if not (of_replies and pair.message.name.endswith("Request"))]
    found = (one for pair in wanted if pair.kind is not None for one in _with_inner(pair.message, pair.kind))
    return tuple(dict.fromkeys(found))


def _with_inner(message: Descriptor, kind: type) -> Iterator[tuple[Descriptor, type]]:
    yield message, kind
    hints = get_type_hints(kind)
    for field in message.fields:
        if field.message_type is not None and not is_map(field):
            for one in _classes(hints.get(field.name)):
                if is_dataclass(one):
                    yield from _with_inner(field.message_type, one)


def _classes(hint: Any) -> Iterator[type]:  # noqa: ANN401 - a type, or a form of typing
    """The classes that stand anywhere in a type: in `Sequence[Role] | None` it is `Role`, with those around it."""
    if isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from _classes(argument)
