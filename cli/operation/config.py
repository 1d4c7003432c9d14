"""`metacog config`: the settings in force, and whether they and the files that they name can be used."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.operation.settings import complaints, settings, unknown_names
from cli.terminal.exits import OK, REFUSED
from cli.terminal.output import emit, shown, table, text
from kernel.errors import MetacogError

app = typer.Typer(help="Settings and configuration files.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for programs.")]


@app.command()
def show(
    everything: Annotated[bool, typer.Option("--all", help="Every setting, also those that nobody set.")] = False,
    as_json: Json = False,
) -> None:
    """Show the settings that this environment gives to the suite's parts; secrets are not shown.

    A part that runs read its own environment when it was started, which may have been another.
    """
    known = settings()
    chosen = [each for each in known if everything or each.is_set]
    strange = unknown_names(os.environ)
    if as_json:
        emit({"settings": [each.told() for each in chosen], "unknown": strange})
        return
    if chosen:
        rows = [[each.name, each.shown, "environment" if each.is_set else "default", each.meaning] for each in chosen]
        shown.print(table(["setting", "value", "from", "meaning"], rows))
    shown.print(
        f"{sum(each.is_set for each in known)} of {len(known)} settings are set"
        + ("" if everything else "; --all shows all")
    )
    for name, guess in strange.items():
        shown.print(text(f"{name} is no setting{f'; is {guess} meant?' if guess else ''}", "yellow"))


@app.command()
def validate(
    agents: Annotated[
        Path | None, typer.Option(help="agents.yaml to check; left out: as METACOG_AGENTS_FILE says.")
    ] = None,
    keys_file: Annotated[Path | None, typer.Option(help="Keys file to check.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file to check: weights and threshold.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy table to check.")] = None,
    role_weights: Annotated[Path | None, typer.Option(help="Weights of the roles' fitness to check.")] = None,
    as_json: Json = False,
) -> None:
    """Check the settings in the environment, and configuration files; exit status 1 names the line and the reason.

    Files that are not named are those that the environment names. With a file named, only named ones are checked.
    """
    named = {"agents": agents, "keys": keys_file, "routing": routing, "policy": policy, "role weights": role_weights}
    given = {kind: path for kind, path in named.items() if path is not None}
    found, problems = [], []
    for kind, path in (given or files_in_force()).items():
        try:
            found.append(f"{path}: {READERS[kind](path)}")
        except MetacogError as wrong:
            problems.append(wrong.message)
    if not given:
        said = complaints(os.environ)
        problems += said
        found += [] if said else ["the settings in the environment: well-formed"]
    _report(found, problems, as_json)


def _report(found: Sequence[str], problems: Sequence[str], as_json: bool) -> None:
    if as_json:
        emit({"valid": not problems, "checked": found, "problems": problems})
    for line in () if as_json else found:
        shown.print(text(line), soft_wrap=True)
    for line in () if as_json else problems:
        typer.echo(line, err=True)
    raise typer.Exit(REFUSED if problems else OK)


def files_in_force() -> dict[str, Path]:
    """Files that the environment names, and the agents that ship where it names none."""
    from inference.client import DEFAULT_AGENTS_FILE

    names = {
        "keys": "METACOG_KEYS_FILE",
        "routing": "METACOG_ROUTER_ROUTING_FILE",
        "policy": "METACOG_ROUTER_POLICY_FILE",
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
    from chassis.serving.auth import read_keys

    return f"{len(read_keys(path).keys)} keys, well-formed"


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


READERS: dict[str, Callable[[Path], str]] = {
    "agents": _agents,
    "specialists": _agents,
    "keys": _keys,
    "routing": _routing,
    "policy": _policy,
    "role weights": _role_weights,
}
