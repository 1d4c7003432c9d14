"""This module makes the OpenAPI document of a service say what its contract says: descriptions, replies and errors.

The words are the comments of the protos, which `make docs` writes to `comments.json`: the generated code has none.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor

from chassis.errors import EXACT_STATUSES
from chassis.serving.wire import enum_names, event_name, is_map, wrapped_field
from kernel.errors import Code

COMMENTS = Path(__file__).with_name("comments.json")
REASONS = "metacog.common.v1.ErrorReason.ERROR_REASON_"
# What any operation may fail with, mostly before it is reached; the last two where it takes a body.
ALWAYS = (
    "MALFORMED_REQUEST",
    "UNAUTHENTICATED",
    "OWNER_NOT_ALLOWED",
    "ORIGIN_NOT_ALLOWED",
    "HOST_NOT_ALLOWED",
    "HEAD_TOO_LARGE",
    "REQUEST_TIMEOUT",
    "OVERLOADED",
    "TOO_MANY_CALLERS",
    "INTERNAL",
)
WITH_BODY = ("BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
STREAM = "text/event-stream"
# A problem document, as `chassis.serving.rest.problem_body` makes it.
PROBLEM: Mapping[str, Any] = {
    "title": "Problem",
    "description": "An error, by RFC 9457.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "URN of the reason."},
        "title": {"type": "string"},
        "status": {"type": "integer", "description": "HTTP status."},
        "detail": {"type": "string", "description": "What is wrong, where, and what to do."},
        "code": {"type": "string", "description": "Canonical code, as gRPC names it."},
        "reason": {"type": "string", "description": "Stable name of the reason: an `ErrorReason` without prefix."},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "errors": {
            "type": "array",
            "description": "What is wrong with which fields of the request; empty where it is not a field.",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "description": {"type": "string"}},
                "required": ["field", "description"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "code", "reason", "metadata", "errors"],
    "additionalProperties": False,
}

Document = dict[str, Any]
Operation = dict[str, Any]


@cache
def comments() -> Mapping[str, str]:
    """Return the comments of the contracts, by the full names of what they describe."""
    found: Mapping[str, str] = json.loads(COMMENTS.read_text())
    return found


def complete(
    document: Document,
    methods: Mapping[tuple[str, str], MethodDescriptor],
    error_schema: Callable[[str], Mapping[str, Any] | None],
) -> None:
    """Put into FastAPI's document what it does not know.

    FastAPI lists a 422 wherever a request is read; here that is a 400, and a problem document or what the shape of the
    path makes of it.

    Args:
        document: The document, which is changed.
        methods: Operations of the contract by HTTP verb and path.
        error_schema: Returns the schema of the errors of a path; None: problem documents.
    """
    schemas: Document = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            method = methods.get((verb.upper(), path))
            if method is not None:
                _describe_operation(operation, method, schemas)
            operation["responses"].pop("422", None)
            named = re.findall(r"`([A-Z][A-Z_]+)`", operation.get("description", ""))
            reasons = dict.fromkeys([*named, *ALWAYS, *(WITH_BODY if "requestBody" in operation else ())])
            operation["responses"] |= _errors(reasons, error_schema(path))


def _errors(reasons: Iterable[str], schema: Mapping[str, Any] | None) -> Document:
    """Return errors by status, each with its reasons."""
    media = "application/problem+json" if schema is None else "application/json"
    content = {media: {"schema": schema or {"$ref": "#/components/schemas/Problem"}}}
    by_status: dict[int, list[str]] = defaultdict(list)
    for reason in reasons:
        words = comments().get(f"{REASONS}{reason}", "")
        for status in _statuses(reason, words):
            by_status[status].append(f"`{reason}`: {words.partition(': ')[2]}")
    listed = {
        str(status): {"description": "\n\n".join(lines), "content": content}
        for status, lines in sorted(by_status.items())
    }
    return {**listed, "default": {"description": "Any other error.", "content": content}}


def _statuses(reason: str, words: str) -> Iterator[int]:
    """Yield the HTTP statuses of a reason, whose comment begins with its canonical codes."""
    codes = [code for code in words.partition(":")[0].split(" or ") if code in Code.__members__]
    yield from dict.fromkeys(EXACT_STATUSES.get(reason, Code[code].http) for code in codes)


def _describe_operation(operation: Operation, method: MethodDescriptor, schemas: Document) -> None:
    operation["description"] = comments()[method.full_name]
    for parameter in operation.get("parameters", ()):
        parameter["description"] = comments()[method.input_type.fields_by_name[parameter["name"]].full_name]
    walk = _Walk(schemas)
    for content in operation.get("requestBody", {}).get("content", {}).values():
        walk.message(content["schema"], method.input_type)
    replies = operation["responses"]["200"]["content"]
    for content in replies.values():
        walk.message(content["schema"], _reply(content["schema"], method))
    if method.server_streaming:
        described = f"Every event, named as its field: {comments()[method.output_type.full_name]}"
        replies[STREAM] = {"schema": {"type": "string", "description": described}}


def _reply(schema: Document, method: MethodDescriptor) -> Descriptor:
    """Return the message that a reply holds: of a stream, that of its last event."""
    if not method.server_streaming:
        return method.output_type
    name = schema["$ref"].rpartition("/")[2].removesuffix("-Output")
    last = method.output_type.fields_by_name[event_name(type(name, (), {})())].message_type
    assert last is not None
    return last


class _Walk:
    """A walk along a schema and the message that it spells puts the comments of the message into the schema.

    Args:
        schemas: Schemas that are referred to by name.
    """

    def __init__(self, schemas: Document) -> None:
        self._schemas = schemas
        self._seen = set[str]()

    def message(self, schema: Document, message: Descriptor) -> None:
        """Describe the object that spells `message`, at any place in `schema`."""
        for node in self._nodes(schema, "items"):
            if "properties" in node:
                node["description"] = comments()[message.full_name]
                for name, part in node["properties"].items():
                    self._field(part, message.fields_by_name.get(name))

    def _field(self, schema: Document, field: FieldDescriptor | None) -> None:
        if field is None:
            return
        schema["description"] = comments()[field.full_name]
        self._held(schema, field)

    def _held(self, schema: Document, field: FieldDescriptor) -> None:
        """Describe what a field holds, below its own description."""
        if field.enum_type is not None:
            self._enum(schema, field.enum_type)
        elif field.message_type is None:
            return
        elif is_map(field):
            for node in self._nodes(schema):
                if isinstance(node.get("additionalProperties"), dict):
                    self._held(node["additionalProperties"], field.message_type.fields_by_name["value"])
        elif (wrapped := wrapped_field(field.message_type)) is not None:
            self._held(schema, wrapped)
        else:
            self.message(schema, field.message_type)

    def _enum(self, schema: Document, enum: EnumDescriptor) -> None:
        for node in self._nodes(schema, "items"):
            if "enum" in node:
                words = [
                    f"- `{word}`: {comments()[f'{enum.full_name}.{enum.values_by_number[number].name}']}"
                    for number, word in enum_names(enum).items()
                    if word is not None
                ]
                node["description"] = "\n".join([comments()[enum.full_name], "", *words])

    def _nodes(self, schema: Document, *below: str) -> Iterator[Document]:
        """Yield `schema` and what it refers to: alternatives, what is `below` it, and schemas by name, each once."""
        reference = schema.get("$ref")
        if reference is not None:
            name = reference.rpartition("/")[2]
            if name not in self._seen:
                self._seen.add(name)
                yield from self._nodes(self._schemas[name], *below)
            return
        yield schema
        for key in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(key, ()):
                yield from self._nodes(one, *below)
        for key in below:
            if isinstance(schema.get(key), dict):
                yield from self._nodes(schema[key], *below)
