"""`metacog eval replay` runs the rules of the product over recorded answers."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from cli.evaluation.common import COLUMNS, show
from cli.terminal.exits import UnusableInput
from cli.terminal.output import stderr
from evals.harness.command_line import command_line
from inference import Embeddings

if TYPE_CHECKING:
    from evals.replay.pack import RecordedSet


def replay(
    pack: Annotated[Path, typer.Option(help="Folder of recorded answers: files *.jsonl.gz, one question a line.")],
    out: Annotated[Path, typer.Option(help="Folder for figures.json, report.md and pictures.")] = Path("eval-replay"),
    encoder: Annotated[
        str,
        typer.Option(
            help="URL of a sentence encoder, e.g. http://127.0.0.1:8006/v1: gains by the kinds that metacog infers too."
        ),
    ] = "",
    records: Annotated[
        Path | None,
        typer.Option(help="Folder for the records of the pack, without a word of it: they can be published."),
    ] = None,
) -> None:
    """Show on recorded answers of other models which decisions help; no model and no service is needed.

    When to stop asking, how well second opinions find errors, how well the probability of being right is calibrated,
    what panels and cascades of models give, what can be promised, and whether reasoning pays by kind of question, each
    against its controls. docs/evaluation/replay.md has the schema of a pack. With --records nothing else is done.
    """
    from evals.replay.figures import figures
    from evals.replay.pack import PackInvalid, read_pack, write_records
    from evals.replay.report import REPORT, write_replay

    try:
        recorded = read_pack(pack)
        inferred = asyncio.run(_inferred(recorded, encoder)) if encoder else {}
        if records is not None:
            for path in write_records(pack, records, inferred):
                stderr.print(f"written to {path}", soft_wrap=True)
            return
    except PackInvalid as error:
        raise UnusableInput(error.message) from error
    with Progress(*COLUMNS, console=stderr, transient=True) as progress:
        task = progress.add_task("sets", total=len(recorded))
        found = figures(recorded, lambda _: progress.advance(task), inferred)
    typed = command_line("replay", pack=pack.name, **({"encoder": "URL"} if encoder else {}))
    show(out, write_replay(recorded, found, out, typed), REPORT)


async def _inferred(recorded: "Sequence[RecordedSet]", url: str) -> Mapping[str, Sequence[str]]:
    from evals.replay.inferred_kinds import inferred_kinds

    embeddings = Embeddings(url)
    try:
        return await inferred_kinds(recorded, embeddings)
    finally:
        await embeddings.close()
