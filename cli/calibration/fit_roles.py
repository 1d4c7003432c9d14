"""`metacog fit-roles`: weights of the roles' fitness, fitted to deliberations whose answers were judged.

Nothing is applied: what is fitted goes into a file that the assigner reads when it is started with it.
"""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import emit

LIMIT = 10_000


def fit_roles(  # noqa: PLR0913 - each is an option of the command
    out: Annotated[Path | None, typer.Option(help="Role weights file to write; left out: it is shown.")] = None,
    records: Annotated[Path | None, typer.Option(help="JSON lines instead of the router's runs.")] = None,
    role_weights: Annotated[Path | None, typer.Option(help="Weights to beat; left out: the defaults.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Newest judged deliberations that are looked at, at most.")] = LIMIT,
    version: Annotated[str, typer.Option(help="Name of the result; left out: a digest of it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the folds, the control and the resampling.")] = 0,
    anyway: Annotated[bool, typer.Option("--anyway", help="Take fitted weights without a gain that is shown.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Fit the weights of the roles' fitness to deliberations with feedback, and say whether they beat the defaults.

    Deliberations come from the router's runs, as far as the key sees them, or from a file with lines like
    {"deliberation": {...}, "correct": true}. Only those teach in whose roles chance had a part: start the assigner
    with METACOG_ASSIGNER_EXPLORATION_SHARE, or ask for RANDOM roles. Fitted weights are taken only where they are shown
    to be better than the weights so far and than weights fitted to shuffled verdicts.

    Nothing is applied: start the assigner with METACOG_ASSIGNER_ROLE_WEIGHTS_FILE set to the result.
    """
    if out is not None and out.exists() and not force:
        raise typer.BadParameter(f"{out} is there already; --force writes over it", param_hint="--out")
    # Numerics are imported by the command that needs them: every other one starts faster.
    import numpy as np

    from cli.calibration.recorded_deliberations import heard_lines, heard_runs
    from cli.calibration.role_weights import document, fitted, report, weights_file
    from configuration.role_weights import read_role_weights
    from kernel.roles import VersionedWeights

    asked = Service("router", router, key=key)
    heard = heard_lines(records) if records is not None else heard_runs(asked, limit=limit)
    before = read_role_weights(role_weights) if role_weights is not None else VersionedWeights()
    made = fitted(heard, before, anyway=anyway, rng=np.random.default_rng(seed))
    file = weights_file(made, version)
    if out is not None:
        out.write_text(file)
        read_role_weights(out)
    if as_json:
        emit(document(made, file))
        return
    typer.echo(report(made))
    if out is None:
        typer.echo(f"\n{file}", nl=False)
