"""This module generates the lists of operations of both APIs from the contracts: `docs/rest.md` and `docs/grpc.md`.

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
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from metacog.common.v1 import rest_pb2  # registers the options of enums

from configuration.services import GRPC_PORTS, REST_PORTS

# Field numbers of descriptor.proto, by which comments name their place.
MESSAGE, ENUM, SERVICE, IN_MESSAGE, IN_ENUM, IN_SERVICE = 4, 5, 6, 2, 2, 2


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
    """Return REST: what all operations have in common, examples, and every operation with what it does."""
    head = Path(__file__).with_name("rest.head.md").read_text()
    return "\n".join([head, *_index(described)])


def grpc_page(described: Described) -> str:
    """Return gRPC: each method; requests and replies are spelled as on REST."""
    head = Path(__file__).with_name("grpc.head.md").read_text()
    return "\n".join([head, *_operations(described)])


def _index(described: Described) -> Iterator[str]:
    for name, port in REST_PORTS.items():
        service = name.capitalize()
        about = described.comments[f"{service}Service"].partition("\n\n")[0]
        yield f"## {service}, port {port}\n\n{about} Fields and errors: [openapi/{name}.json](openapi/{name}.json).\n"
        yield "| operation | what it does |\n|---|---|"
        for method in described.services[service]:
            verb, path = http(method)
            text = described.comments[f"{service}Service.{method.name}"].partition("\n\n")[0].replace("|", "\\|")
            yield f"| `{verb} {path}` | {text}{' Streams its events.' if method.server_streaming else ''} |"
        yield ""


def _operations(described: Described) -> Iterator[str]:
    for name, port in GRPC_PORTS.items():
        service = name.capitalize()
        yield (
            f"## {described.packages[service]}.{service}Service, port {port}\n\n"
            f"{described.comments[f'{service}Service']}\n"
        )
        for method in described.services[service]:
            yield _grpc(described, service, method)


def _grpc(described: Described, service: str, method: MethodDescriptorProto) -> str:
    verb, path = http(method)
    stream = "stream " if method.server_streaming else ""
    call = f"rpc {method.name}({_short(method.input_type)}) returns ({stream}{_short(method.output_type)})"
    text = described.comments[f"{service}Service.{method.name}"]
    return f"### {service}.{method.name}\n\n`{call}`, on REST `{verb} {path}`\n\n{text}\n"


def _short(name: str) -> str:
    """Return the last part of a name.

    Example:
        >>> _short(".metacog.router.v1.RunStarted")
        'RunStarted'
    """
    return name.rsplit(".", 1)[-1]
