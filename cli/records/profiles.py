"""`metacog profiles` manages the capability profiles of agents."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from metacog.delegation.v1.profiles_pb2 import (
    CapabilityProfile,
    ExportedProfile,
    FreezeProfilesResponse,
    ImportProfilesResponse,
    ResetProfilesResponse,
)
from rich.table import Table

from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_object
from cli.terminal.options import AsJson, DelegationUrl, Key, given
from cli.terminal.output import number, print_json, stderr, stdout, table

PAGE = 1000

app = typer.Typer(help="Capability profiles of agents: list, reset, freeze, export, import.", no_args_is_help=True)

Agent = Annotated[str, typer.Option(help="Only profiles of this agent.")]
Dimension = Annotated[str, typer.Option(help="Only profiles in this dimension.")]


@app.command("list")
def list_profiles(
    agent: Agent = "", dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False
) -> None:
    """Show the competence by agent and dimension, with the number of its observations."""
    service = Service("delegation", delegation, key=key)
    query = {"agent": agent, "dimension": dimension}
    found = list(service.pages("/v1/profiles", "profiles", CapabilityProfile, page_size=PAGE, **query))
    if as_json:
        print_json({"profiles": [each.document for each in found]})
        return
    profiles = [each.message for each in found]
    stdout.print(_matrix(profiles) if profiles else "no profile yet: the first task or feedback creates one")


def _matrix(profiles: Sequence[CapabilityProfile]) -> Table:
    dimensions = sorted({each.dimension for each in profiles})
    cells = {(each.agent, each.dimension): each for each in profiles}
    names = list(dict.fromkeys(each.agent for each in profiles))
    rows = [[name, *(_cell(cells.get((name, dimension))) for dimension in dimensions)] for name in names]
    return table(["agent", *dimensions], rows)


def _cell(profile: CapabilityProfile | None) -> str:
    if profile is None:
        return ""
    return f"{number(profile.competence)} ({profile.observations}){' frozen' if profile.frozen else ''}"


@app.command()
def reset(
    agent: Agent = "",
    dimension: Dimension = "",
    everything: Annotated[bool, typer.Option("--all", help="Every profile of every agent.")] = False,
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Reset profiles to their initial values; their history remains."""
    _chosen(agent, dimension, everything)
    body = given(agent=agent, dimension=dimension)
    done = Service("delegation", delegation, key=key).post("/v1/profiles:reset", body, ResetProfilesResponse)
    print_json(done.document) if as_json else stdout.print(f"profiles reset: {done.message.reset}")


@app.command()
def freeze(  # noqa: PLR0913 - each is an option of the command
    agent: Agent = "",
    dimension: Dimension = "",
    everything: Annotated[bool, typer.Option("--all", help="Every profile of every agent.")] = False,
    thaw: Annotated[bool, typer.Option("--thaw", help="Let them learn again.")] = False,
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Freeze profiles, so that they do not learn from feedback; --thaw ends it."""
    _chosen(agent, dimension, everything)
    body = {**given(agent=agent, dimension=dimension), "frozen": not thaw}
    done = Service("delegation", delegation, key=key).post("/v1/profiles:freeze", body, FreezeProfilesResponse)
    if as_json:
        print_json(done.document)
    else:
        stdout.print(f"profiles {'thawed' if thaw else 'frozen'}: {done.message.changed}")


@app.command("export")
def export_profiles(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[Path, typer.Argument(help="File to write; `-`: standard output.")],
    history: Annotated[bool, typer.Option("--history", help="Include every change of the profiles.")] = False,
    agent: Agent = "",
    dimension: Dimension = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    delegation: DelegationUrl = "",
    key: Key = "",
) -> None:
    """Write profiles to a JSON file, from which `metacog profiles import` reads them."""
    if str(file) != "-" and file.exists() and not force:
        raise typer.BadParameter(f"{file} exists already; --force overwrites it", param_hint="FILE")
    service = Service("delegation", delegation, key=key)
    query = {"agent": agent, "dimension": dimension, "include_history": history}
    pages = service.pages("/v1/profiles:export", "profiles", ExportedProfile, page_size=PAGE, **query)
    found = [each.document for each in pages]
    if str(file) == "-":
        print_json({"profiles": found})
        return
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"profiles": found}, indent=1))
    fresh.replace(file)
    stderr.print(f"{len(found)} profiles written to {file}", soft_wrap=True)


@app.command("import")
def import_profiles(
    file: Annotated[Path, typer.Argument(help="File that `metacog profiles export` wrote; `-`: standard input.")],
    keep: Annotated[bool, typer.Option("--keep", help="Do not change existing profiles.")] = False,
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Import exported profiles, in transactions of up to a thousand."""
    content = read_object(file).get("profiles")
    if not isinstance(content, list) or not content:
        raise UnusableInput(f"{file} contains no list `profiles`; is it a file of `metacog profiles export`?")
    service = Service("delegation", delegation, key=key)
    imported = kept = 0
    for start in range(0, len(content), PAGE):
        body = {"profiles": content[start : start + PAGE], "rule": "KEEP" if keep else "REPLACE"}
        done = service.post("/v1/profiles:import", body, ImportProfilesResponse).message
        imported, kept = imported + done.imported, kept + done.kept
    if as_json:
        print_json({"imported": imported, "kept": kept})
    else:
        stdout.print(f"profiles imported: {imported}, unchanged: {kept}")


def _chosen(agent: str, dimension: str, everything: bool) -> None:
    if not (agent or dimension or everything):
        raise typer.BadParameter("give --agent, --dimension or --all", param_hint="--all")
