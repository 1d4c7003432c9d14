"""`metacog calibrate`: weights and threshold of the activation, chosen from what came of decisions.

Nothing is applied: what is chosen goes into a file that the router reads when it is started with it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import emit

if TYPE_CHECKING:
    from cli.calibration.activation_weights import Choice
    from cli.calibration.recorded_decisions import Case

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
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Choose the activation's threshold for a System 2 share, or fit its weights, from what came of decisions.

    Decisions come from the router's runs, as far as the key sees them, or from a file with lines
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

    from cli.calibration.activation_weights import calibrated, document, report, routing_file
    from configuration.routing import read_routing

    cases, old = _decisions(records, routing, Service("router", router, key=key), limit=limit, assessor=assessor)
    made = calibrated(cases, old, share=share, fit=fit, rng=np.random.default_rng(seed))
    file = routing_file(made, version)
    if out is not None:
        out.write_text(file)
        read_routing(out)
    if as_json:
        emit(document(made, file))
        return
    typer.echo(report(made, cases))
    if out is None:
        typer.echo(f"\n{file}", nl=False)


def _decisions(
    records: Path | None, routing: Path | None, router: Service, *, limit: int, assessor: str
) -> tuple[Sequence["Case"], "Choice"]:
    """Decisions of a file or of the router's runs, and the choice they were made by."""
    from cli.calibration.activation_weights import choice_in_force
    from cli.calibration.recorded_decisions import case_of_run, read_cases, runs_of

    if records is not None:
        return read_cases(records), choice_in_force(routing, None)
    runs = runs_of(router, limit=limit, assessor=assessor)
    undetermined = router.get("/v1/activations", bins=1)["undetermined"]
    return [case_of_run(run) for run in runs], choice_in_force(routing, next(iter(runs), None), undetermined)
