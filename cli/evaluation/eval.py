"""`metacog eval`: measure the running suite on questions with known answers.

What measures is imported by the commands that do: the other commands need none of it.
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
from cli.evaluation.common import (
    COLUMNS,
    ROUTER,
    Data,
    Hub,
    Router,
    Sets,
    interruptible,
    items_of,
    listed,
    notes,
    refuse_beside,
    refuse_two_sources,
    show,
)
from cli.evaluation.compare import compare
from cli.evaluation.delegation import delegation
from cli.evaluation.dialectic import dialectic
from cli.evaluation.mc_mas import mc_mas
from cli.evaluation.outcomes import Asked, score_again, score_outcomes

if TYPE_CHECKING:
    from evals.routing.asking import Plan
    from evals.routing.running import Source

# A quick look ends after QUICK_S, whatever is under way then: with the report under five minutes in all.
QUICK_S, QUICK_REQUEST_S = 250.0, 200
QUICK_ITEMS, QUICK_ASSESSORS = 12, ("hybrid",)

app = typer.Typer(help="Measure the running suite.", no_args_is_help=True)
app.command()(compare)
app.command("mc-mas")(mc_mas)
app.command()(autogen)
app.command()(benchmark)
app.command()(delegation)
app.command()(dialectic)


@app.callback()
def measure() -> None:
    """Measure the running suite on questions with known answers."""


@app.command()
def routing(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Annotated[int, typer.Option(min=1, help="Items of each set.")] = 40,
    router: Router = ROUTER,
    out: Annotated[Path, typer.Option(help="Folder for records and report; made if missing.")] = Path("eval-routing"),
    assessors: Annotated[str, typer.Option(help="Assessors, with commas between them; default: all.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every request.")] = 7,
    plain: Annotated[int, typer.Option(min=0, help="Items of each set whose answer is also timed by itself.")] = 3,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time; more than 1 spoils the times.")] = 1,
    timeout: Annotated[int, typer.Option(min=1, help="Time that one request is given [s].")] = 600,
    report_only: Annotated[Path | None, typer.Option(help="Records to report on again, without a router.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look in five minutes, on questions made up here.")
    ] = False,
    outcomes: Annotated[
        str, typer.Option(help="Files of recorded outcomes of two models, to score the router on.")
    ] = "",
) -> None:
    """Does activation predict that System 1 is wrong, and what does knowing cost?

    Run it again with the same --out to go on after an interruption, and to ask again for what was refused in passing
    (a timeout, too many requests, a failure inside the router). The key is taken from METACOG_API_KEY.
    """
    from evals.routing.files import REPORT
    from evals.routing.running import rewrite

    refuse_two_sources(ctx)
    refuse_beside(ctx, "outcomes", "data", "hub", "sets", "quick", "plain")
    refuse_beside(ctx, "quick", "data", "hub", "sets", "items", "timeout")
    names = _known(listed(assessors), quick)
    if outcomes:
        asked = Asked(listed(outcomes), items, names, seed, out, router, concurrency, timeout)
        return score_outcomes(asked) if report_only is None else score_again(report_only)
    if report_only is None:
        plan, source = _quick(names, seed) if quick else _whole(data, hub, sets, items, names)
        plan = replace(plan, seed=seed, plain=plain, concurrency=concurrency)
        plan = plan if quick else replace(plan, timeout_ms=timeout * 1000)
        _record(plan, source, router, out, QUICK_S if quick else None)
    folder, said = rewrite(report_only or out)
    show(folder, said, REPORT)
    return None


def _whole(data: Path | None, hub: str, sets: str, items: int, assessors: tuple[str, ...]) -> "tuple[Plan, Source]":
    from evals.routing.asking import Plan
    from evals.routing.running import public_source, source

    if data is None and not hub:
        raise typer.BadParameter("name the folder with the data sets, or take --hub or --quick", param_hint="--data")
    plan = Plan(items=items_of(data, hub, sets, items, programs=False), assessors=assessors)
    return plan, source(data, plan, items) if data and not hub else public_source(listed(hub), plan, items)


def _quick(assessors: tuple[str, ...], seed: int) -> "tuple[Plan, Source]":
    from evals.quick import quick_items
    from evals.routing.asking import Plan
    from evals.routing.running import Source

    items = quick_items(QUICK_ITEMS, seed)
    plan = Plan(items=items, assessors=assessors, timeout_ms=QUICK_REQUEST_S * 1000)
    return plan, Source(folder="--quick", sets=tuple(dict.fromkeys(item.dataset for item in items)), items=QUICK_ITEMS)


def _known(names: tuple[str, ...], quick: bool) -> tuple[str, ...]:
    from evals.routing.asking import ASSESSORS

    unknown = [name for name in names if name not in ASSESSORS]
    if unknown:
        said = f"there is no assessor {', '.join(unknown)}; there are {', '.join(ASSESSORS)}"
        raise typer.BadParameter(said, param_hint="--assessors")
    return names or (QUICK_ASSESSORS if quick else ASSESSORS)


def _record(plan: "Plan", source: "Source", router: str, out: Path, seconds: float | None) -> None:
    from evals.routing.asking import asks

    with Progress(*COLUMNS, console=notes) as progress:
        task = progress.add_task(f"{len(plan.items)} items", total=len(asks(plan)))
        told = partial(progress.advance, task)
        interruptible(_recorded(plan, source, router, told, folder=out, seconds=seconds), out)


async def _recorded(
    plan: "Plan", source: "Source", url: str, told: Callable[[], None], *, folder: Path, seconds: float | None
) -> None:
    from evals.router_client import RouterClient
    from evals.routing.running import record

    key = os.environ.get("METACOG_API_KEY", "")
    async with RouterClient(url, key=key, timeout_s=plan.timeout_ms / 1000) as router:
        await record(plan, source, router, folder, told, seconds)
