"""`metacog fit-roles` fits the weights of the roles' fitness to labelled deliberations.

It writes a file; an assigner uses the file after a start with METACOG_ASSIGNER_ROLE_WEIGHTS_FILE.
"""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import print_json

LIMIT = 10_000


def fit_roles(  # noqa: PLR0913 - each is an option of the command
    out: Annotated[Path | None, typer.Option(help="Role weights file to write; default: print it.")] = None,
    records: Annotated[Path | None, typer.Option(help="JSON lines instead of the router's runs.")] = None,
    role_weights: Annotated[
        Path | None, typer.Option(help="Weights to compare with; default: the default weights.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of labelled deliberations, newest first.")] = LIMIT,
    version: Annotated[str, typer.Option(help="Name of the result; default: a digest of it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds, the control and the resampling.")] = 0,
    anyway: Annotated[bool, typer.Option("--anyway", help="Use fitted weights without a significant gain.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Fit the weights of the roles' fitness to labelled deliberations, and report whether they are better.

    The deliberations are those of the router's runs that the key may read, or those of a file with lines like
    {"deliberation": {...}, "correct": true}. Only deliberations with randomized roles are used: start the assigner
    with METACOG_ASSIGNER_EXPLORATION_SHARE, or request RANDOM roles. Fitted weights are used only if they are
    significantly better than the current weights and than weights fitted to shuffled labels.

    To apply the result, start the assigner with METACOG_ASSIGNER_ROLE_WEIGHTS_FILE set to the file.
    """
    if out is not None and out.exists() and not force:
        raise typer.BadParameter(f"{out} exists already; --force overwrites it", param_hint="--out")
    # Numeric packages are imported here, so that the other commands start faster.
    import numpy as np

    from cli.calibration.recorded_deliberations import read_deliberations, recorded_deliberations
    from cli.calibration.role_weights import document, fitted, report, weights_file
    from configuration.role_weights import read_role_weights
    from kernel.roles import VersionedWeights

    service = Service("router", router, key=key)
    deliberations = read_deliberations(records) if records is not None else recorded_deliberations(service, limit=limit)
    before = read_role_weights(role_weights) if role_weights is not None else VersionedWeights()
    result = fitted(deliberations, before, anyway=anyway, rng=np.random.default_rng(seed))
    file = weights_file(result, version)
    if out is not None:
        out.write_text(file)
        read_role_weights(out)
    if as_json:
        print_json(document(result, file))
        return
    typer.echo(report(result))
    if out is None:
        typer.echo(f"\n{file}", nl=False)
