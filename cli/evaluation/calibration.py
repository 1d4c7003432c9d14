"""`metacog eval calibration` measures how far confidences can be trusted, kind by kind."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from metacog.router.v1.router_pb2 import Run

from cli.calibration.recorded_decisions import MAX_PAGE
from cli.evaluation.common import ROUTER, Router, show
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from evals.harness.command_line import command_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.calibration.figures import LabelledAnswers
    from evals.stats.chance import Chance

# Draws of the bootstrap [count].
DRAWS = 1_000


def calibration(
    pack: Annotated[
        Path | None,
        typer.Option(help="Folder of recorded answers (files *.jsonl.gz); without it the labelled runs of the router."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Newest runs of the router that are read.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for figures.json and report.md.")] = Path("eval-calibration"),
    router: Router = ROUTER,
    report_only: Annotated[
        Path | None, typer.Option(help="Folder or file of records; write the report again, without a router.")
    ] = None,
) -> None:
    """Show the calibration error of confidences after recalibration, on labels that the map has not seen.

    For each source of confidence, and each kind of question that has labels: the error before and after, with its
    interval, beside the error that perfect calibration would show by chance. The labelled answers of a router are kept
    in records.jsonl, without their texts.
    """
    from evals.calibration.figures import calibration_by_kind
    from evals.calibration.report import REPORT, write_calibration
    from evals.stats.chance import seeded

    chance = seeded(seed, DRAWS)
    if pack is not None:
        answers = _of_pack(pack, chance)
    else:
        answers = _of_records(report_only) if report_only is not None else _of_runs(router, runs, out)
    found = [row for each in answers for row in calibration_by_kind(each, chance)]
    typed = command_line("calibration", pack=pack.name if pack else "", runs=None if pack else runs, seed=seed)
    show(out, write_calibration(found, out, typed), REPORT)


def _of_pack(folder: Path, chance: "Chance") -> "Sequence[LabelledAnswers]":
    from evals.calibration.sources import answers_of_pack
    from evals.replay.pack import PackInvalid, read_pack

    try:
        recorded = read_pack(folder)
    except PackInvalid as error:
        raise UnusableInput(error.message) from error
    return [found for one in recorded if (found := answers_of_pack(one, chance)) is not None]


def _of_runs(address: str, most: int, folder: Path) -> "Sequence[LabelledAnswers]":
    import orjson

    from evals.calibration.sources import answers_of_records, labelled_answers
    from evals.harness.session import RECORDS

    pages = Service("router", address).pages("/v1/runs", "runs", Run, page_size=min(most, MAX_PAGE), judged=True)
    records = labelled_answers(islice((reply.message for reply in pages), most))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORDS).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return answers_of_records(records)


def _of_records(place: Path) -> "Sequence[LabelledAnswers]":
    from evals.calibration.sources import answers_of_records
    from evals.errors import RecordsUnusable
    from evals.harness.session import records_in

    try:
        return answers_of_records(records_in(place)[1])
    except RecordsUnusable as error:
        raise UnusableInput(error.message) from error
