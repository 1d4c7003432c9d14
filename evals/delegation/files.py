"""What the evaluation of delegation leaves in its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from evals.delegation.arms import AUTOGEN, LIVE
from evals.delegation.figures import AUTOGEN as AUTOGEN_NAME
from evals.delegation.figures import figures
from evals.delegation.live import live_section
from evals.delegation.report import pictures, sections
from evals.delegation.tasks import Task, tasks
from evals.errors import RecordsUnusable
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import Recorded, recorded
from evals.harness.session import REPORT
from evals.records import Record
from evals.stats.chance import Chance, seeded

COMMAND, SEED, OPTIMAL = "delegation", 7, "optimal.jsonl"
TITLE = "Does delegation help, and by what?"


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no evaluation of delegation, or no task is whole yet.
    """
    made = recorded(records, COMMAND)
    known = tasks(made)
    if not known:
        raise RecordsUnusable("there is nothing to report on yet: no task has everybody's rating and answer")
    found = figures(known, made.of(AUTOGEN), chance or seeded(SEED))
    head = opening(TITLE, made, **_autogen(made))
    parts = [head, settings_table(made), *sections(found, len(known)), live_section(made.of(LIVE))]
    said = "\n\n".join(part for part in parts if part) + "\n"
    (folder / REPORT).write_text(said, encoding="utf-8")
    for name, drawn in pictures(found).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    (folder / OPTIMAL).write_bytes(b"".join(orjson.dumps(_optimal(task)) + b"\n" for task in known))
    return said


def _autogen(made: Recorded) -> Mapping[str, str]:
    """With what AutoGen was run, where it was."""
    told: Mapping[str, Any] = next((row.reply["settings"] for row in made.of(AUTOGEN) if "settings" in row.reply), {})
    return {AUTOGEN_NAME: ", ".join(f"{name} {setting}" for name, setting in told.items())}


def _optimal(task: Task) -> Record:
    """Who is the right one for a task: those who answered it right; several are a tie, none is nobody."""
    return {"id": task.item.id, "seed": task.seed, "optimal_agents": sorted(task.best_agents)}
