"""`metacog eval paper` makes all tables of one paper on the model that the running suite uses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation.common import (
    ARBITER,
    ASSIGNER,
    DELEGATION,
    ROUTER,
    Arbiter,
    Assigner,
    Concurrency,
    Data,
    Delegation,
    Hub,
    Precision,
    Router,
    Sets,
    Timeout,
)
from cli.evaluation.papers.run import AutoGen, PaperRun, make_tables
from cli.evaluation.papers.run import estimate as printed_estimate
from evals.paper.parts import USUAL, Asked, Paper
from kernel.arbitration.defaults import ARBITRATION_SAMPLES, SOLVER_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping


def paper(  # noqa: PLR0913 - each is an option of the command
    name: Annotated[Paper, typer.Argument(help="The paper: msv, mc-mas or delegation (MetaCogAgent).")],
    model: Annotated[str, typer.Option(help="Model that the suite uses, as its server calls it; checked.")],
    precision: Precision = "",
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Annotated[
        int, typer.Option(min=0, help="Items of each set, or tasks of each cell of delegation; 0: as the paper.")
    ] = 0,
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas; default: as the paper.")] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of each text.")] = 512,
    solver_samples: Annotated[int, typer.Option(min=1, help="MC-MAS: samples of each solver, K_s.")] = SOLVER_SAMPLES,
    arbitration_samples: Annotated[
        int, typer.Option(min=1, help="MC-MAS: samples of the arbiter, K_a.")
    ] = ARBITRATION_SAMPLES,
    tokens_per_second: Annotated[
        float,
        typer.Option(
            min=0,
            help="Tokens that the server generates in a second, for delegation in one task at a time; 0: measured.",
        ),
    ] = 0.0,
    estimate_only: Annotated[
        bool,
        typer.Option(
            "--estimate-only",
            help="Print the estimate and stop: a few answers show the model and its speed; with --tokens-per-second "
            "nothing is asked.",
        ),
    ] = False,
    autogen_python: Annotated[
        Path | None, typer.Option(help="Delegation: interpreter of AutoGen's environment, for its row of Table II.")
    ] = None,
    url: Annotated[str, typer.Option(help="With --autogen-python: URL of the model server, with its /v1.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder of all models; default: paper-NAME.")] = None,
    concurrency: Concurrency = 16,
    timeout: Timeout = 900,
    router: Router = ROUTER,
    assigner: Assigner = ASSIGNER,
    arbiter: Arbiter = ARBITER,
    delegation: Delegation = DELEGATION,
) -> None:
    """Make all tables of a paper, on the model server that the suite uses: vLLM, or any OpenAI-compatible one.

    Prints what it takes first: requests, tokens, GPU hours. Runs the paper's evaluations, each of which `metacog eval`
    has by itself, and writes their reports, their records without texts, and a page over all. The same command
    continues after an interruption; with another --model or --precision, and the same --out, it adds to the tables.
    """
    usual = USUAL[name]
    asked = Asked(
        paper=name,
        source=_source(data, hub, sets, usual.sets, by_cell=name is Paper.DELEGATION),
        items=items or usual.items,
        seeds=seeds or usual.seeds,
        max_tokens=max_tokens,
        solver_samples=solver_samples,
        arbitration_samples=arbitration_samples,
        precision=precision,
        limits={"concurrency": str(concurrency), "timeout": str(timeout)},
    )
    if autogen_python is not None and name is not Paper.DELEGATION:
        raise typer.BadParameter("AutoGen has a row in the tables of delegation alone", param_hint="--autogen-python")
    if autogen_python is not None and not url:
        raise typer.BadParameter("AutoGen asks the model server itself: give its URL", param_hint="--url")
    run = PaperRun(
        asked=asked,
        model=model,
        folder=out or Path(f"paper-{name}"),
        addresses={"router": router, "assigner": assigner, "arbiter": arbiter, "delegation": delegation},
        concurrency=concurrency,
        autogen=AutoGen(python=autogen_python, url=url) if autogen_python is not None else None,
    )
    text = printed_estimate(run, tokens_per_second, only=estimate_only)
    typer.echo(f"{usual.title}; its models: {usual.models}. {text}")
    if not estimate_only:
        make_tables(run, text)


def _source(data: Path | None, hub: str, sets: str, usual: str, *, by_cell: bool) -> "Mapping[str, str]":
    """Return the options that select the data: a folder, or public sets; by default the paper's."""
    if data is None:
        return {"hub": hub or sets or usual}
    if hub:
        raise typer.BadParameter("give a folder or public sets, not both", param_hint="--hub")
    return {"data": str(data)} if by_cell else {"data": str(data), "sets": sets or usual}
