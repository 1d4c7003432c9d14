"""`metacog eval benchmark` builds the tasks of the delegation benchmark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation.common import Data, items_of, listed
from cli.terminal.output import stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.items import Item

MANY = 1_000_000


def benchmark(
    data: Data = None,
    hub: Annotated[
        str, typer.Option(help="Names of public data sets, separated by commas, alone or with those of --data.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 7,
    per_cell: Annotated[int, typer.Option(min=1, help="Tasks of each dimension and difficulty.")] = 40,
    per_maker: Annotated[int, typer.Option(min=1, help="Cross-domain tasks of each of the five kinds.")] = 20,
    out: Annotated[Path, typer.Option(help="File for the tasks.")] = Path("benchmark.jsonl"),
) -> None:
    """Build the delegation benchmark: 700 tasks of five dimensions and three difficulties, 100 of them cross-domain.

    `metacog eval delegation --tasks FILE` runs it. A smaller benchmark has the same balance.
    The licences of the public sets apply to the file: do not publish it.
    """
    from evals.benchmark.files import overview, write_tasks
    from evals.benchmark.tasks import benchmark as built
    from evals.benchmark.tasks import graded

    tasks = built(graded(_offered(data, hub)), seed, per_cell, per_maker)
    typer.echo(overview(tasks, write_tasks(tasks, out), seed))
    stderr.print(f"written to {out}", soft_wrap=True)


def _offered(data: Path | None, hub: str) -> "Sequence[Item]":
    """Return all items of the folder and of the public sets, which must be different sets."""
    from evals.items import sets_in

    twice = set(listed(hub)) & set(sets_in(data)) if data else ()
    if twice:
        raise typer.BadParameter(f"{', '.join(sorted(twice))}: the folder contains it already", param_hint="--hub")
    public = items_of(None, hub, "", MANY) if hub else ()
    return [*public, *(items_of(data, "", "", MANY) if data or not hub else ())]
