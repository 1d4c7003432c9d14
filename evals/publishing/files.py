"""The file of published records, and the report that both give."""

import gzip
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson

from evals.controls import files as controls
from evals.controls import report as controls_report
from evals.delegation import files as delegation
from evals.delegation import report as delegation_report
from evals.dialectic import files as dialectic
from evals.errors import RecordsUnusable
from evals.harness.commands import OUTCOMES, ROUTING, command_of
from evals.harness.session import REPORT
from evals.horizon import files as horizon
from evals.mc_mas import files as mc_mas
from evals.mc_mas import report as mc_mas_report
from evals.outcomes import files as outcomes
from evals.publishing.records import published
from evals.records import Record
from evals.routing import files as routing

WRITE: Mapping[str, Callable[[Sequence[Record], Path], str]] = {
    ROUTING: routing.write_report,
    OUTCOMES: outcomes.write_report,
    controls.COMMAND: controls.write_report,
    delegation.COMMAND: delegation.write_report,
    dialectic.COMMAND: dialectic.write_report,
    horizon.COMMAND: horizon.write_report,
    mc_mas.COMMAND: mc_mas.write_report,
}

_CONTROLS = (controls_report.TOKENS, controls_report.GROUPS, controls_report.RELIABILITY)
# The pictures of each report; of outcomes one for each set.
PICTURES: Mapping[str, Sequence[str]] = {
    ROUTING: (routing.CURVES, routing.OUTCOMES),
    controls.COMMAND: _CONTROLS,
    delegation.COMMAND: delegation_report.PICTURES,
    dialectic.COMMAND: (*_CONTROLS, dialectic.STATES),
    horizon.COMMAND: (horizon.CURVE,),
    mc_mas.COMMAND: mc_mas_report.PICTURES,
}


def publish(records: Sequence[Record], file: Path) -> None:
    """Write the records without wording, compressed, the same bytes each time.

    Raises:
        RecordsUnusable: When they are of no evaluation, or the report would not be the same without their texts.
    """
    without = published(records)
    if _report(without) != _report(records):
        raise RecordsUnusable("the report rests on texts of these records; they cannot be published without them")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(b"".join(orjson.dumps(record) + b"\n" for record in without), mtime=0))


def file_names(records: Sequence[Record]) -> Sequence[str]:
    """Return the names of the files of a report: its text, and its pictures.

    Raises:
        RecordsUnusable: When the records are of no evaluation that has a report.
    """
    command = _command(records)
    return [REPORT, *(outcomes.picture_names(records) if command == OUTCOMES else PICTURES[command])]


def report_files(records: Sequence[Record]) -> Mapping[str, str]:
    """Return the report of published records with its pictures, by file name.

    Raises:
        RecordsUnusable: When they are of no evaluation, or hold nothing to report on.
    """
    with tempfile.TemporaryDirectory() as folder:
        _write(records, Path(folder))
        return {name: (Path(folder) / name).read_text(encoding="utf-8") for name in file_names(records)}


def _report(records: Sequence[Record]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return _write(records, Path(folder))


def _write(records: Sequence[Record], folder: Path) -> str:
    return WRITE[_command(records)](records, folder)


def _command(records: Sequence[Record]) -> str:
    run = next((record for record in records if record["kind"] == "run"), None)
    if run is None or command_of(run) not in WRITE:
        raise RecordsUnusable("the records are of no evaluation that has a report")
    return command_of(run)
