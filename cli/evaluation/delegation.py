"""`metacog eval delegation`: delegation, its baselines and its ablations."""

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
    ReportOnly,
    Seeds,
    Sets,
    Timeout,
    items_of,
    listed,
    numbers,
    record,
    refuse_beside,
    refuse_two_sources,
    show,
    sourced,
    typed,
    unusual,
)

MOST_TASKS = 100_000

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.items import Item


def delegation(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    tasks: Annotated[Path | None, typer.Option(help="File of tasks, as `metacog eval benchmark` writes them.")] = None,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Items = 20,
    seeds: Seeds = "7",
    agents: Annotated[str, typer.Option(help="Agents, with commas between them; default: all.")] = "",
    max_tokens: Annotated[int, typer.Option(min=0, help="Tokens of an answer; 0: the service's.")] = 0,
    live: Annotated[bool, typer.Option("--live", help="Let the service process, and learn, as well.")] = False,
    equal_compute: Annotated[
        bool, typer.Option(help="Sample self-consistency with as many generations; needs the arbiter.")
    ] = True,
    autogen: Annotated[Path | None, typer.Option(help="Records of evals/autogen, to stand beside ours.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-delegation"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 600,
    service: Annotated[str, typer.Option("--delegation", help="REST face of the delegation service.")] = DELEGATION,
    arbiter: Arbiter = ARBITER,
    report_only: ReportOnly = None,
) -> None:
    """Does delegation help, and by what? Tables II to V of MetaCogAgent, replayed from one recording of every agent.

    Run it again with the same --out to go on. `--live` teaches the profiles of the service: give it one of its own.
    """
    from evals.delegation.arms import arms
    from evals.delegation.files import COMMAND, write_report
    from evals.harness.arms import Plan
    from evals.harness.session import REPORT, Session, records_in
    from evals.records import read_records
    from evals.suite import Addresses

    refuse_two_sources(ctx)
    refuse_beside(ctx, "tasks", "data", "hub", "sets", "items")
    if report_only is None:
        if live and concurrency > 1:
            raise typer.BadParameter(
                "what is learned depends on the order: --live goes one by one", param_hint="--live"
            )
        plan = Plan(
            items=_asked(tasks, data, hub, sets, items),
            arms=arms(listed(agents), max_tokens=max_tokens, live=live, equal_compute=equal_compute),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        asked = {"tasks": tasks} if tasks else sourced(data, hub, sets, items)
        again = typed(COMMAND, **asked, seeds=seeds, agents=agents, max_tokens=max_tokens or None, live=live,
                      no_equal_compute=not equal_compute, autogen=autogen,
                      **unusual(concurrency=(concurrency, 1), timeout=(timeout, 600)))  # fmt: skip
        record(plan, Session(command=COMMAND, typed=again, folder=out), Addresses(delegation=service, arbiter=arbiter))
    folder, records = records_in(report_only or out)
    beside = read_records(autogen) if autogen else []
    show(folder, write_report(records, folder, beside=beside), REPORT)


def _asked(tasks: Path | None, data: Path | None, hub: str, sets: str, items: int) -> "Sequence[Item]":
    if tasks is None:
        return items_of(data, hub, sets, items)
    from evals.items import read_items

    return read_items(tasks, MOST_TASKS, programs=True)
