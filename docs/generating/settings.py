"""This module lists every setting of the suite, from the classes that read it, for the reference and the CLI."""

import copy
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr
from pydantic_settings import BaseSettings

import encoder.settings
from chassis.settings import ApiSettings, HttpSettings
from configuration.suite import SuiteSettings
from console.settings import Settings as ConsoleSettings
from embedded.settings import DEFAULT_PORTS
from services.arbiter.settings import Settings as ArbiterSettings
from services.assigner.settings import Settings as AssignerSettings
from services.delegation.settings import Settings as DelegationSettings
from services.router.settings import Settings as RouterSettings

Row = dict[str, Any]

HEAD = Path(__file__).with_name("configuration.head.md")
# What a value must be, as far as a program can check it.
RULES = ("type", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "enum")

# Read by `make up`, by the command line or by compose, and by no settings class.
ELSEWHERE: dict[str, dict[str, tuple[str, object]]] = {
    "`make up` and `metacog up`": {
        "METACOG_INFERENCE_PORT": ("where `make up` puts its model server", DEFAULT_PORTS["METACOG_INFERENCE_PORT"]),
        "METACOG_TORCH_INDEX_URL": (
            "where torch's CPU build is taken from; empty: from where pip takes everything",
            "",
        ),
        "METACOG_VLLM_PYTHON": ("Python that has vLLM, for `--backend vllm`; empty: that of the `vllm` command", ""),
        "METACOG_VLLM_ARGS": ("further arguments of vLLM's server, e.g. `--max-model-len 16384`", ""),
    },
    "The command line": {
        "METACOG_API_KEY": ("API key that `metacog` sends", ""),
        "METACOG_ROUTER_URL": ("REST API of the router; also of the console's router", "http://127.0.0.1:8080"),
        "METACOG_ASSIGNER_URL": ("REST API of the assigner", "http://127.0.0.1:8081"),
        "METACOG_ARBITER_URL": ("REST API of the arbiter", "http://127.0.0.1:8082"),
        "METACOG_DELEGATION_URL": ("REST API of the delegation service", "http://127.0.0.1:8083"),
    },
}


def rows() -> list[Row]:
    """Return every setting: name, part, meaning, default and the rules that its value follows; each name once."""
    found = [
        *_of_class("Every part", SuiteSettings),
        *_of_class("Every part", HttpSettings),
        *_of_class("Router", RouterSettings),
        *_of_class("Assigner", AssignerSettings),
        *_of_class("Arbiter", ArbiterSettings),
        *_of_class("Delegation", DelegationSettings),
        *_of_class("Console", ConsoleSettings),
        *_of_encoder(),
    ]
    secrets = "Folder of files of secrets, each named like its variable in small letters; the variable goes before"
    found.append(_row("METACOG_SECRETS_DIR", "Every part", secrets, _secrets_dir()))
    known = {row["name"] for row in found}
    for part, more in ELSEWHERE.items():
        found += [_row(name, part, text, str(usual)) for name, (text, usual) in more.items() if name not in known]
    return found


def _secrets_dir() -> str:
    import chassis.settings

    return str(getattr(chassis.settings, "SECRETS_DIR", ""))


def _row(name: str, part: str, meaning: str, default: str, rules: Mapping[str, Any] | None = None) -> Row:
    return {"name": name, "part": part, "meaning": meaning, "default": default, "rules": dict(rules or {})}


def _of_class(part: str, kind: type[BaseSettings]) -> list[Row]:
    prefix = kind.model_config.get("env_prefix", "")
    schema = kind.model_json_schema()
    found = []
    for name, field in kind.model_fields.items():
        rules = _rules(schema["properties"][name], schema.get("$defs", {}))
        row = _row(f"{prefix}{name}".upper(), part, field.description or "", _default(field.default), rules)
        found.append({**row, "secret": field.annotation is SecretStr, "api": name in ApiSettings.model_fields})
    return found


def _rules(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        schema = options[0]
    return {name: copy.copy(schema[name]) for name in RULES if name in schema}


def _default(given: Any) -> str:  # noqa: ANN401 - a setting is of any kind
    """Return a default as the environment holds it.

    Example:
        >>> [_default(given) for given in (None, True, 0.45, {}, ["a"])]
        ['', 'true', '0.45', '', '["a"]']
    """
    if given is None or given == {} or given == [] or isinstance(given, SecretStr):
        return ""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, Enum):
        return str(given.value)
    return str(given).replace("'", '"') if isinstance(given, dict | list) else str(given)


def _of_encoder() -> list[Row]:
    """Return the encoder's settings, whose meanings are in the docstring of their class."""
    kind = encoder.settings.Settings
    text = dict(
        re.findall(r"^ {4,}(\w+): (.+?)(?=\n {4,}\w+: |\n\s*$|\Z)", kind.__doc__ or "", re.MULTILINE | re.DOTALL)
    )
    found = []
    for name, field in kind.__dataclass_fields__.items():
        variable = encoder.settings.PREFIX + ("API_KEYS_SHA256" if name == "key_digests" else name.upper())
        default = "half the cores" if name == "threads" else _default(field.default if field.default != () else None)
        found.append(_row(variable, "Encoder", " ".join(text.get(name, "").rstrip(".").split()), default))
    return found


def catalogue() -> str:
    """Return the settings for `metacog config`."""
    header = "# Made by `make docs` from the settings classes; do not edit.\n"
    kept = [
        {name: row[name] for name in ("name", "part", "meaning", "default", "rules") if row[name] != ""}
        for row in rows()
    ]
    secret = [row["name"] for row in rows() if row.get("secret")]
    return header + yaml.safe_dump({"settings": kept, "secret": secret}, sort_keys=False, width=120)


def page() -> str:
    """Return the page, part by part."""
    found = rows()
    parts = dict.fromkeys(row["part"] for row in found)
    tables = [f"## {part}\n\n{_table([row for row in found if row['part'] == part])}" for part in parts]
    return "\n".join([HEAD.read_text(), *tables])


def _table(found: Sequence[Row]) -> str:
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for row in found:
        default = f"`{row['default']}`" if row["default"] else ""
        lines.append(f"| `{row['name']}` | {_cell(default)} | {_cell(row['meaning'] + _allowed(row['rules']))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _allowed(rules: Mapping[str, Any]) -> str:
    """Return what a value may be, after its meaning.

    Example:
        >>> _allowed({"minimum": 0, "maximum": 1}), _allowed({"exclusiveMinimum": 0}), _allowed({})
        (' [0..1]', ' [> 0]', '')
    """
    if "enum" in rules:
        return f" [{', '.join(map(str, rules['enum']))}]"
    low, high = rules.get("minimum"), rules.get("maximum")
    if "exclusiveMinimum" in rules:
        return f" [> {rules['exclusiveMinimum']:g}{f', <= {high:g}' if high is not None else ''}]"
    if low is None or high is None:
        return f" [>= {low:g}]" if low is not None else ""
    return f" [{low:g}..{high:g}]"
