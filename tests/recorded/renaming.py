"""Renames bring what was asked and answered in the old spelling to the new one; `renames.yaml` lists them."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import yaml

Rule = Mapping[str, Any]

SECTIONS = (
    "request_fields", "response_fields", "enum_values", "reasons", "paths", "rpc", "cli", "text", "programs",
    "settings", "ignore", "accepted",
)  # fmt: skip
KEYS = frozenset({"old", "new", "only", "kind", "to", "at", "key", "keys", "regex", "value", "why", "id"})


class RenamesError(ValueError):
    """The table of renames cannot be used."""


@dataclass(frozen=True)
class Scope:
    """What a rule is asked about.

    Attributes:
        id: Identifier of the request.
        kind: `rest`, `sse`, `grpc` or `cli`.
        to: Process that it goes to.
    """

    id: str
    kind: str
    to: str


@dataclass
class Renames:
    """The table.

    Attributes:
        sections: Rules by section.
        touched_text: Identifiers of requests whose recorded text a rule has changed.
    """

    sections: Mapping[str, Sequence[Rule]] = field(default_factory=dict)
    touched_text: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the table at `path`.

        Raises:
            RenamesError: It has a section or a key that is unknown.
        """
        found: dict[str, list[Rule] | None] = yaml.safe_load(path.read_text()) or {}
        for section, rules in found.items():
            if section not in SECTIONS:
                raise RenamesError(f"{path.name} has an unknown section: {section}")
            for rule in rules or ():
                if not set(rule) <= KEYS:
                    raise RenamesError(f"{path.name}, {section}: unknown keys in {dict(rule)}")
        return cls({section: rules or [] for section, rules in found.items()})

    def of(self, section: str, scope: Scope | None = None) -> list[Rule]:
        """The rules of `section`, those that are for `scope` if one is given."""
        rules = list(self.sections.get(section, ()))
        return rules if scope is None else [rule for rule in rules if _is_for(rule, scope)]

    def program(self, module: str) -> str:
        """The module that stands for `module`."""
        return next((str(rule["new"]) for rule in self.of("programs") if rule["old"] == module), module)

    def setting(self, name: str) -> str:
        """The environment variable that stands for `name`."""
        return next((str(rule["new"]) for rule in self.of("settings") if rule["old"] == name), name)

    def path(self, path: str, scope: Scope) -> str:
        """The REST path that stands for `path`; the rule with the longest old prefix decides."""
        fitting = [rule for rule in self.of("paths", scope) if path.startswith(rule["old"])]
        if not fitting:
            return path
        rule = max(fitting, key=lambda one: len(one["old"]))
        return str(rule["new"]) + path[len(rule["old"]) :]

    def rpc(self, name: str, scope: Scope) -> str:
        """The gRPC method that stands for `name`, which is `package.Service/Method`."""
        for rule in sorted(self.of("rpc", scope), key=lambda one: -len(one["old"])):
            if name == rule["old"] or name.startswith((rule["old"] + "/", rule["old"] + ".")):
                return str(rule["new"]) + name[len(rule["old"]) :]
        return name

    def arguments(self, arguments: Sequence[str], scope: Scope) -> list[str]:
        """The command line that stands for `arguments`; a rule replaces a run of whole arguments."""
        made = list(arguments)
        for rule in self.of("cli", scope):
            old, new = str(rule["old"]).split(), str(rule["new"] or "").split()
            place = 0
            while place <= len(made) - len(old):
                if made[place : place + len(old)] == old:
                    made[place : place + len(old)] = new
                    place += len(new)
                else:
                    place += 1
        return [self._valued(argument, "", scope) for argument in made]

    def request(self, body: Any, scope: Scope) -> Any:  # noqa: ANN401 - a JSON document
        """A request body in the new spelling."""
        return self._document(
            body, self.of("request_fields", scope), scope, lambda text, key: self._valued(text, key, scope)
        )

    def response(self, body: Any, scope: Scope) -> Any:  # noqa: ANN401 - a JSON document
        """A recorded response in the new spelling."""
        return self._document(
            body, self.of("response_fields", scope), scope, lambda text, key: self._told(text, key, scope)
        )

    def event(self, name: str, scope: Scope) -> str:
        """The name of an event in a stream in the new spelling."""
        rules = self.of("response_fields", scope)
        return next((str(rule["new"]) for rule in rules if rule.get("old") == name and "at" not in rule), name)

    def also(self, keys: frozenset[str]) -> frozenset[str]:
        """`keys`, and what response keys among them are called in the new spelling."""
        renamed = {
            str(rule["new"]).split(".")[-1]
            for rule in self.of("response_fields")
            if rule.get("new") and str(rule.get("old")).split(".")[-1] in keys
        }
        return keys | renamed

    def saved_path(self, path: str, scope: Scope) -> str:
        """The dotted path of a response in the new spelling, for what is saved out of it."""
        whole: Any = "*"
        for part in reversed(path.split(".")):
            whole = {part: whole}
        found, parts = self.response(whole, scope), []
        while isinstance(found, dict) and found:
            name, found = next(iter(found.items()))
            parts.append(name)
        return ".".join(parts)

    def is_accepted(self, scope: Scope) -> bool:
        """Whether any difference of this request is accepted."""
        return any(fnmatchcase(scope.id, rule["id"]) and _is_for(rule, scope) for rule in self.of("accepted"))

    def without_ignored(self, body: Any, scope: Scope, at: str = "") -> Any:  # noqa: ANN401 - a JSON document
        """`body` without the keys that are not compared."""
        if isinstance(body, list):
            return [self.without_ignored(each, scope, at) for each in body]
        if not isinstance(body, dict):
            return body
        rules = [rule for rule in self.of("ignore", scope) if fnmatchcase(at, rule.get("at", "*"))]
        kept = {name: each for name, each in body.items() if not any(fnmatchcase(name, rule["key"]) for rule in rules)}
        return {name: self.without_ignored(each, scope, _joined(at, name)) for name, each in kept.items()}

    def _document(
        self,
        body: Any,  # noqa: ANN401 - a JSON document
        rules: Sequence[Rule],
        scope: Scope,
        text: Callable[[str, str], str],
        at: str = "",
        key: str = "",
    ) -> Any:  # noqa: ANN401 - a JSON document
        """`body` with keys as `rules` have them and texts as `text` has them, from the inside to the outside."""
        if isinstance(body, list):
            return [self._document(each, rules, scope, text, at, key) for each in body]
        if isinstance(body, str):
            return text(body, key)
        if not isinstance(body, dict):
            return body
        made = {
            self._keyed(name, key, scope): self._document(each, rules, scope, text, _joined(at, name), name)
            for name, each in body.items()
        }
        for rule in rules:
            anywhere = rule.get("old") is not None and "." not in str(rule["old"])
            if fnmatchcase(at, rule.get("at", "*" if anywhere else "")):
                made = _moved(made, rule)
        return made

    def _keyed(self, name: str, parent: str, scope: Scope) -> str:
        for rule in self.of("enum_values", scope):
            if rule.get("keys") and rule["old"] == name and fnmatchcase(parent, rule.get("key", "*")):
                return str(rule["new"])
        return name

    def _valued(self, text: str, key: str, scope: Scope) -> str:
        """`text` as an enum value, a reason or a setting in the new spelling."""
        for rule in self.of("enum_values", scope):
            if rule["old"] == text and fnmatchcase(key, rule.get("key", "*")):
                return str(rule["new"])
        for rule in self.of("reasons", scope):
            if text.lower() == str(rule["old"]).lower():
                return str(rule["new"]) if text.isupper() else str(rule["new"]).lower()
        return text

    def _told(self, text: str, key: str, scope: Scope) -> str:
        """A recorded text in the new spelling."""
        made = self._valued(text, key, scope)
        for rule in [*self.of("reasons", scope), *self.of("settings", scope)]:
            made = re.sub(rf"\b{re.escape(str(rule['old']))}\b", str(rule["new"]), made)
        for rule in self.of("text", scope):
            if not fnmatchcase(key, rule.get("key", "*")):
                continue
            new = str(rule["new"] or "")
            made = re.sub(rule["old"], new, made) if rule.get("regex") else made.replace(rule["old"], new)
        if made != text:
            self.touched_text.add(scope.id)
        return made


def _is_for(rule: Rule, scope: Scope) -> bool:
    only = rule.get("only", "*")
    ids = [only] if isinstance(only, str) else only
    return (
        any(fnmatchcase(scope.id, one) for one in ids)
        and fnmatchcase(scope.kind, rule.get("kind", "*"))
        and fnmatchcase(scope.to, rule.get("to", "*"))
    )


def _joined(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _moved(body: dict[str, Any], rule: Rule) -> dict[str, Any]:
    """`body` with what is at `old` of `rule` moved to its `new`; without `old` its `value` is added."""
    made = copy.copy(body)
    if rule.get("old") is None:
        return _put(made, str(rule["new"]).split("."), rule["value"])
    *parents, last = str(rule["old"]).split(".")
    inner, chain = made, []
    for name in parents:
        if not isinstance(inner.get(name), dict):
            return made
        inner[name] = dict(inner[name])
        chain.append((inner, name))
        inner = inner[name]
    if last not in inner:
        return made
    if rule.get("new") is not None and not parents and "." not in str(rule["new"]):
        return {str(rule["new"]) if name == last else name: each for name, each in made.items()}
    found = inner.pop(last)
    for outer, name in reversed(chain):
        if not outer[name]:
            del outer[name]
    return made if rule.get("new") is None else _put(made, str(rule["new"]).split("."), found)


def _put(body: dict[str, Any], path: Sequence[str], found: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
    inner = body
    for name in path[:-1]:
        inner[name] = dict(inner.get(name) or {})
        inner = inner[name]
    inner[path[-1]] = found
    return body
