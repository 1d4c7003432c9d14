"""Configuration files in YAML, checked as they are read: whatever is wrong is said with the line that it stands in."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import yaml
from pydantic import Strict

from chassis.errors import ConfigurationInvalid
from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest

T = TypeVar("T")

# A number that is written as one: not a text that looks like a number, and neither `yes` nor `true`.
Number = Annotated[float, Strict()]


class YamlFile(Generic[T]):
    """A file read as a value of `kind`.

    Args:
        path: The file.
        kind: What it is to be read as.

    Raises:
        ConfigurationInvalid: When it cannot be read so; names the line and the reason.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self._root: yaml.Node | None = None
        try:
            source = path.read_text()
            self._root = yaml.compose(source, Loader=yaml.SafeLoader)
            self._refuse_doubled_keys()
            self.content: T = from_plain(yaml.safe_load(source) or {}, kind)
        except OSError as wrong:
            raise self._wrong(None, f"cannot be read: {wrong.strerror}") from wrong
        except yaml.MarkedYAMLError as wrong:
            line = wrong.problem_mark.line + 1 if wrong.problem_mark else None
            raise self._wrong(line, wrong.problem or "is not YAML") from wrong
        except MalformedRequest as wrong:
            place = next(iter(wrong.metadata), "")
            said = wrong.message.replace("Unexpected keyword argument", "there is no such key")
            raise self.wrong(place.split("."), said) from wrong
        except (yaml.YAMLError, ValueError) as wrong:  # what is no text, or a date that does not exist
            raise self._wrong(None, f"cannot be read: {wrong}") from wrong

    def wrong(self, steps: Sequence[str | int], reason: str) -> ConfigurationInvalid:
        """Return the refusal of what stands at `steps`: keys and places from the top of the document."""
        return self._wrong(_line(self._root, [str(step) for step in steps]), reason)

    def _wrong(self, line: int | None, reason: str) -> ConfigurationInvalid:
        place = f"{self._path}, line {line}" if line else str(self._path)
        return ConfigurationInvalid(f"{place}: {reason}", file=str(self._path), line=str(line or ""), problem=reason)

    def _refuse_doubled_keys(self) -> None:
        """YAML's loader would keep the last of two entries with one name, and drop the first without a word."""
        for mapping in _mappings(self._root):
            seen: dict[str, int] = {}
            for key, _ in mapping.value:
                line = key.start_mark.line + 1
                if str(key.value) in seen:
                    raise self._wrong(line, f"{key.value}: stands twice, first in line {seen[key.value]}")
                seen[str(key.value)] = line


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Return every mapping of a document, each once, whatever refers to it."""
    waiting, seen = [root] if root is not None else [], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _line(node: yaml.Node | None, steps: Sequence[str]) -> int | None:
    """Return line of the deepest place of `steps` that the document has, from 1."""
    line = node.start_mark.line + 1 if node is not None else None
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        line, node = found.start_mark.line + 1, found
    return line


def _child(node: yaml.Node | None, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        chosen: yaml.Node = node.value[int(step)]
        return chosen
    return None
