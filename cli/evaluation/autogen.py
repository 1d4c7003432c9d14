"""`metacog eval autogen` runs AutoGen on the same tasks, in a Python environment of its own."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.output import stderr

AGENTS = Path(__file__).parents[2] / "config" / "agents.delegation.yaml"


def autogen(  # noqa: PLR0913 - each is an option of the command
    tasks: Annotated[Path, typer.Option(help="File of tasks, as for `metacog eval delegation`.")],
    python: Annotated[Path, typer.Option(help="Interpreter of the environment that evals/autogen/install.sh makes.")],
    url: Annotated[str, typer.Option(help="URL of the OpenAI-compatible server that the suite uses, with its /v1.")],
    model: Annotated[str, typer.Option(help="Model of that server.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of a reply; as for the agents.")] = 512,
    replies: Annotated[
        int, typer.Option(min=1, help="Replies of a conversation; the last that states an answer is the team's.")
    ] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every call.")] = 7,
    agents: Annotated[Path, typer.Option(help="File of agents; default: those of delegation.")] = AGENTS,
    out: Annotated[Path, typer.Option(help="Folder for the replies.")] = Path("eval-autogen"),
) -> None:
    """Have a team of AutoGen talk about each task and answer it; `metacog eval delegation --autogen FILE` compares it.

    A task that fails is recorded with its error, and repeated by the same command.
    """
    from configuration.agents import read_agents
    from evals.autogen.session import Team, run_team
    from evals.items import read_items

    items = read_items(tasks, 100_000, programs=True)
    team = Team(python=python, url=url, model=model, max_tokens=max_tokens, seed=seed, replies=replies)
    file = asyncio.run(run_team(items, read_agents(agents), team, out))
    stderr.print(f"written to {file}", soft_wrap=True)
