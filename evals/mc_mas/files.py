"""The files that the evaluation of arbitration writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evals.commit import commit
from evals.errors import RecordsUnusable
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import RecordedEvaluation, recorded_evaluation
from evals.harness.scores import by_item
from evals.harness.session import RECORDS, REPORT
from evals.markdown import number
from evals.mc_mas.arms import FULL, REPLAYS, is_control
from evals.mc_mas.failed_requests import failed_requests_section
from evals.mc_mas.figures import Figures, figures, means_by_item
from evals.mc_mas.models import model_run, models_section
from evals.mc_mas.questions import about, made_with, questions, read_recordings
from evals.mc_mas.replays import REPLAY_FULL
from evals.mc_mas.report import Replayed, pictures, sections
from evals.records import Record, read_records
from evals.stats.chance import Chance, seeded
from evals.stats.gains import mean_interval

COMMAND, SEED = "mc-mas", 7
TITLE = "Does arbitration help, and by what?"
UNTOLD = " without those of critiques, which the recordings do not report"
LEFT_OUT = "self-consistency, which these recordings do not hold; measures of meaning, ablations: take --replay"
LEFT_OUT_AGAIN = "self-consistency, and the texts of critiques in redundancy: these recordings do not hold them"


def write_report(
    records: Sequence[Record], folder: Path, chance: Chance | None = None, beside: Sequence[Sequence[Record]] = ()
) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Args:
        records: Raw records of this evaluation.
        folder: Where to.
        chance: For all resampling.
        beside: Records of the same evaluation with other models or precisions, for a table of all.

    Raises:
        RecordsUnusable: When they are no evaluation of arbitration, or hold no samples yet.
    """
    evaluation = recorded_evaluation(records, COMMAND)
    if not questions(evaluation.of(FULL)):
        raise RecordsUnusable("there is nothing to report on yet: no question has samples")
    chance = chance or seeded(SEED)
    found = _figures(evaluation, chance)
    head = [
        opening(TITLE, evaluation),
        settings_table(evaluation),
        failed_requests_section(evaluation, chance),
        _all_models(evaluation, found, beside, chance),
    ]
    return _written(found, (head, _replayed(evaluation, chance)), folder)


def _figures(evaluation: RecordedEvaluation, chance: Chance) -> Figures:
    control = [row for row in evaluation.rows if is_control(row.arm)]
    return figures(questions(evaluation.of(FULL)), control, chance)


def _all_models(
    evaluation: RecordedEvaluation, found: Figures, beside: Sequence[Sequence[Record]], chance: Chance
) -> str:
    """Table 1 over these records and those of other models; empty without any."""
    if not beside:
        return ""
    others = [recorded_evaluation(records, COMMAND) for records in beside]
    runs = [model_run(evaluation, found), *(model_run(other, _figures(other, chance)) for other in others)]
    return models_section(runs)


def report_recordings(file: Path, folder: Path, chance: Chance | None = None) -> str:
    """Write the report on recordings that were made elsewhere, with their replays where `folder` holds these.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    chance, again = chance or seeded(SEED), _again(folder)
    recorded_questions = read_recordings(file, _measures(again))
    sampled = sum(len(question.solved) + question.critiques + len(question.arbiter) for question in recorded_questions)
    untold = any(question.critique_tokens is None for question in recorded_questions)
    generated = f"{number(sum(question.tokens for question in recorded_questions), 0)} tokens generated"
    made_by = {
        **_made_with(file),
        "questions": f"{len(recorded_questions)} recorded ones",
        "samples": f"{number(sampled, 0)}, {generated}{UNTOLD if untold else ''}",
        "commit of this report": commit(),
        "left out": LEFT_OUT if again is None else LEFT_OUT_AGAIN,
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in made_by.items())
    typed = f"metacog eval mc-mas --recordings {file.name}{' --replay' if again else ''}"
    head = [f"### {TITLE}\n\n`{typed}`\n\n{lines}"]
    folder.mkdir(parents=True, exist_ok=True)
    replayed = Replayed(novelty={}) if again is None else _replayed(again, chance)
    return _written(figures(recorded_questions, [], chance), (head, replayed), folder)


def _again(folder: Path) -> RecordedEvaluation | None:
    """The replays that `folder` holds; None without any."""
    file = folder / RECORDS
    return recorded_evaluation(read_records(file), COMMAND) if file.exists() else None


def _measures(again: RecordedEvaluation | None) -> Mapping[str, Mapping[str, Any]]:
    """The arbiter's measures by question."""
    return {row.item.id: row.reply["arbitration"]["measures"] for row in again.of(REPLAY_FULL)} if again else {}


def _made_with(file: Path) -> Mapping[str, str]:
    made_by = made_with(file)
    if not made_by:
        return {"model, prompts, seed": f"not reported: there is no {about(file).name}"}
    return {
        "model": made_by["model"],
        "commit": made_by["commit"],
        "prompts": ", ".join(f"`{name}` {digest[:12]}" for name, digest in made_by["prompt_digests"].items()),
        "recorded": f"{made_by['time']}, seed {made_by['seed']}, {made_by['configuration']}",
    }


def _written(found: Figures, described: tuple[Sequence[str], Replayed], folder: Path) -> str:
    text = "\n\n".join(part for part in (*described[0], *sections(found, described[1])) if part) + "\n"
    (folder / REPORT).write_text(text, encoding="utf-8")
    for name, drawn in pictures(found).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    return text


def _replayed(evaluation: RecordedEvaluation, chance: Chance) -> Replayed:
    """Return what the replays in the records show."""
    novelty = {}
    for name in REPLAYS:
        rows = evaluation.of(name)
        levels = means_by_item([(row.item.id, row.reply["arbitration"]["measures"].get("novelty")) for row in rows])
        if levels:
            novelty[name] = mean_interval(list(levels.values()), chance)
    adaptive = evaluation.of("replay-adaptive")
    if not adaptive:
        return Replayed(novelty=novelty)
    return Replayed(
        novelty=novelty,
        adaptive=mean_interval(list(by_item(adaptive).values()), chance),
        generations=float(np.mean([row.said.spent.generations for row in adaptive])),
        same_answer=float(np.mean([row.reply["same_answer"] is True for row in adaptive])),
    )
