"""The files that a comparison writes."""

from collections.abc import Sequence
from pathlib import Path

from evals.controls.arms import SYSTEM_TWOS
from evals.controls.figures import figures
from evals.controls.report import pictures, report
from evals.errors import RecordsUnusable
from evals.harness.rows import recorded_evaluation
from evals.harness.session import REPORT
from evals.records import Record
from evals.stats.chance import Chance, seeded

COMMAND = "compare"
SEED = 7


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no comparison.
    """
    evaluation = recorded_evaluation(records, COMMAND)
    chance = chance or seeded(SEED)
    found = figures(evaluation, _compared(evaluation.arms), chance)
    text = report(evaluation, found)
    (folder / REPORT).write_text(text, encoding="utf-8")
    for name, drawn in pictures(evaluation, found, chance).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    return text


def _compared(arms: Sequence[str]) -> str:
    found = [name for name in arms if name in SYSTEM_TWOS and name not in ("roles-greedy", "roles-random")]
    if not found:
        raise RecordsUnusable("the records hold no strategy to compare")
    return found[0]
