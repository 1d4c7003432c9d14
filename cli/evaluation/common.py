"""What the commands of `metacog eval` share: options, progress, and going on after an interruption."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.terminal.client import address
from cli.terminal.exits import INTERRUPTED

if TYPE_CHECKING:
    from evals.harness.arms import Plan
    from evals.harness.session import Session
    from evals.items import Item
    from evals.suite import Addresses

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

notes = Console(stderr=True, highlight=False)

Data = Annotated[Path | None, typer.Option(help="Folder with a .jsonl file for each data set.")]
Hub = Annotated[str, typer.Option(help="Public data sets by name instead, with commas between them.")]
Sets = Annotated[str, typer.Option(help="Data sets of the folder, with commas between them; default: all.")]
Items = Annotated[int, typer.Option(min=1, help="Items of each set.")]
Seeds = Annotated[str, typer.Option(help="Seeds, with commas between them; each repeats everything.")]
Agents = Annotated[
    str,
    typer.Option(help="Delegation agents, with commas between them, each a control by itself; none without it."),
]
MaxTokens = Annotated[int, typer.Option(min=0, help="Tokens of each text; 0: the services' own limits.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Items at a time.")]
Timeout = Annotated[int, typer.Option(min=1, help="Time that one request is given [s].")]
ReportOnly = Annotated[Path | None, typer.Option(help="Records to report on again, without a suite.")]
Router = Annotated[str, typer.Option(help="REST face of the router.")]
Assigner = Annotated[str, typer.Option(help="REST face of the assigner.")]
Arbiter = Annotated[str, typer.Option(help="REST face of the arbiter.")]
Delegation = Annotated[str, typer.Option(help="REST face of the delegation service.")]

ROUTER, ASSIGNER, ARBITER, DELEGATION = map(address, ("router", "assigner", "arbiter", "delegation"))


def listed(names: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def numbers(written: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas, none negative and none twice."""
    try:
        found = tuple(dict.fromkeys(int(one) for one in listed(written)))
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong), param_hint=option) from wrong
    if not found or min(found) < 0:
        raise typer.BadParameter("give numbers from 0 on", param_hint=option)
    return found


def items_of(data: Path | None, hub: str, sets: str, per_set: int, *, programs: bool = True) -> "Sequence[Item]":
    """The items that are asked for, from a folder or by public names."""
    from evals.hub.loading import load_sets
    from evals.items import read_sets

    if hub:
        return load_sets(listed(hub), per_set, programs=programs)
    if data is None:
        raise typer.BadParameter("name the folder with the data sets, or public sets with --hub", param_hint="--data")
    return read_sets(data, listed(sets), per_set, programs=programs)


def refuse_beside(ctx: typer.Context, option: str, *others: str) -> None:
    """Refuse what would be ignored.

    Args:
        ctx: Tells what was typed, and what stands at its default.
        option: Name of a parameter, e.g. `hub`.
        others: Names of those that mean nothing where it is given.

    Raises:
        typer.BadParameter: When it was typed, and one of the others too; names them.
    """
    ignored = [spelled(name) for name in others if _was_typed(ctx, name)]
    if ignored and _was_typed(ctx, option):
        said = f"{', '.join(ignored)} would be ignored beside {spelled(option)}; leave out the one or the other"
        raise typer.BadParameter(said, param_hint=spelled(option))


def refuse_two_sources(ctx: typer.Context) -> None:
    """Refuse public sets beside a folder, or beside names of its sets."""
    refuse_beside(ctx, "hub", "data", "sets")


def spelled(name: str) -> str:
    """A parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def _was_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def sourced(data: Path | None, hub: str, sets: str, items: int) -> dict[str, object]:
    """The options that name the items, for the command that makes a run again."""
    return {"data": data, "hub": hub, "sets": "" if hub else sets, "items": items}


def typed(command: str, **options: object) -> str:
    """The command that makes a run again; where the services are, and its folder, are left to who types it.

    Example:
        >>> typed("compare", data="my questions", hub="", seed=0, max_tokens=None, live=True)
        "metacog eval compare --data 'my questions' --seed 0 --live"
    """
    told = {name: text for name, text in options.items() if text is not None and text is not False and text != ""}
    words = [spelled(name) if text is True else f"{spelled(name)} {quote(str(text))}" for name, text in told.items()]
    return " ".join(["metacog eval", command, *words])


def unusual(**options: tuple[int, int]) -> dict[str, int]:
    """The options that are not at their defaults.

    Args:
        options: What was given, and the default.
    """
    return {name: given for name, (given, default) in options.items() if given != default}


def record(plan: "Plan", session: "Session", addresses: "Addresses") -> None:
    """Ask for what is not recorded yet, with progress; an interruption ends the program and keeps what there is."""
    with Progress(*COLUMNS, console=notes) as progress:
        steps = len(plan.cases) * len(plan.arms)
        task = progress.add_task(f"{len(plan.items)} items", total=steps)
        interruptible(_recorded(plan, session, addresses, lambda: progress.advance(task)), session.folder)


def interruptible(work: "Coroutine[None, None, None]", folder: Path) -> None:
    """Run `work`; an interruption ends the program and says how to go on."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        notes.print(f"interrupted; what was recorded is in {folder}, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None


async def _recorded(plan: "Plan", session: "Session", addresses: "Addresses", told: Callable[[], None]) -> None:
    from evals.harness.session import record as record_all
    from evals.suite import Faces

    key = os.environ.get("METACOG_API_KEY", "")
    async with Faces(addresses, key=key, timeout_s=plan.timeout_ms / 1000) as faces:
        await record_all(session, plan, faces, told)


def show(folder: Path, said: str, file: str) -> None:
    """The report on standard output, and where it is written."""
    typer.echo(said)
    notes.print(f"written to {folder / file}", soft_wrap=True)
