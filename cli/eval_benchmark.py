"""`metacog eval benchmark`: the tasks of the delegation benchmark, made anew."""

from pathlib import Path
from typing import Annotated

import typer

from cli.eval_common import Data, Hub, items_of, notes

MANY = 1_000_000


def benchmark(
    data: Data = None,
    hub: Hub = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every choice.")] = 7,
    per_cell: Annotated[int, typer.Option(min=1, help="Tasks of each dimension and difficulty.")] = 40,
    per_maker: Annotated[int, typer.Option(min=1, help="Cross-domain tasks of each of the five kinds.")] = 20,
    out: Annotated[Path, typer.Option(help="File for the tasks.")] = Path("benchmark.jsonl"),
) -> None:
    """Build the delegation benchmark: 700 tasks of five dimensions and three difficulties, 100 of them cross-domain.

    `metacog eval delegation --tasks FILE` runs it; a smaller one is balanced in the same way.
    Data of public sets keeps its licence: do not publish the file.
    """
    from evals.benchmark.files import overview, write_tasks
    from evals.benchmark.tasks import benchmark as built
    from evals.benchmark.tasks import graded

    tasks = built(graded(items_of(data, hub, "", MANY)), seed, per_cell, per_maker)
    typer.echo(overview(tasks, write_tasks(tasks, out), seed))
    notes.print(f"written to {out}", soft_wrap=True)
