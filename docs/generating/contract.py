"""This module generates the reference of both APIs from the contracts: `docs/rest.md` and `docs/grpc.md`.

The descriptors are built anew from `proto/`, since the generated code does not carry the comments.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

from google.api import annotations_pb2  # registers the HTTP rule with the options of methods
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from metacog.common.v1 import rest_pb2  # registers the options of enums

from configuration.services import GRPC_PORTS, REST_PORTS

SCALARS = {
    FieldDescriptorProto.TYPE_DOUBLE: "number",
    FieldDescriptorProto.TYPE_FLOAT: "number",
    FieldDescriptorProto.TYPE_INT32: "integer",
    FieldDescriptorProto.TYPE_INT64: "integer",
    FieldDescriptorProto.TYPE_BOOL: "boolean",
    FieldDescriptorProto.TYPE_STRING: "string",
}
# Field numbers of descriptor.proto, by which comments name their place.
MESSAGE, ENUM, SERVICE, IN_MESSAGE, IN_ENUM, IN_SERVICE = 4, 5, 6, 2, 2, 2
TIMESTAMP = ".google.protobuf.Timestamp"


@dataclass(frozen=True)
class Described:
    """The description holds every message, enum and service of the contracts with its comment.

    Attributes:
        messages: Messages by full name.
        enums: Names of the values of each enum, without the enum's prefix, by full name.
        comments: Comment by full name of a message, field, enum, service or method.
        services: Methods by service, as `Router`.
        packages: Package of each service.
    """

    messages: dict[str, DescriptorProto] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    services: dict[str, Sequence[MethodDescriptorProto]] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)


def services(root: Path) -> Described:
    """Return the contracts below `root`."""
    described = Described()
    for file in _descriptors(root).file:
        if file.package.startswith("metacog."):
            _take(file, described)
    return described


def _descriptors(root: Path) -> FileDescriptorSet:
    protos = sorted(str(path.relative_to(root / "proto")) for path in (root / "proto").rglob("*.proto"))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", "-I", "third_party", "--include_imports"]
        run([*command, "--include_source_info", f"--descriptor_set_out={out}", *protos], cwd=root, check=True)
        return FileDescriptorSet.FromString(out.read_bytes())


def _take(file: FileDescriptorProto, into: Described) -> None:
    text = {tuple(place.path): _words(place.leading_comments) for place in file.source_code_info.location}
    for number, message in enumerate(file.message_type):
        name = f".{file.package}.{message.name}"
        into.messages[name] = message
        into.comments[name] = text.get((MESSAGE, number), "")
        for index, part in enumerate(message.field):
            into.comments[f"{name}.{part.name}"] = text.get((MESSAGE, number, IN_MESSAGE, index), "")
        for nested in message.nested_type:
            into.messages[f"{name}.{nested.name}"] = nested
    for number, enum in enumerate(file.enum_type):
        name = f".{file.package}.{enum.name}"
        prefix = enum.value[0].name.removesuffix("UNSPECIFIED")
        words = [value.name.removeprefix(prefix) for value in enum.value[1:]]
        into.enums[name] = [word.lower() for word in words] if enum.options.Extensions[rest_pb2.lower_case] else words
        into.comments[name] = text.get((ENUM, number), "")
        for index, value in enumerate(enum.value):
            into.comments[f"{name}.{value.name}"] = text.get((ENUM, number, IN_ENUM, index), "")
    for number, service in enumerate(file.service):
        name = service.name.removesuffix("Service")
        into.services[name], into.packages[name] = service.method, file.package
        into.comments[service.name] = text.get((SERVICE, number), "")
        for index, method in enumerate(service.method):
            into.comments[f"{service.name}.{method.name}"] = text.get((SERVICE, number, IN_SERVICE, index), "")


def _words(comment: str) -> str:
    """Return a comment in one line a paragraph."""
    paragraphs = comment.strip().split("\n\n") if "\n\n" in comment else comment.strip().split("\n \n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)


def comments(described: Described) -> str:
    """Return every comment by the full name of what it describes, as JSON: the OpenAPI documents are made of them."""
    packages = {f"{name}Service": package for name, package in described.packages.items()}
    named = {
        name.removeprefix(".") if name.startswith(".") else f"{packages[name.partition('.')[0]]}.{name}": text
        for name, text in described.comments.items()
        if text
    }
    return json.dumps(dict(sorted(named.items())), indent=0, ensure_ascii=False) + "\n"


def http(method: MethodDescriptorProto) -> tuple[str, str]:
    """Return verb and path that the contract gives a method."""
    rule = method.options.Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    return verb.upper(), str(getattr(rule, verb))


def rest_page(described: Described) -> str:
    """Return REST: each operation with its body and reply, then the shared shapes."""
    head = Path(__file__).with_name("rest.head.md").read_text()
    return "\n".join([head, *_operations(described, rest=True), *_shapes(described)])


def grpc_page(described: Described) -> str:
    """Return gRPC: each method; requests and replies are spelled as on REST."""
    head = Path(__file__).with_name("grpc.head.md").read_text()
    return "\n".join([head, *_operations(described, rest=False)])


def _operations(described: Described, *, rest: bool) -> Iterator[str]:
    for name, port in (REST_PORTS if rest else GRPC_PORTS).items():
        service = name.capitalize()
        title = (
            f"## {service}, port {port}" if rest else f"## {described.packages[service]}.{service}Service, port {port}"
        )
        yield f"{title}\n\n{described.comments[f'{service}Service']}\n"
        for method in described.services[service]:
            yield _rest(described, service, method) if rest else _grpc(described, service, method)


def _rest(described: Described, service: str, method: MethodDescriptorProto) -> str:
    verb, path = http(method)
    text = described.comments[f"{service}Service.{method.name}"]
    reply = f"[{_short(method.output_type)}](#{_short(method.output_type).lower()})"
    if method.server_streaming:
        reply = f"the last event's content, or with `Accept: text/event-stream` every event of {reply}"
    given = "query" if verb in ("GET", "DELETE") else "body"
    asks = _fields(described, method.input_type, given)
    return f"### {verb} {path}\n\n{text}\n\n{asks}Reply: {reply}.\n"


def _grpc(described: Described, service: str, method: MethodDescriptorProto) -> str:
    verb, path = http(method)
    stream = "stream " if method.server_streaming else ""
    call = f"rpc {method.name}({_short(method.input_type)}) returns ({stream}{_short(method.output_type)})"
    text = described.comments[f"{service}Service.{method.name}"]
    return f"### {service}.{method.name}\n\n`{call}`, on REST `{verb} {path}`\n\n{text}\n"


def _fields(described: Described, name: str, given: str) -> str:
    message = described.messages[name]
    if not message.field:
        return ""
    lines = [f"| {given} | type | meaning |", "|---|---|---|", *_lines(described, name, message)]
    return "\n".join(lines) + "\n\n"


def _lines(described: Described, name: str, message: DescriptorProto) -> Iterator[str]:
    for part in message.field:
        text = described.comments[f"{name}.{part.name}"].replace("\n\n", " ").replace("|", "\\|")
        yield f"| `{part.name}` | {_kind(described, part)} | {text} |"


def _kind(described: Described, part: FieldDescriptorProto) -> str:
    """Return type of a field as JSON has it."""
    many = part.label == FieldDescriptorProto.LABEL_REPEATED
    if part.type == FieldDescriptorProto.TYPE_MESSAGE:
        nested = described.messages.get(part.type_name)
        if nested is not None and nested.options.map_entry:
            return f"object of {_kind(described, nested.field[1])}"
        text = "timestamp" if part.type_name == TIMESTAMP else _message(described, part.type_name)
    elif part.type == FieldDescriptorProto.TYPE_ENUM:
        text = " or ".join(f"`{value}`" for value in described.enums[part.type_name])
    else:
        text = SCALARS[part.type]
    return f"list of {text}" if many else text


def _message(described: Described, name: str) -> str:
    """Return a message by its shape; one that only wraps a mapping is that mapping on REST."""
    only = described.messages[name].field
    if len(only) == 1 and only[0].name.startswith("by_"):
        return _kind(described, only[0])
    return f"[{_short(name)}](#{_short(name).lower()})"


def _shapes(described: Described) -> Iterator[str]:
    """Return every message that an operation can bring, by name; requests stand with their operations."""
    asked = {method.input_type for methods in described.services.values() for method in methods}
    yield "## Shapes\n"
    for name in sorted(described.messages, key=_short):
        message = described.messages[name]
        wraps = len(message.field) == 1 and message.field[0].name.startswith("by_")
        if name in asked or wraps or message.options.map_entry:
            continue
        yield (
            f"### {_short(name)}\n\n{described.comments.get(name, '')}\n\n{_fields(described, name, 'field')}".rstrip()
            + "\n"
        )


def _short(name: str) -> str:
    """Return last part of a name, with the service where two have the same.

    Example:
        >>> _short(".metacog.router.v1.RunStarted"), _short(".metacog.delegation.v1.AnswerToken")
        ('RunStarted', 'DelegationAnswerToken')
    """
    last = name.rsplit(".", 1)[-1]
    twice = ("AnswerToken", "SubmitFeedbackRequest", "SubmitFeedbackResponse")
    return f"Delegation{last}" if last in twice and ".delegation." in name else last
