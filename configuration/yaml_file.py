"""This module reads and checks configuration files in YAML, and names the line of every error."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import yaml
from pydantic import Strict

from chassis.errors import ConfigurationInvalid
from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest
from kernel.violations import NO_SUCH_FIELD

T = TypeVar("T")

# A number that is written as one: not a text that looks like a number, and neither `yes` nor `true`.
Number = Annotated[float, Strict()]


class YamlFile(Generic[T]):
    """A YAML file is read as a value of `kind`.

    Args:
        path: The file.
        kind: Type of the value.

    Raises:
        ConfigurationInvalid: When it cannot be read so; names the line and the reason.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self._root: yaml.Node | None = None
        try:
            source = path.read_text()
            self._root = yaml.compose(source, Loader=yaml.SafeLoader)
            self._check_doubled_keys()
            self.content: T = from_plain(yaml.safe_load(source) or {}, kind)
        except OSError as error:
            raise self._error(None, f"cannot be read: {error.strerror}") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise self._error(line, error.problem or "is not YAML") from error
        except MalformedRequest as error:
            place = next(iter(error.violations), "")
            message = error.message.replace(NO_SUCH_FIELD, "there is no such key")
            raise self.error_at(place.split("."), message) from error
        except (yaml.YAMLError, ValueError) as error:  # not text, or a date that does not exist
            raise self._error(None, f"cannot be read: {error}") from error

    def error_at(self, steps: Sequence[str | int], reason: str) -> ConfigurationInvalid:
        """Return the error at `steps`: keys and places from the top of the document."""
        return self._error(_line(self._root, [str(step) for step in steps]), reason)

    def _error(self, line: int | None, reason: str) -> ConfigurationInvalid:
        place = f"{self._path}, line {line}" if line else str(self._path)
        return ConfigurationInvalid(f"{place}: {reason}", file=str(self._path), line=str(line or ""), problem=reason)

    def _check_doubled_keys(self) -> None:
        """Raise for two entries with one name, of which YAML's loader silently drops the first."""
        for mapping in _mappings(self._root):
            seen: dict[str, int] = {}
            for key, _ in mapping.value:
                line = key.start_mark.line + 1
                if str(key.value) in seen:
                    raise self._error(line, f"{key.value}: stands twice, first in line {seen[key.value]}")
                seen[str(key.value)] = line


class WatchedFile(Generic[T]):
    """A watched file is read again when it changes; while it is invalid, what was read before stays in use.

    Args:
        path: The file.
        read: Reads it.
        name: What it holds, for messages, such as `agents`.

    Attributes:
        problem: Why the file as it is now cannot be used; empty when it can.

    Raises:
        ConfigurationInvalid: When the file cannot be used at start; names the line and the reason.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], name: str) -> None:
        self._path = path
        self._read = read
        self._name = name
        self._seen = file_stamp(path)
        self._content = read(path)
        self.problem = ""

    def current(self) -> T:
        """Return the content of the file as it is now, or the last valid one when it is invalid."""
        stamp = file_stamp(self._path)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._content, self.problem = self._read(self._path), ""
            except ConfigurationInvalid as error:
                self.problem = error.message
        return self._content

    async def check(self) -> None:
        """Return if the file can be used as it is now.

        Raises:
            ConfigurationInvalid: While it is invalid and what was read before is in use.
        """
        self.current()
        if self.problem:
            raise ConfigurationInvalid(f"{self.problem}; the {self._name} read before are in use")


def file_stamp(path: Path) -> tuple[int, int]:
    """Return numbers that are others when a file has changed."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Return every mapping of a document, each once, however many references there are."""
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
    """Return the line of the deepest place of `steps` that the document has, from 1."""
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
