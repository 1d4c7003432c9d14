"""`metacog calibrate` chooses the weights and the threshold of the activation from labelled decisions.

It writes a file; a router uses the file after a start with METACOG_ROUTER_ROUTING_FILE.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import print_json

if TYPE_CHECKING:
    from cli.calibration.activation_weights import Choice
    from cli.calibration.recorded_decisions import Case

LIMIT = 10_000


def calibrate(  # noqa: PLR0913 - each is an option of the command
    share: Annotated[float | None, typer.Option(min=0, max=1, help="Target share of System 2.")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the weights to the labels; else they do not change.")] = False,
    out: Annotated[Path | None, typer.Option(help="Routing file to write; default: print it.")] = None,
    records: Annotated[Path | None, typer.Option(help="JSON lines instead of the router's runs.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file in force; default: as in the runs.")] = None,
    assessor: Annotated[str, typer.Option(help="Only runs assessed by this assessor.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of runs, newest first.")] = LIMIT,
    version: Annotated[str, typer.Option(help="Name of the result; default: a digest of it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds and the resampling.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Choose the activation's threshold for a System 2 share, or fit its weights, from labelled decisions.

    The decisions are those of the router's runs that the key may read, or those of a file with lines
    like {"msv": {"correctness": 0.9, "conflict": 0.1}, "correct": true}, where `correct`, a flag or a score of 0 to 1,
    is the label of System 1's answer. Fitted weights are used only if they are significantly better.

    To apply the result, start the router with METACOG_ROUTER_ROUTING_FILE set to the file.
    """
    if share is None and not fit:
        raise typer.BadParameter("give --share, --fit or both", param_hint="--share")
    if out is not None and out.exists() and not force:
        raise typer.BadParameter(f"{out} exists already; --force overwrites it", param_hint="--out")
    # Numeric packages are imported here, so that the other commands start faster.
    import numpy as np

    from cli.calibration.activation_weights import calibrated, document, report, routing_file
    from configuration.routing import read_routing

    cases, old = _decisions(records, routing, Service("router", router, key=key), limit=limit, assessor=assessor)
    result = calibrated(cases, old, share=share, fit=fit, rng=np.random.default_rng(seed))
    file = routing_file(result, version)
    if out is not None:
        out.write_text(file)
        read_routing(out)
    if as_json:
        print_json(document(result, file))
        return
    typer.echo(report(result, cases))
    if out is None:
        typer.echo(f"\n{file}", nl=False)


def _decisions(
    records: Path | None, routing: Path | None, router: Service, *, limit: int, assessor: str
) -> tuple[Sequence["Case"], "Choice"]:
    """Return the decisions of a file or of the router's runs, and the parameters in force."""
    from cli.calibration.activation_weights import choice_in_force
    from cli.calibration.recorded_decisions import case_of_run, read_cases, runs_of

    if records is not None:
        return read_cases(records), choice_in_force(routing, None)
    runs = runs_of(router, limit=limit, assessor=assessor)
    undetermined = router.get("/v1/activations", bins=1)["undetermined"]
    return [case_of_run(run) for run in runs], choice_in_force(routing, next(iter(runs), None), undetermined)
