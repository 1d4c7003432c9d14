"""`metacog eval` evaluates the running suite on questions with known answers.

Each command imports the parts of `evals` that it needs.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from cli.evaluation.autogen import autogen
from cli.evaluation.benchmark import benchmark
from cli.evaluation.calibration import calibration
from cli.evaluation.common import (
    COLUMNS,
    ROUTER,
    Data,
    Hub,
    Precision,
    Router,
    Sets,
    interruptible,
    items_of,
    listed,
    reject_two_sources,
    reject_with,
    show,
)
from cli.evaluation.compare import compare
from cli.evaluation.delegation import delegation
from cli.evaluation.detectable import detectable
from cli.evaluation.dialectic import dialectic
from cli.evaluation.horizon import horizon
from cli.evaluation.mc_mas import mc_mas
from cli.evaluation.outcomes import OutcomeOptions, score_again, score_outcomes
from cli.evaluation.papers.paper import paper
from cli.evaluation.publish import publish
from cli.evaluation.record import record
from cli.evaluation.replay import replay
from cli.terminal.output import stderr

if TYPE_CHECKING:
    from evals.routing.requests import Plan
    from evals.routing.session import Source

# A quick evaluation stops after QUICK_S: with the report it takes less than five minutes.
QUICK_S, QUICK_REQUEST_S = 250.0, 200
QUICK_ITEMS, QUICK_ASSESSORS = 12, ("hybrid",)

app = typer.Typer(help="Evaluate the running suite.", no_args_is_help=True)
app.command()(compare)
app.command("mc-mas")(mc_mas)
app.command()(autogen)
app.command()(benchmark)
app.command()(calibration)
app.command()(delegation)
app.command()(detectable)
app.command()(dialectic)
app.command()(horizon)
app.command()(paper)
app.command()(publish)
app.command()(record)
app.command()(replay)


@app.callback()
def measure() -> None:
    """Evaluate the running suite on questions with known answers."""


@app.command()
def routing(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Annotated[int, typer.Option(min=1, help="Items of each set.")] = 40,
    router: Router = ROUTER,
    out: Annotated[Path, typer.Option(help="Folder for records and report; created if missing.")] = Path(
        "eval-routing"
    ),
    assessors: Annotated[str, typer.Option(help="Assessors, separated by commas; default: all.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every request.")] = 7,
    precision: Precision = "",
    single_pass: Annotated[int, typer.Option(min=0, help="Items of each set whose answer alone is timed too.")] = 3,
    concurrency: Annotated[int, typer.Option(min=1, help="Concurrent requests; more than 1 distorts the times.")] = 1,
    timeout: Annotated[int, typer.Option(min=1, help="Time limit of one request [s].")] = 600,
    report_only: Annotated[
        Path | None, typer.Option(help="Folder of records; write the report again, without a router.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first evaluation in five minutes, on built-in questions.")
    ] = False,
    outcomes: Annotated[
        str, typer.Option(help="Files with recorded outcomes of two models, to score the router.")
    ] = "",
) -> None:
    """Measure whether the activation predicts wrong answers of System 1, and the cost of the assessment.

    The same command with the same --out continues after an interruption, and repeats requests with temporary errors
    (a timeout, too many requests, a failure of the router). The key is METACOG_API_KEY.
    """
    from evals.routing.files import REPORT
    from evals.routing.session import rewrite

    reject_two_sources(ctx)
    reject_with(ctx, "outcomes", "data", "hub", "sets", "quick", "single_pass", "precision")
    reject_with(ctx, "quick", "data", "hub", "sets", "items", "timeout")
    names = _known(listed(assessors), quick)
    if outcomes:
        options = OutcomeOptions(listed(outcomes), items, names, seed, out, router, concurrency, timeout)
        return score_outcomes(options) if report_only is None else score_again(report_only)
    if report_only is None:
        plan, source = _quick(names, seed) if quick else _whole(data, hub, sets, items, names)
        plan = replace(plan, seed=seed, single_pass=single_pass, concurrency=concurrency, precision=precision)
        plan = plan if quick else replace(plan, timeout_ms=timeout * 1000)
        _record(plan, source, router, out, QUICK_S if quick else None)
    folder, report = rewrite(report_only or out)
    show(folder, report, REPORT)
    return None


def _whole(data: Path | None, hub: str, sets: str, items: int, assessors: tuple[str, ...]) -> "tuple[Plan, Source]":
    from evals.routing.requests import Plan
    from evals.routing.session import public_source, source

    if data is None and not hub:
        raise typer.BadParameter("give the folder with the data sets, --hub or --quick", param_hint="--data")
    plan = Plan(items=items_of(data, hub, sets, items, programs=False), assessors=assessors)
    return plan, source(data, plan, items) if data and not hub else public_source(listed(hub), plan, items)


def _quick(assessors: tuple[str, ...], seed: int) -> "tuple[Plan, Source]":
    from evals.quick import quick_items
    from evals.routing.requests import Plan
    from evals.routing.session import Source

    items = quick_items(QUICK_ITEMS, seed)
    plan = Plan(items=items, assessors=assessors, timeout_ms=QUICK_REQUEST_S * 1000)
    return plan, Source(folder="--quick", sets=tuple(dict.fromkeys(item.dataset for item in items)), items=QUICK_ITEMS)


def _known(names: tuple[str, ...], quick: bool) -> tuple[str, ...]:
    from evals.routing.requests import ASSESSORS, KNOWN_ASSESSORS

    unknown = [name for name in names if name not in KNOWN_ASSESSORS]
    if unknown:
        problem = f"there is no assessor {', '.join(unknown)}; there are {', '.join(KNOWN_ASSESSORS)}"
        raise typer.BadParameter(problem, param_hint="--assessors")
    return names or (QUICK_ASSESSORS if quick else ASSESSORS)


def _record(plan: "Plan", source: "Source", router: str, out: Path, seconds: float | None) -> None:
    from evals.routing.requests import asks

    with Progress(*COLUMNS, console=stderr) as progress:
        task = progress.add_task(f"{len(plan.items)} items", total=len(asks(plan)))
        advance = partial(progress.advance, task)
        interruptible(_recorded(plan, source, router, advance, folder=out, seconds=seconds), out)


async def _recorded(
    plan: "Plan", source: "Source", url: str, advance: Callable[[], None], *, folder: Path, seconds: float | None
) -> None:
    from evals.router_client import RouterClient
    from evals.routing.session import record

    key = os.environ.get("METACOG_API_KEY", "")
    async with RouterClient(url, key=key, timeout_s=plan.timeout_ms / 1000) as router:
        await record(plan, source, router, folder, advance, seconds)
