"""`metacog eval`: measure the running suite on questions with known answers.

What measures is imported by the commands that do: the other commands need none of it.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from evals.routing.asking import Plan
    from evals.routing.running import Source

INTERRUPTED = 130

app = typer.Typer(help="Measure the running suite.", no_args_is_help=True)
notes = Console(stderr=True, highlight=False)


@app.callback()
def measure() -> None:
    """Measure the running suite on questions with known answers."""


@app.command()
def routing(  # noqa: PLR0913 - each is an option of the command
    data: Annotated[Path | None, typer.Option(help="Folder with a .jsonl file for each data set.")] = None,
    sets: Annotated[str, typer.Option(help="Data sets, with commas between them; default: all.")] = "",
    items: Annotated[int, typer.Option(min=1, help="Items of each set.")] = 40,
    router: Annotated[str, typer.Option(help="REST face of the router.")] = "http://127.0.0.1:8080",
    out: Annotated[Path, typer.Option(help="Folder for records and report; made if missing.")] = Path("eval-routing"),
    assessors: Annotated[str, typer.Option(help="Assessors, with commas between them; default: all.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every request.")] = 7,
    plain: Annotated[int, typer.Option(min=0, help="Items of each set whose answer is also timed by itself.")] = 3,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time; more than 1 spoils the times.")] = 1,
    timeout: Annotated[int, typer.Option(min=1, help="Time that one request is given [s].")] = 600,
    report_only: Annotated[Path | None, typer.Option(help="Records to report on again, without a router.")] = None,
) -> None:
    """Does activation predict that System 1 is wrong, and what does knowing cost?

    Run it again with the same --out to go on after an interruption. The key is taken from METACOG_API_KEY.
    """
    from evals.items import read_sets
    from evals.routing.asking import Plan
    from evals.routing.files import REPORT
    from evals.routing.running import rewrite, source

    if report_only is None:
        if data is None:
            raise typer.BadParameter("name the folder with the data sets", param_hint="--data")
        asked = read_sets(data, _listed(sets), items)
        names = _known(_listed(assessors))
        plan = Plan(
            items=asked,
            assessors=names,
            seed=seed,
            plain=plain,
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        _record(plan, source(data, plan, items), router, out)
    folder, said = rewrite(report_only or out)
    typer.echo(said)
    notes.print(f"written to {folder / REPORT}", soft_wrap=True)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    from evals.routing.asking import ASSESSORS

    unknown = [name for name in names if name not in ASSESSORS]
    if unknown:
        said = f"there is no assessor {', '.join(unknown)}; there are {', '.join(ASSESSORS)}"
        raise typer.BadParameter(said, param_hint="--assessors")
    return names or ASSESSORS


def _record(plan: "Plan", source: "Source", router: str, out: Path) -> None:
    from evals.routing.asking import asks

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes) as progress:
        task = progress.add_task(f"{len(plan.items)} items", total=len(asks(plan)))
        try:
            asyncio.run(_recorded(plan, source, router, out, lambda: progress.advance(task)))
        except KeyboardInterrupt:
            notes.print(f"interrupted; what was recorded is in {out}, and the same command goes on from there")
            raise typer.Exit(INTERRUPTED) from None


async def _recorded(plan: "Plan", source: "Source", url: str, out: Path, told: Callable[[], None]) -> None:
    from evals.router_client import RouterClient
    from evals.routing.running import record

    key = os.environ.get("METACOG_API_KEY", "")
    async with RouterClient(url, key=key, timeout_s=plan.timeout_ms / 1000) as router:
        await record(plan, source, router, out, told)
