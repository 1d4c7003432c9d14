"""The files that the evaluation of delegation writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from evals.delegation.arms import AUTOGEN, LIVE, PRODUCT
from evals.delegation.figures import AUTOGEN as AUTOGEN_NAME
from evals.delegation.figures import figures
from evals.delegation.live import live_section
from evals.delegation.report import pictures, sections
from evals.delegation.tasks import Task, left_out, tasks
from evals.errors import RecordsUnusable
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import RecordedEvaluation, recorded_evaluation
from evals.harness.session import REPORT
from evals.records import Record
from evals.stats.chance import Chance, seeded

COMMAND, SEED, OPTIMAL = "delegation", 7, "optimal.jsonl"
TITLE = "Does delegation help, and by what?"


def write_report(
    records: Sequence[Record], folder: Path, chance: Chance | None = None, beside: Sequence[Record] = ()
) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Args:
        records: Raw records of this evaluation.
        folder: Where to.
        chance: For orders and all resampling.
        beside: Records of AutoGen; its replies to tasks that `records` do not hold, or hold with another question or
            right answer under the name, are counted and left out.

    Raises:
        RecordsUnusable: When they are no evaluation of delegation, or no task is whole yet.
    """
    replies = [record for record in beside if record["kind"] == "reply"]
    asked = {record["id"]: record for record in records if record["kind"] == "item"}
    fitting = [record for record in replies if _is_about(record, asked.get(record["item"]))]
    evaluation = recorded_evaluation([*records, *fitting], COMMAND)
    known = tasks(evaluation)
    if not known:
        raise RecordsUnusable("there is nothing to report on yet: no task has every agent's rating and answer")
    others = [*evaluation.of(AUTOGEN), *evaluation.of(PRODUCT)]
    found = figures(known, others, chance or seeded(SEED))
    head = opening(TITLE, evaluation, **_autogen(evaluation, len(replies) - len(fitting)), **_failed(evaluation))
    distinct = len({task.item.id for task in known})
    parts = [head, settings_table(evaluation), *sections(found, distinct), live_section(evaluation.of(LIVE))]
    text = "\n\n".join(part for part in parts if part) + "\n"
    (folder / REPORT).write_text(text, encoding="utf-8")
    for name, drawn in pictures(found).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    (folder / OPTIMAL).write_bytes(b"".join(orjson.dumps(_optimal(task)) + b"\n" for task in known))
    return text


def _failed(evaluation: RecordedEvaluation) -> Mapping[str, str]:
    """Return how many tasks no replay has, because a rating or an answer failed."""
    lost = left_out(evaluation)
    if not lost:
        return {}
    text = f"{len(lost)}, because a rating or an answer failed; no replay has them"
    return {"tasks left out": text}


def _is_about(reply: Record, item: Record | None) -> bool:
    """Return whether `reply` is to the task that was recorded, as far as both report their contents."""
    if item is None:
        return False
    settings_reported = [one["digest"] for one in (reply, item) if "digest" in one]
    return len(set(settings_reported)) < 2


def _autogen(evaluation: RecordedEvaluation, unknown: int) -> Mapping[str, str]:
    """The settings of AutoGen, where it was run, and the number of its replies to other tasks."""
    settings_reported: Mapping[str, Any] = next(
        (row.reply["settings"] for row in evaluation.of(AUTOGEN) if "settings" in row.reply), {}
    )
    settings = ", ".join(f"{name} {setting}" for name, setting in settings_reported.items())
    left_out = f"{unknown} of its replies are left out: their tasks are not recorded here" if unknown else ""
    return {AUTOGEN_NAME: "; ".join(part for part in (settings, left_out) if part)}


def _optimal(task: Task) -> Record:
    """The right agents for a task: those that answered it right; several are a tie, and there may be none."""
    return {"id": task.item.id, "seed": task.seed, "optimal_agents": sorted(task.best_agents)}
