"""`metacog eval horizon` measures deliberation at each step of generated tasks of many steps."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.evaluation.common import (
    ARBITER,
    ASSIGNER,
    ROUTER,
    Arbiter,
    Assigner,
    Concurrency,
    MaxTokens,
    Precision,
    ReportOnly,
    Router,
    Seeds,
    Timeout,
    numbers,
    record,
    show,
)
from evals.harness.command_line import command_line, non_default


def horizon(  # noqa: PLR0913 - each is an option of the command
    strategy: Annotated[str, typer.Option(help="Strategy at each step, e.g. vote, dialectic, arbiter.")] = "vote",
    lengths: Annotated[str, typer.Option(help="Steps of a task, separated by commas.")] = "4,8,16",
    items: Annotated[int, typer.Option(min=1, help="Tasks of each length.")] = 40,
    dials: Annotated[int, typer.Option(min=2, max=9, help="Dials of a lock: the size of its state.")] = 4,
    task_seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks.")] = 7,
    seeds: Seeds = "7",
    equal_compute: Annotated[
        bool, typer.Option(help="Give self-consistency as many generations at each step; needs the arbiter.")
    ] = True,
    precision: Precision = "",
    max_tokens: MaxTokens = 0,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-horizon"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 600,
    router: Router = ROUTER,
    assigner: Assigner = ASSIGNER,
    arbiter: Arbiter = ARBITER,
    report_only: ReportOnly = None,
) -> None:
    """Measure whether deliberation at each step keeps tasks of many steps right, against none and at equal compute.

    The tasks are generated, and their end states computed. The same command with the same --out continues.
    """
    from evals.controls.arms import SYSTEM_TWOS
    from evals.harness.arms import Plan, described
    from evals.harness.session import REPORT, Session, records_in
    from evals.horizon.arms import arms, introduced
    from evals.horizon.files import COMMAND, write_report
    from evals.horizon.tasks import locks
    from evals.suite import Addresses

    if report_only is None:
        if strategy not in SYSTEM_TWOS:
            problem = f"there is no strategy {strategy} to measure; there are {', '.join(SYSTEM_TWOS)}"
            raise typer.BadParameter(problem, param_hint="--strategy")
        made = locks(_lengths(lengths), items, dials, task_seed)
        plan = Plan(
            items=[lock.item for lock in made],
            arms=described(arms(made, strategy, max_tokens, equal_compute=equal_compute), precision=precision),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        again = command_line(COMMAND, strategy=strategy, lengths=lengths, items=items, dials=dials,
                      task_seed=task_seed, seeds=seeds, no_equal_compute=not equal_compute, precision=precision,
                      max_tokens=max_tokens or None,
                      **non_default(concurrency=(concurrency, 1), timeout=(timeout, 600)))  # fmt: skip
        introduce = partial(introduced, {lock.item.id: lock for lock in made})
        session = Session(command=COMMAND, typed=again, folder=out, asks_router=True, introduce=introduce)
        record(plan, session, Addresses(router=router, assigner=assigner, arbiter=arbiter))
    folder, records = records_in(report_only or out)
    show(folder, write_report(records, folder), REPORT)


def _lengths(written: str) -> tuple[int, ...]:
    found = numbers(written, "--lengths")
    if min(found) < 1:
        raise typer.BadParameter("a task has at least one step", param_hint="--lengths")
    return found
