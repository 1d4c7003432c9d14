"""`metacog eval dialectic` evaluates the evolution of the state and of the answers in a dialectic."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernel.msv.affect import AffectAnalyser


def dialectic(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "truthfulqa,mmlu",
    items: Items = 20,
    seeds: Seeds = "7",
    assessor: Annotated[str, typer.Option(help="Assessor of the routing; default: the router's.")] = "",
    agents: Agents = "",
    team: Annotated[
        str, typer.Option(help="Agents that deliberate, separated by commas; each fixes its model. Default: all.")
    ] = "",
    precision: Precision = "",
    affect: Annotated[
        str,
        typer.Option(
            help="Measure ER of every text by these too, separated by commas: vader, nrc (research only, to be "
            "installed: `pip install -e '.[nrc]'`)."
        ),
    ] = "",
    max_tokens: MaxTokens = 0,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-dialectic"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 900,
    router: Router = ROUTER,
    assigner: Assigner = ASSIGNER,
    arbiter: Arbiter = ARBITER,
    delegation: Delegation = DELEGATION,
    report_only: ReportOnly = None,
) -> None:
    """Measure how the state and the answer change from stage to stage, with optimal, greedy and random roles.

    With --agents, the best single agent is a control too. The same command with the same --out continues after an
    interruption, and repeats requests with temporary errors (a timeout, too many requests, a failure of a service).
    The key is METACOG_API_KEY.
    """
    from evals.dialectic.files import COMMAND, arms, with_affect, write_report
    from evals.harness.arms import Plan, described
    from evals.harness.session import RECORDS, REPORT, Session, records_in
    from evals.records import RecordFile
    from evals.suite import Addresses

    reject_two_sources(ctx)
    analysers = _analysers(listed(affect))
    if report_only is None:
        plan = Plan(
            items=items_of(data, hub, sets, items, programs=False),
            arms=described(arms(assessor, listed(agents), max_tokens, listed(team)), precision=precision),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        again = command_line(COMMAND, **item_options(data, hub, sets, items), seeds=seeds, assessor=assessor,
                      agents=agents, team=team, precision=precision, affect=affect,
                      max_tokens=max_tokens or None,
                      **non_default(concurrency=(concurrency, 1), timeout=(timeout, 900)))  # fmt: skip
        session = Session(command=COMMAND, typed=again, folder=out, asks_router=True)
        record(plan, session, Addresses(router=router, assigner=assigner, arbiter=arbiter, delegation=delegation))
    folder, records = records_in(report_only or out)
    added = with_affect(records, analysers)
    if report_only is None and added:
        with RecordFile(folder / RECORDS) as file:
            for record_of_affect in added:
                file.add(record_of_affect)
    show(folder, write_report([*records, *added], folder), REPORT)


def _analysers(names: "Sequence[str]") -> "Mapping[str, AffectAnalyser]":
    from configuration.affect import analyser
    from kernel.msv.affect import AFFECT_NAMES

    unknown = [name for name in names if name not in AFFECT_NAMES]
    if unknown:
        problem = f"there is no analyser {', '.join(unknown)}; there are {', '.join(AFFECT_NAMES)}"
        raise typer.BadParameter(problem, param_hint="--affect")
    return {name: analyser(name) for name in AFFECT_NAMES if name in names}
