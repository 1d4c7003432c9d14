"""`metacog eval delegation` evaluates delegation, its baselines and its ablations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluation.common import (
    ARBITER,
    DELEGATION,
    Arbiter,
    Concurrency,
    Data,
    Hub,
    Items,
    Precision,
    ReportOnly,
    Seeds,
    Sets,
    Timeout,
    item_options,
    items_of,
    listed,
    numbers,
    record,
    reject_two_sources,
    reject_with,
    show,
)
from evals.harness.command_line import command_line, non_default

MOST_TASKS = 100_000

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.items import Item


def delegation(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    tasks: Annotated[Path | None, typer.Option(help="File of tasks of `metacog eval benchmark`.")] = None,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Items = 20,
    seeds: Seeds = "7",
    agents: Annotated[str, typer.Option(help="Agents, separated by commas; default: all.")] = "",
    precision: Precision = "",
    max_tokens: Annotated[int, typer.Option(min=0, help="Maximum tokens of an answer; 0: the service's.")] = 0,
    live: Annotated[bool, typer.Option("--live", help="Also run the tasks on the service, which learns.")] = False,
    product: Annotated[
        bool, typer.Option("--product", help="Also run the tasks by the service's default rules; it learns.")
    ] = False,
    equal_compute: Annotated[
        bool, typer.Option(help="Sample self-consistency with as many generations; needs the arbiter.")
    ] = True,
    autogen: Annotated[Path | None, typer.Option(help="Records of `metacog eval autogen`, to compare.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-delegation"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 600,
    service: Annotated[str, typer.Option("--delegation", help="URL of the delegation service.")] = DELEGATION,
    arbiter: Arbiter = ARBITER,
    report_only: ReportOnly = None,
) -> None:
    """Evaluate delegation as in tables II to V of MetaCogAgent, replayed from one recording of every agent.

    The same command with the same --out continues. `--live` (the paper's rules) and `--product` (the service's) change
    the profiles of the service: use a separate one for each.
    """
    from evals.delegation.arms import arms
    from evals.delegation.files import COMMAND, write_report
    from evals.harness.arms import Plan, described
    from evals.harness.session import REPORT, Session, records_in
    from evals.records import read_records
    from evals.suite import Addresses

    reject_two_sources(ctx)
    reject_with(ctx, "tasks", "data", "hub", "sets", "items")
    if report_only is None:
        _check_learning(live, product, concurrency)
        made = arms(listed(agents), max_tokens=max_tokens, live=live, equal_compute=equal_compute, product=product)
        plan = Plan(
            items=_asked(tasks, data, hub, sets, items),
            arms=described(made, precision=precision),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        asked = {"tasks": tasks} if tasks else item_options(data, hub, sets, items)
        again = command_line(COMMAND, **asked, seeds=seeds, agents=agents, max_tokens=max_tokens or None, live=live,
                      product=product, precision=precision, no_equal_compute=not equal_compute, autogen=autogen,
                      **non_default(concurrency=(concurrency, 1), timeout=(timeout, 600)))  # fmt: skip
        record(plan, Session(command=COMMAND, typed=again, folder=out), Addresses(delegation=service, arbiter=arbiter))
    folder, records = records_in(report_only or out)
    beside = read_records(autogen) if autogen else []
    show(folder, write_report(records, folder, beside=beside), REPORT)


def _check_learning(live: bool, product: bool, concurrency: int) -> None:
    """Raise an error where a service would learn from tasks in no order, or by two rules at once."""
    name = "--live" if live else "--product"
    if live and product:
        problem = "both teach the same profiles; run them with separate services, and --out folders"
        raise typer.BadParameter(problem, param_hint="--product")
    if (live or product) and concurrency > 1:
        raise typer.BadParameter(f"learning depends on the order: {name} needs --concurrency 1", param_hint=name)


def _asked(tasks: Path | None, data: Path | None, hub: str, sets: str, items: int) -> "Sequence[Item]":
    if tasks is None:
        return items_of(data, hub, sets, items)
    from evals.items import read_items

    return read_items(tasks, MOST_TASKS, programs=True)
