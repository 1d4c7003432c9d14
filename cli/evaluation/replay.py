"""`metacog eval replay` runs the rules of the product over recorded answers."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from cli.evaluation.common import COLUMNS, show
from cli.terminal.exits import UnusableInput
from cli.terminal.output import stderr
from evals.harness.command_line import command_line


def replay(
    pack: Annotated[Path, typer.Option(help="Folder of recorded answers: files *.jsonl.gz, one question a line.")],
    out: Annotated[Path, typer.Option(help="Folder for figures.json, report.md and pictures.")] = Path("eval-replay"),
) -> None:
    """Show on recorded answers of other models which decisions help; no model and no service is needed.

    When to stop asking, how well second opinions find errors, how well the probability of being right is calibrated,
    and what panels and cascades of models give, each against its controls. docs/evaluation/replay.md has
    the schema of a pack.
    """
    from evals.replay.figures import figures
    from evals.replay.pack import PackInvalid, read_pack
    from evals.replay.report import REPORT, write_replay

    try:
        recorded = read_pack(pack)
    except PackInvalid as error:
        raise UnusableInput(error.message) from error
    with Progress(*COLUMNS, console=stderr, transient=True) as progress:
        task = progress.add_task("sets", total=len(recorded))
        found = figures(recorded, lambda _: progress.advance(task))
    show(out, write_replay(recorded, found, out, command_line("replay", pack=pack.name)), REPORT)
