"""`metacog config` shows the settings, and validates them and the configuration files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.operation.settings import problems, settings, unknown_names
from cli.terminal.exits import FAILED, OK
from cli.terminal.output import print_json, stdout, table, text
from kernel.errors import MetacogError

app = typer.Typer(help="Settings and configuration files.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


@app.command()
def show(
    everything: Annotated[bool, typer.Option("--all", help="Show every setting, also unset ones.")] = False,
    as_json: Json = False,
) -> None:
    """Show the settings in this environment, without the values of secrets.

    A running part has the settings of the environment in which it was started.
    """
    known = settings()
    chosen = [each for each in known if everything or each.is_set]
    unknown = unknown_names(os.environ)
    if as_json:
        print_json({"settings": [each.document() for each in chosen], "unknown": unknown})
        return
    if chosen:
        rows = [[each.name, each.shown, "environment" if each.is_set else "default", each.meaning] for each in chosen]
        stdout.print(table(["setting", "value", "from", "meaning"], rows))
    stdout.print(
        f"{sum(each.is_set for each in known)} of {len(known)} settings are set"
        + ("" if everything else "; --all shows all")
    )
    for name, guess in unknown.items():
        stdout.print(text(f"{name} is not a setting{f'; did you mean {guess}?' if guess else ''}", "yellow"))


@app.command()
def validate(  # noqa: PLR0913 - each is an option of the command
    agents: Annotated[Path | None, typer.Option(help="agents.yaml to check; default: METACOG_AGENTS_FILE.")] = None,
    models: Annotated[Path | None, typer.Option(help="models.yaml to check.")] = None,
    keys_file: Annotated[Path | None, typer.Option(help="Keys file to check.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file to check: weights and threshold.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy table to check.")] = None,
    role_weights: Annotated[Path | None, typer.Option(help="Weights of the roles' fitness to check.")] = None,
    as_json: Json = False,
) -> None:
    """Check the settings in the environment and the configuration files; exit status 1 after a problem.

    Without a file option, the files in the environment are checked; with one, only the given files.
    """
    named = {
        "agents": agents,
        "models": models,
        "keys": keys_file,
        "routing": routing,
        "policy": policy,
        "role weights": role_weights,
    }
    given = {kind: path for kind, path in named.items() if path is not None}
    valid, invalid = [], []
    for kind, path in (given or files_in_force()).items():
        try:
            valid.append(f"{path}: {READERS[kind](path)}")
        except MetacogError as error:
            invalid.append(error.message)
    if not given:
        found = problems(os.environ)
        invalid += found
        valid += [] if found else ["the settings in the environment: valid"]
    _report(valid, invalid, as_json)


def _report(valid: Sequence[str], invalid: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"valid": not invalid, "checked": valid, "problems": invalid})
    for line in () if as_json else valid:
        stdout.print(text(line), soft_wrap=True)
    for line in () if as_json else invalid:
        typer.echo(line, err=True)
    raise typer.Exit(FAILED if invalid else OK)


def files_in_force() -> dict[str, Path]:
    """Return the files in the environment, and the default agents file if it has none."""
    from configuration.agents import DEFAULT_AGENTS_FILE

    names = {
        "models": "METACOG_MODELS_FILE",
        "keys": "METACOG_KEYS_FILE",
        "routing": "METACOG_ROUTER_ROUTING_FILE",
        "policy": "METACOG_ROUTER_POLICY_FILE",
        "shadow policy": "METACOG_ROUTER_SHADOW_POLICY_FILE",
        "role weights": "METACOG_ASSIGNER_ROLE_WEIGHTS_FILE",
    }
    agents = Path(os.environ.get("METACOG_AGENTS_FILE") or DEFAULT_AGENTS_FILE)
    specialists = os.environ.get("METACOG_DELEGATION_AGENTS_FILE")
    files = {kind: Path(os.environ[name]) for kind, name in names.items() if os.environ.get(name)}
    return {"agents": agents, **({"specialists": Path(specialists)} if specialists else {}), **files}


def _agents(path: Path) -> str:
    from configuration.agents import read_agents

    found = read_agents(path)
    return f"{len(found)} agents: {', '.join(agent.id for agent in found)}"


def _keys(path: Path) -> str:
    from configuration.keys import read_keys

    return f"{len(read_keys(path).keys)} keys, valid"


def _routing(path: Path) -> str:
    from configuration.routing import read_routing

    return f"version {read_routing(path).version or 'by digest'}"


def _policy(path: Path) -> str:
    from configuration.policy import read_policy

    rows = read_policy(path).rows
    return f"{len(rows)} rows: {', '.join(row.name for row in rows)}"


def _role_weights(path: Path) -> str:
    from configuration.role_weights import read_role_weights

    return f"version {read_role_weights(path).version}"


def _models(path: Path) -> str:
    from configuration.models import read_models

    found = read_models(path).models
    return f"{len(found)} models: {', '.join(model.name for model in found)}"


READERS: dict[str, Callable[[Path], str]] = {
    "agents": _agents,
    "specialists": _agents,
    "models": _models,
    "keys": _keys,
    "routing": _routing,
    "policy": _policy,
    "shadow policy": _policy,
    "role weights": _role_weights,
}
