"""The settings of the suite, as `settings.yaml` lists them (generated from the settings classes)."""

import json
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kernel.errors import without_user_info
from kernel.values import value

CATALOGUE = Path(__file__).with_name("settings.yaml")
TRUE, FALSE = ("1", "true", "yes", "on", "t", "y"), ("0", "false", "no", "off", "f", "n")
# Variables of the suite's own processes, or of the build, which users do not set.
INTERNAL = ("METACOG_SUITE",)


@value
class Setting:
    """One setting.

    Attributes:
        name: Environment variable.
        part: Part that reads it.
        meaning: Its meaning.
        default: Default value; empty: none.
        rules: Constraints of its value, in terms of JSON Schema.
        secret: Whether its value must not be shown.
        given: Value in the environment; empty counts as not set.
    """

    name: str
    part: str
    meaning: str
    default: str
    rules: Mapping[str, Any]
    secret: bool
    given: str

    @property
    def is_set(self) -> bool:
        """Whether the environment sets it."""
        return bool(self.given)

    @property
    def shown(self) -> str:
        """The value in force, as it is shown: without the user information of URLs."""
        if self.secret:
            return "(secret)" if self.is_set else ""
        return without_user_info(self.given or self.default)

    def document(self) -> Mapping[str, Any]:
        """Return the setting as a JSON document."""
        where = "environment" if self.is_set else "default"
        return {
            "name": self.name,
            "part": self.part,
            "value": self.shown,
            "from": where,
            "meaning": self.meaning,
        }


def settings(environment: Mapping[str, str] | None = None) -> Sequence[Setting]:
    """Return every setting with its value in the environment."""
    variables = os.environ if environment is None else environment
    catalogue = _catalogue()
    secret = set(catalogue["secret"])
    return [
        Setting(
            name=row["name"],
            part=row["part"],
            meaning=row["meaning"],
            default=str(row.get("default", "")),
            rules=row["rules"],
            secret=row["name"] in secret or row["name"] == "METACOG_API_KEY",
            given=variables.get(row["name"], ""),
        )
        for row in catalogue["settings"]
    ]


@cache
def _catalogue() -> Any:  # noqa: ANN401 - YAML
    return yaml.load(CATALOGUE.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def unknown_names(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that look like settings and are not, each with the most similar setting or empty."""
    names = [each.name for each in settings(environment)]
    unknown = [name for name in environment if name.startswith("METACOG_") and name not in {*names, *INTERNAL}]
    return {name: next(iter(get_close_matches(name, names, 1, 0.85)), "") for name in sorted(unknown)}


def problems(environment: Mapping[str, str]) -> list[str]:
    """Return the problems of the settings in an environment, one sentence each."""
    found = [problem for each in settings(environment) if each.is_set and (problem := problem_of(each))]
    similar = {name: guess for name, guess in unknown_names(environment).items() if guess}
    return [*found, *(f"{name} is not a setting; did you mean {guess}?" for name, guess in similar.items())]


def problem_of(setting: Setting) -> str:
    """Return the problem of one value; empty if it is valid."""
    constraint = _violated(setting.given, setting.rules)
    return f"{setting.name} is {setting.shown!r}; it must be {constraint}" if constraint else ""


def _violated(given: str, rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        return "" if given in map(str, rules["enum"]) else f"one of {', '.join(map(str, rules['enum']))}"
    match rules.get("type"):
        case "integer" | "number" as kind:
            return _violated_by_number(given, kind, rules)
        case "boolean":
            return "" if given.lower() in (*TRUE, *FALSE) else "true or false"
        case "array" | "object" as kind:
            return _violated_by_json(given, list if kind == "array" else dict)
    return ""


def _violated_by_number(given: str, kind: str, rules: Mapping[str, Any]) -> str:
    try:
        number = int(given) if kind == "integer" else float(given)
    except ValueError:
        return "a whole number" if kind == "integer" else "a number"
    bounds = {
        "at least": number >= rules.get("minimum", number),
        "above": "exclusiveMinimum" not in rules or number > rules["exclusiveMinimum"],
        "at most": number <= rules.get("maximum", number),
    }
    of = {"at least": "minimum", "above": "exclusiveMinimum", "at most": "maximum"}
    return next((f"{word} {rules[of[word]]:g}" for word, holds in bounds.items() if not holds), "")


def _violated_by_json(given: str, kind: type) -> str:
    name = "a JSON list" if kind is list else "a JSON object"
    try:
        return "" if isinstance(json.loads(given), kind) else name
    except ValueError:
        return name
