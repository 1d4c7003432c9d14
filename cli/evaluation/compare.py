"""`metacog eval compare` compares one strategy with its controls at equal compute."""

from pathlib import Path
from typing import Annotated

import typer

from cli.evaluation.common import (
    ARBITER,
    ASSIGNER,
    DELEGATION,
    ROUTER,
    Agents,
    Arbiter,
    Assigner,
    Concurrency,
    Data,
    Delegation,
    Hub,
    Items,
    MaxTokens,
    Precision,
    ReportOnly,
    Router,
    Seeds,
    Sets,
    Timeout,
    item_options,
    items_of,
    listed,
    numbers,
    record,
    reject_two_sources,
    show,
)
from evals.harness.command_line import command_line, non_default


def compare(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    strategy: Annotated[
        str, typer.Option(help="Strategy to compare, e.g. vote, cascade, dialectic, arbiter, delegation.")
    ] = "dialectic",
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Items = 20,
    seeds: Seeds = "7",
    agents: Agents = "",
    assessor: Annotated[str, typer.Option(help="Assessor of the routing; default: the router's.")] = "",
    precision: Precision = "",
    max_tokens: MaxTokens = 0,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-compare"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 600,
    router: Router = ROUTER,
    assigner: Assigner = ASSIGNER,
    arbiter: Arbiter = ARBITER,
    delegation: Delegation = DELEGATION,
    report_only: ReportOnly = None,
) -> None:
    """Compare a strategy with its controls: System 1, majority votes, self-consistency and random routing.

    With --agents, the best single agent is a control too; for the dialectic, greedy and random roles are. The same
    command with the same --out continues after an interruption, and repeats requests with temporary errors (a timeout,
    too many requests, a failure of a service). The key is METACOG_API_KEY.
    """
    from evals.controls.arms import SYSTEM_TWOS, arms
    from evals.controls.files import COMMAND, write_report
    from evals.harness.arms import Plan, described
    from evals.harness.session import REPORT, Session, records_in
    from evals.suite import Addresses

    reject_two_sources(ctx)
    if report_only is None:
        if strategy not in SYSTEM_TWOS:
            problem = f"there is no strategy {strategy} to compare; there are {', '.join(SYSTEM_TWOS)}"
            raise typer.BadParameter(problem, param_hint="--strategy")
        plan = Plan(
            items=items_of(data, hub, sets, items),
            arms=described(arms(strategy, listed(agents), assessor, max_tokens), precision=precision),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        again = command_line(COMMAND, strategy=strategy, **item_options(data, hub, sets, items), seeds=seeds,
                      agents=agents, assessor=assessor, precision=precision, max_tokens=max_tokens or None,
                      **non_default(concurrency=(concurrency, 1), timeout=(timeout, 600)))  # fmt: skip
        session = Session(command=COMMAND, typed=again, folder=out, asks_router=True)
        record(plan, session, Addresses(router=router, assigner=assigner, arbiter=arbiter, delegation=delegation))
    folder, records = records_in(report_only or out)
    show(folder, write_report(records, folder), REPORT)
