"""The file of published records, and the report that both give."""

import gzip
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson

from evals.controls import files as controls
from evals.delegation import files as delegation
from evals.dialectic import files as dialectic
from evals.errors import RecordsUnusable
from evals.harness.commands import OUTCOMES, ROUTING, command_of
from evals.mc_mas import files as mc_mas
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
    mc_mas.COMMAND: mc_mas.write_report,
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


def _report(records: Sequence[Record]) -> str:
    run = next((record for record in records if record["kind"] == "run"), None)
    if run is None or command_of(run) not in WRITE:
        raise RecordsUnusable("the records are of no evaluation that has a report")
    with tempfile.TemporaryDirectory() as folder:
        return WRITE[command_of(run)](records, Path(folder))
