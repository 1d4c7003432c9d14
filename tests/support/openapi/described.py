"""Whether a reply is as an OpenAPI document describes it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

# Paths about the process, and what they show at `/`, that no document lists.
OF_THE_PROCESS = re.compile(r"/(healthz|readyz|metrics|health|version|openapi\.json|docs(/.*)?)?")


@dataclass(frozen=True)
class Reply:
    """A reply as it was sent."""

    verb: str
    path: str
    status: int
    media_type: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.verb} {self.path}: {self.status} {self.media_type}"


class Described:
    """The operations of an OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._components = document.get("components", {})
        self._paths = [(_pattern(path), path, operations) for path, operations in document["paths"].items()]
        self._validators: dict[tuple[str, str, int, str], jsonschema_rs.Validator] = {}

    def mistakes(self, reply: Reply) -> Iterator[str]:
        """What the document does not say of a reply, or says otherwise."""
        found = [(path, operations) for pattern, path, operations in self._paths if pattern.fullmatch(reply.path)]
        if not found:
            if reply.status < 400 and not OF_THE_PROCESS.fullmatch(reply.path):
                yield f"{reply}: the path is not listed"
            return
        verb = reply.verb.lower()
        path, operations = next(((path, ops) for path, ops in found if verb in ops), found[0])
        if verb in operations:
            yield from self._of_operation(reply, (verb, path), operations[verb])
        elif reply.status < 400:
            yield f"{reply}: the method is not listed"

    def _of_operation(self, reply: Reply, name: tuple[str, str], operation: Mapping[str, Any]) -> Iterator[str]:
        listed = operation["responses"].get(str(reply.status))
        if listed is None:
            yield f"{reply}: the status is not listed: {reply.body[:200]!r}"
        elif reply.media_type not in listed["content"]:
            yield f"{reply}: the content type is not listed"
        elif reply.media_type.endswith("json"):
            key = (*name, reply.status, reply.media_type)
            if key not in self._validators:
                self._validators[key] = self._validator(listed["content"][reply.media_type]["schema"])
            for error in self._validators[key].iter_errors(json.loads(reply.body)):
                yield f"{reply}: {'.'.join(map(str, error.instance_path))}: {error.message[:300]}"

    def _validator(self, schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
        whole = {**schema, "components": self._components}
        return jsonschema_rs.validator_for(json.dumps(whole))


def _pattern(path: str) -> re.Pattern[str]:
    """Return what the paths of an operation match; the last part of a path may be several."""
    parts = re.split(r"\{\w+\}", path)
    last = ".+" if path.endswith("}") else "[^/]+"
    names = ["[^/]+"] * (len(parts) - 2) + [last] * (len(parts) > 1)
    return re.compile("".join(re.escape(part) + name for part, name in zip(parts, [*names, ""], strict=True)))
