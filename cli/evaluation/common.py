"""The common parts of the commands of `metacog eval`: options, progress, and continuing after an interruption."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.terminal.client import address
from cli.terminal.exits import INTERRUPTED
from cli.terminal.output import stderr
from configuration.services import SERVICES
from evals.harness.command_line import option_name

if TYPE_CHECKING:
    from evals.harness.arms import Plan
    from evals.harness.session import Session
    from evals.items import Item
    from evals.suite import Addresses

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

Data = Annotated[Path | None, typer.Option(help="Folder with a .jsonl file for each data set.")]
Hub = Annotated[str, typer.Option(help="Names of public data sets instead of --data, separated by commas.")]
Sets = Annotated[str, typer.Option(help="Data sets of the folder, separated by commas; default: all.")]
Items = Annotated[int, typer.Option(min=1, help="Items of each set.")]
Seeds = Annotated[str, typer.Option(help="Seeds, separated by commas; each repeats the whole run.")]
Agents = Annotated[
    str,
    typer.Option(help="Delegation agents, separated by commas; each alone is a control."),
]
Precision = Annotated[
    str, typer.Option(help="Precision of the model's weights, e.g. 4-bit: no server reports it; for the report.")
]
MaxTokens = Annotated[int, typer.Option(min=0, help="Maximum tokens of each text; 0: the services' own limits.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Concurrent items.")]
Timeout = Annotated[int, typer.Option(min=1, help="Time limit of one request [s].")]
ReportOnly = Annotated[Path | None, typer.Option(help="Folder of records; write the report again, without a suite.")]
Router = Annotated[str, typer.Option(help="URL of the router.")]
Assigner = Annotated[str, typer.Option(help="URL of the assigner.")]
Arbiter = Annotated[str, typer.Option(help="URL of the arbiter.")]
Delegation = Annotated[str, typer.Option(help="URL of the delegation service.")]

ROUTER, ASSIGNER, ARBITER, DELEGATION = map(address, SERVICES)


def listed(names: str) -> tuple[str, ...]:
    """Return the distinct names in a list separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def set_names(names: str) -> tuple[str, ...]:
    """Return the data sets in a list separated by commas, which may be named as the papers do."""
    from evals.hub.titles import set_name

    return tuple(dict.fromkeys(map(set_name, listed(names))))


def numbers(written: str, option: str) -> tuple[int, ...]:
    """Return the distinct whole numbers >= 0 in a list separated by commas."""
    try:
        found = tuple(dict.fromkeys(int(one) for one in listed(written)))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if not found or min(found) < 0:
        raise typer.BadParameter("give numbers >= 0", param_hint=option)
    return found


def items_of(data: Path | None, hub: str, sets: str, per_set: int, *, programs: bool = True) -> "Sequence[Item]":
    """Return the selected items of a folder or of public sets."""
    from evals.hub.loader import load_sets
    from evals.items import read_sets

    if hub:
        return load_sets(set_names(hub), per_set, programs=programs)
    if data is None:
        raise typer.BadParameter("give the folder with the data sets, or public sets with --hub", param_hint="--data")
    return read_sets(data, set_names(sets), per_set, programs=programs)


def reject_with(ctx: typer.Context, option: str, *others: str) -> None:
    """Raise an error for options that another option disables.

    Args:
        ctx: Context of the command, which knows the given options.
        option: Name of a parameter, e.g. `hub`.
        others: Names of the parameters that it disables.

    Raises:
        typer.BadParameter: Both it and some of the others are given; the message names them.
    """
    ignored = [option_name(name) for name in others if _was_given(ctx, name)]
    if ignored and _was_given(ctx, option):
        problem = f"{', '.join(ignored)} would be ignored with {option_name(option)}; leave out one of them"
        raise typer.BadParameter(problem, param_hint=option_name(option))


def reject_two_sources(ctx: typer.Context) -> None:
    """Raise an error for public sets together with a folder or its sets."""
    reject_with(ctx, "hub", "data", "sets")


def _was_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def item_options(data: Path | None, hub: str, sets: str, items: int) -> dict[str, object]:
    """Return the options that select the items, for the command that repeats a run."""
    return {"data": data, "hub": hub, "sets": "" if hub else sets, "items": items}


def record(plan: "Plan", session: "Session", addresses: "Addresses") -> None:
    """Run the requests that are not recorded yet, with progress; an interruption keeps the records."""
    with Progress(*COLUMNS, console=stderr) as progress:
        steps = len(plan.cases) * len(plan.arms)
        task = progress.add_task(f"{len(plan.items)} items", total=steps)
        interruptible(_recorded(plan, session, addresses, lambda: progress.advance(task)), session.folder)


def interruptible(work: "Coroutine[None, None, None]", folder: Path) -> None:
    """Run `work`; an interruption ends the program with a message."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        stderr.print(f"interrupted; the records are in {folder}, and the same command continues from there")
        raise typer.Exit(INTERRUPTED) from None


async def _recorded(plan: "Plan", session: "Session", addresses: "Addresses", advance: Callable[[], None]) -> None:
    from evals.harness.session import record as record_all
    from evals.suite import SuiteClient

    key = os.environ.get("METACOG_API_KEY", "")
    async with SuiteClient(addresses, key=key, timeout_s=plan.timeout_ms / 1000) as client:
        await record_all(session, plan, client, advance)


def show(folder: Path, report: str, file: str) -> None:
    """Print the report, and its path on standard error."""
    typer.echo(report)
    stderr.print(f"written to {folder / file}", soft_wrap=True)
