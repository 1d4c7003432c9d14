"""`metacog eval autogen`: AutoGen on the same tasks, from an environment of its own."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.evaluation.common import notes

AGENTS = Path(__file__).parents[2] / "config" / "agents.delegation.yaml"


def autogen(  # noqa: PLR0913 - each is an option of the command
    tasks: Annotated[Path, typer.Option(help="File of tasks, as for `metacog eval delegation`.")],
    python: Annotated[Path, typer.Option(help="Interpreter of the environment that evals/autogen/install.sh makes.")],
    url: Annotated[str, typer.Option(help="OpenAI-compatible server that the suite uses too, with its /v1.")],
    model: Annotated[str, typer.Option(help="Model to ask there.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a reply; give what the agents were given.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every call.")] = 7,
    agents: Annotated[Path, typer.Option(help="File of agents; default: those of delegation.")] = AGENTS,
    out: Annotated[Path, typer.Option(help="Folder for what it said.")] = Path("eval-autogen"),
) -> None:
    """Let a team of AutoGen's answer the tasks; `metacog eval delegation --autogen FILE` puts it beside ours.

    A task at which it fails is recorded as refused, and asked again by the same command.
    """
    from configuration.agents import read_agents
    from evals.autogen.running import Team, run_team
    from evals.items import read_items

    items = read_items(tasks, 100_000, programs=True)
    team = Team(python=python, url=url, model=model, max_tokens=max_tokens, seed=seed)
    file = asyncio.run(run_team(items, read_agents(agents), team, out))
    notes.print(f"written to {file}", soft_wrap=True)
