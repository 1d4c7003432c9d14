"""`metacog calibrate`: weights and threshold of the activation, chosen from what came of decisions.

Nothing is applied: what is chosen goes into a file that the router reads when it is started with it.
"""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from chassis.routing_file import read_routing
from cli.router import ROUTER, AsJson, Router, RouterUrl

LIMIT = 10_000


def calibrate(  # noqa: PLR0913 - each is an option of the command
    share: Annotated[float | None, typer.Option(min=0, max=1, help="System 2 share that is wanted.")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the weights to what verdicts say; else they stay.")] = False,
    out: Annotated[Path | None, typer.Option(help="Routing file to write; left out: it is shown.")] = None,
    records: Annotated[Path | None, typer.Option(help="JSON lines instead of the router's runs.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file in force; left out: as the runs say.")] = None,
    assessor: Annotated[str, typer.Option(help="Only runs assessed by this assessor.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Newest runs that are looked at, at most.")] = LIMIT,
    version: Annotated[str, typer.Option(help="Name of the result; left out: a digest of it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the folds and the resampling.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    router: RouterUrl = ROUTER,
    as_json: AsJson = False,
) -> None:
    """Choose the activation's threshold for a System 2 share, or fit its weights, from what came of decisions.

    Decisions come from the router's runs, as far as the key in METACOG_API_KEY sees them, or from a file with lines
    like {"msv": {"correctness": 0.9, "conflict": 0.1}, "correct": true}, where `correct`, also a score of 0 to 1, says
    how right the answer of System 1 was. Fitted weights are taken only where they are shown to be better.

    Nothing is applied: start the router with METACOG_ROUTER_ROUTING_FILE set to the result.
    """
    if share is None and not fit:
        raise typer.BadParameter("say --share, --fit or both", param_hint="--share")
    if out is not None and out.exists() and not force:
        raise typer.BadParameter(f"{out} is there already; --force writes over it", param_hint="--out")
    # Numerics are imported by the command that needs them: every other one starts faster.
    import numpy as np

    from cli.calibrating import calibrated, choice_in_force, document, report, routing_file
    from cli.judged import case_of_run, read_cases, runs_of

    if records is not None:
        cases, newest = read_cases(records), None
    else:
        runs = runs_of(Router(router), limit=limit, assessor=assessor)
        cases, newest = [case_of_run(run) for run in runs], next(iter(runs), None)
    made = calibrated(cases, choice_in_force(routing, newest), share=share, fit=fit, rng=np.random.default_rng(seed))
    file = routing_file(made, version)
    if out is not None:
        out.write_text(file)
        read_routing(out)
    typer.echo(orjson.dumps(document(made, file)).decode() if as_json else report(made, cases))
    if out is None and not as_json:
        typer.echo(f"\n{file}", nl=False)
