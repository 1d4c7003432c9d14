"""`metacog eval publish` writes the records of an evaluation so that they can be committed."""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.exits import UnusableInput
from cli.terminal.output import stderr


def publish(
    records: Annotated[Path, typer.Argument(help="Folder of records (--out of an evaluation), or their file.")],
    file: Annotated[Path, typer.Option(help="File of the published records.")] = Path("records.jsonl.gz"),
) -> None:
    """Write the records of an evaluation without the texts of questions and models: ids, answers, tokens, labels.

    Its report can be made from them: --report-only FILE. An error where the report would be another one.
    """
    from evals.errors import RecordsUnusable
    from evals.harness.session import records_in
    from evals.publishing.files import publish as write

    try:
        write(records_in(records)[1], file)
    except RecordsUnusable as error:
        raise UnusableInput(error.message) from error
    stderr.print(f"written to {file}", soft_wrap=True)
