"""This module finds public class names that more than one module declares."""

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

# Where a name has one meaning.
PACKAGES = ("kernel", "chassis", "inference", "configuration", "sandbox", "services")

# Names that every service has, because all four are laid out alike.
TEMPLATE = frozenset({"Settings", "Parts", "Service"})

# Messages whose names two contracts give: a value is called as its message, and an event on both APIs as its value.
# `AdaptiveOptions` are passed on by the router unchanged. Each service has its own event when it has assessed an agent
# (`agent_assessed`: a state in the assigner, a confidence in delegation) and when text of the answer has arrived.
CONTRACTS = frozenset({"AdaptiveOptions", "AgentAssessed", "AnswerToken"})


def doubled(root: Path, allowed: frozenset[str] = TEMPLATE | CONTRACTS) -> Mapping[str, Sequence[str]]:
    """Return the class names that several modules declare, each with the files that do.

    Args:
        root: Folder of the repository.
        allowed: Names that may stand in several modules.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            for name in _public_classes(file.read_text()):
                places[name].append(str(file.relative_to(root)))
    return {name: files for name, files in sorted(places.items()) if len(files) > 1 and name not in allowed}


def _public_classes(source: str) -> list[str]:
    nodes = ast.walk(ast.parse(source))
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
