"""This module finds what in the console reads replies as mappings, where a forgotten key looks like an unknown value.

The client of the services reads their JSON, and returns messages of the contract. So no other module of the console
reads JSON or makes plain data of a message, and no template looks up a literal key.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, nodes

PACKAGE = "console"
CLIENT = "console/replies/service_client.py"
# What reads JSON, and what makes plain data of a message, by module; none: all of it.
FORBIDDEN: Mapping[str, frozenset[str]] = {
    "json": frozenset(),
    "orjson": frozenset(),
    "chassis.json_text": frozenset(),
    "google.protobuf.json_format": frozenset(),
    "chassis.serving.wire": frozenset({"plain", "event"}),
}


def looked_up(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the files of the console that read replies as mappings, with the lines that do.

    Args:
        root: Folder of the repository.
    """
    files = [file for file in sorted((root / PACKAGE).rglob("*.py")) if str(file.relative_to(root)) != CLIENT]
    templates = sorted((root / PACKAGE).rglob("*.html"))
    found = {file: list(_in_module(ast.parse(file.read_text()))) for file in files}
    found |= {file: list(_in_template(Environment().parse(file.read_text()))) for file in templates}
    return {str(file.relative_to(root)): lines for file, lines in found.items() if lines}


def _in_module(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                read = [alias.name for alias in names if alias.name in FORBIDDEN and not FORBIDDEN[alias.name]]
            case ast.ImportFrom(module=str(module), names=names) if module in FORBIDDEN:
                read = [alias.name for alias in names if alias.name in (FORBIDDEN[module] or {alias.name})]
            case ast.Call(func=ast.Attribute(attr="json")):
                read = [".json()"]
            case _:
                continue
        yield from (f"line {node.lineno}: {name}: only {CLIENT} reads JSON; ask it for a message" for name in read)


def _in_template(template: nodes.Template) -> Iterator[str]:
    for item in template.find_all(nodes.Getitem):
        if isinstance(item.arg, nodes.Const) and isinstance(item.arg.value, str):
            yield f"line {item.lineno}: [{item.arg.value!r}]: read the field of the message"
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr == "get" and call.args:
            key = call.args[0]
            if isinstance(key, nodes.Const) and isinstance(key.value, str):
                yield f"line {call.lineno}: .get({key.value!r}): read the field of the message"
