"""The messages of the contracts, by their descriptors."""

from collections.abc import Iterator
from functools import cache

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor, ServiceDescriptor
from metacog.arbiter.v1 import arbiter_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.delegation.v1 import delegation_pb2
from metacog.router.v1 import router_pb2

SERVICES: dict[str, ServiceDescriptor] = {
    "router": router_pb2.DESCRIPTOR.services_by_name["RouterService"],
    "assigner": assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"],
    "arbiter": arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"],
    "delegation": delegation_pb2.DESCRIPTOR.services_by_name["DelegationService"],
}


@cache
def every_message() -> tuple[Descriptor, ...]:
    """Every message that a file of the contracts declares, in the order of files and of their names."""
    return tuple(message for file in _files() for message in file.message_types_by_name.values())


@cache
def every_enum() -> tuple[EnumDescriptor, ...]:
    """Every enum that a file of the contracts declares."""
    return tuple(enum for file in _files() for enum in file.enum_types_by_name.values())


def _files() -> list[FileDescriptor]:
    files = {file.name: file for service in SERVICES.values() for file in _with_imports(service.file)}
    return [file for name, file in sorted(files.items()) if name.startswith("metacog/")]


def _with_imports(file: FileDescriptor) -> Iterator[FileDescriptor]:
    yield file
    for imported in file.dependencies:
        yield from _with_imports(imported)
