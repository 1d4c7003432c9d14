"""The files of an evaluation: raw records, the report, its pictures, and one scored line for each item."""

from collections.abc import Sequence
from pathlib import Path

import orjson

from evals.harness.session import RECORDS as RECORDS
from evals.harness.session import REPORT as REPORT
from evals.records import Record
from evals.routing.figures import figures, level_of
from evals.routing.plots import outcome_plot, receiver_plot
from evals.routing.report import report
from evals.routing.rows import RecordedRouting, Row, recorded
from evals.routing.separation import columns
from evals.stats.chance import Chance, seeded

SEED = 7
SCORED = "scored.jsonl"
CURVES, OUTCOMES = "receiver.svg", "activation.svg"
PICTURES = f"\n![activation by outcome]({OUTCOMES})\n![receiver's curves]({CURVES})\n"


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Args:
        records: Raw records.
        folder: Where to.
        chance: For all resampling; left out: always the same.

    Raises:
        RecordsUnusable: When they do not make an evaluation.
    """
    evaluation = recorded(records)
    text = report(evaluation, figures(evaluation, chance or seeded(SEED))) + PICTURES
    known = {
        name: columns(evaluation.rows, level_of(name, lambda reading: reading.activation))
        for name in _names(evaluation)
    }
    (folder / REPORT).write_text(text, encoding="utf-8")
    (folder / CURVES).write_text(receiver_plot(known), encoding="utf-8")
    (folder / OUTCOMES).write_text(outcome_plot(known, evaluation.runs[0]["threshold"]), encoding="utf-8")
    (folder / SCORED).write_bytes(b"".join(orjson.dumps(_scored(row)) + b"\n" for row in evaluation.rows))
    return text


def _names(evaluation: RecordedRouting) -> Sequence[str]:
    return list(dict.fromkeys(name for row in evaluation.rows for name in row.readings))


def _scored(row: Row) -> Record:
    return {
        "item": row.item,
        "dataset": row.dataset,
        "answer": row.label.answer,
        "right": row.label.right,
        "activation": {name: reading.activation for name, reading in row.readings.items()},
    }
