"""What the evaluation of arbitration leaves in its folder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evals.commit import commit
from evals.errors import RecordsUnusable
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import Recorded, Row, recorded
from evals.harness.scores import by_item
from evals.harness.session import REPORT
from evals.markdown import number
from evals.mc_mas.arms import FULL, REPLAYS, SAME_GENERATIONS
from evals.mc_mas.figures import figures
from evals.mc_mas.questions import Question, questions, read_recordings
from evals.mc_mas.report import Replayed, pictures, sections
from evals.records import Record
from evals.stats.chance import Chance, seeded
from evals.stats.gains import mean_interval

COMMAND, SEED = "mc-mas", 7
TITLE = "Does arbitration help, and by what?"


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no evaluation of arbitration, or hold no samples yet.
    """
    made = recorded(records, COMMAND)
    asked = questions(made.of(FULL))
    if not asked:
        raise RecordsUnusable("there is nothing to report on yet: no question has samples")
    chance = chance or seeded(SEED)
    head = [opening(TITLE, made), settings_table(made)]
    return _written(asked, made.of(SAME_GENERATIONS), (head, _replayed(made, chance)), folder, chance)


def report_recordings(file: Path, folder: Path, chance: Chance | None = None) -> str:
    """Write the report on recordings that were made elsewhere; returns it.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    asked = read_recordings(file)
    sampled = sum(len(question.solved) + question.critiques + len(question.arbiter) for question in asked)
    told = {
        "questions": f"{len(asked)} recorded ones",
        "samples": f"{number(sampled, 0)}, {number(sum(question.tokens for question in asked), 0)} tokens generated",
        "commit of this report": commit(),
        "left out": "measures of meaning and self-consistency, which these recordings do not hold",
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in told.items())
    head = [f"### {TITLE}\n\n`metacog eval mc-mas --recordings {file.name}`\n\n{lines}"]
    folder.mkdir(parents=True, exist_ok=True)
    return _written(asked, [], (head, Replayed(novelty={})), folder, chance or seeded(SEED))


def _written(
    asked: Sequence[Question],
    control: Sequence[Row],
    told: tuple[Sequence[str], Replayed],
    folder: Path,
    chance: Chance,
) -> str:
    found = figures(asked, control, chance)
    said = "\n\n".join(part for part in (*told[0], *sections(found, told[1])) if part) + "\n"
    (folder / REPORT).write_text(said, encoding="utf-8")
    for name, drawn in pictures(found).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    return said


def _replayed(made: Recorded, chance: Chance) -> Replayed:
    """What the replays in the records tell."""
    novelty = {}
    for name in REPLAYS:
        levels = [row.reply["arbitration"]["measures"].get("novelty") for row in made.of(name)]
        known = [level for level in levels if level is not None]
        if known:
            novelty[name] = mean_interval(known, chance)
    adaptive = made.of("replay-adaptive")
    if not adaptive:
        return Replayed(novelty=novelty)
    return Replayed(
        novelty=novelty,
        adaptive=mean_interval(list(by_item(adaptive).values()), chance),
        generations=float(np.mean([row.said.spent.generations for row in adaptive])),
        same_answer=float(np.mean([row.reply["same_answer"] is True for row in adaptive])),
    )
