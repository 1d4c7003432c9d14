"""`metacog assign` assigns the roles to agents with the largest total fitness, and shows the fitness matrix."""

from pathlib import Path
from typing import Annotated, Any

import typer
from metacog.assigner.v1.assigner_pb2 import AssignResponse

from cli.answers.drawing import matrix, terms
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_object, state
from cli.terminal.options import AsJson, AssignerUrl, Key, given
from cli.terminal.output import print_json, stdout


def assign(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON file with a whole request (agents, fitness, weights, pins, forbidden); `-`: standard input."
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent and its state, as ID:CE=0.9,CI=0.1; ID*3:... has capacity for three roles. Repeatable."
        ),
    ] = None,
    pin: Annotated[list[str] | None, typer.Option(help="Agent that must take a role, as ROLE=ID. Repeatable.")] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(help="Agent that must not take a role, as ROLE=ID. Repeatable.")
    ] = None,
    keep_apart: Annotated[
        bool,
        typer.Option(
            "--keep-apart",
            help="Keep critic and evaluator, and the chain and the generalist, at different agents if they suffice.",
        ),
    ] = False,
    show_terms: Annotated[bool, typer.Option("--terms", help="Show the terms of each chosen fitness.")] = False,
    assigner: AssignerUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Assign the roles to agents with the largest total fitness; no model is called."""
    if (file is None) == (not agent):
        raise typer.BadParameter("give a file, or an --agent for each agent", param_hint="--agent")
    body = {"agents": [_agent(each) for each in agent or ()]} if file is None else read_object(file)
    pins = dict(_pair(each, "--pin") for each in pin or ())
    forbidden = [dict(zip(("role", "agent"), _pair(each, "--forbid"), strict=True)) for each in forbid or ()]
    found = Service("assigner", assigner, key=key).post(
        "/v1/assignments",
        {**body, **given(pins=pins, forbidden=forbidden, keep_apart=keep_apart or None)},
        AssignResponse,
    )
    if as_json:
        print_json(found.document)
        return
    stdout.print(matrix(found.message))
    if show_terms:
        stdout.print()
        stdout.print(terms(found.message))


def _agent(written: str) -> dict[str, Any]:
    """Parse an agent of the command line.

    Example:
        >>> _agent("ada*3:CE=0.9")
        {'id': 'ada', 'msv': {'correctness': 0.9}, 'capacity': 3}
    """
    name, _, levels = written.partition(":")
    name, _, capacity = name.partition("*")
    if not name or (capacity and not capacity.isdecimal()):
        raise UnusableInput(f"{written!r} is not an agent; write ID:CE=0.9,CI=0.1 or ID*3:CE=0.9,CI=0.1")
    return given(id=name, msv=state(levels), capacity=int(capacity) if capacity else None)


def _pair(written: str, option: str) -> tuple[str, str]:
    # The kernel's roles are imported here, because they import numpy, which most commands do not need.
    from kernel.roles import ROLES

    role, found, name = written.partition("=")
    if not found or not name or role.upper() not in ROLES:
        raise typer.BadParameter(f"{written!r} is not ROLE=ID; a role is one of {', '.join(ROLES)}", param_hint=option)
    return role.upper(), name
