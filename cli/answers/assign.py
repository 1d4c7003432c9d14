"""`metacog assign`: roles to agents, optimally, with the whole matrix beside it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.answers.drawing import ROLES, matrix, terms
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_object, state
from cli.terminal.options import AsJson, AssignerUrl, Key, given
from cli.terminal.output import emit, shown


def assign(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON file with a whole request (agents, fitness, weights, pins, forbidden); `-`: standard input."
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="An agent and its state, as ID:CE=0.9,CI=0.1; ID*3:... may hold three roles. Repeatable."),
    ] = None,
    pin: Annotated[list[str] | None, typer.Option(help="Agent that must hold a role, as ROLE=ID. Repeatable.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="Agent that must not, as ROLE=ID. Repeatable.")] = None,
    show_terms: Annotated[bool, typer.Option("--terms", help="Show how each chosen fitness comes about.")] = False,
    assigner: AssignerUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Give the five roles to agents so that their total fitness is largest; no model is called."""
    if (file is None) == (not agent):
        raise typer.BadParameter("give a file, or an --agent for each agent", param_hint="--agent")
    body = {"agents": [_agent(each) for each in agent or ()]} if file is None else read_object(file)
    pins = dict(_pair(each, "--pin") for each in pin or ())
    forbidden = [dict(zip(("role", "agent"), _pair(each, "--forbid"), strict=True)) for each in forbid or ()]
    found = Service("assigner", assigner, key=key).post(
        "/v1/assignments", {**body, **given(pins=pins, forbidden=forbidden)}
    )
    if as_json:
        emit(found)
        return
    shown.print(matrix(found))
    if show_terms:
        shown.print()
        shown.print(terms(found))


def _agent(said: str) -> dict[str, Any]:
    """A candidate, as it is written on the command line.

    Example:
        >>> _agent("ada*3:CE=0.9")
        {'id': 'ada', 'msv': {'correctness': 0.9}, 'capacity': 3}
    """
    name, _, levels = said.partition(":")
    name, _, capacity = name.partition("*")
    if not name or (capacity and not capacity.isdecimal()):
        raise UnusableInput(f"{said!r} is no agent; write ID:CE=0.9,CI=0.1 or ID*3:CE=0.9,CI=0.1")
    return given(id=name, msv=state(levels), capacity=int(capacity) if capacity else None)


def _pair(said: str, option: str) -> tuple[str, str]:
    role, found, name = said.partition("=")
    if not found or not name or role.upper() not in ROLES:
        raise typer.BadParameter(f"{said!r} is no ROLE=ID; a role is one of {', '.join(ROLES)}", param_hint=option)
    return role.upper(), name
