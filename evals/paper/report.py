"""The page over all tables of a paper: which evaluation made which, by which model, and what it took. Pure."""

from collections.abc import Mapping, Sequence

from evals.harness.rows import RecordedEvaluation, recorded_evaluation
from evals.markdown import number, power, table
from evals.mc_mas import files as mc_mas
from evals.mc_mas.arms import FULL, is_control
from evals.mc_mas.figures import figures
from evals.mc_mas.models import ModelRun, model_run, models_section
from evals.mc_mas.questions import questions
from evals.records import Record
from evals.stats.chance import Chance, seeded
from kernel.values import value

SEED = 7
SPENT = ("generations", "completion_tokens")


@value
class Made:
    """One evaluation of one model.

    Attributes:
        folder: Folder of the model.
        part: Name of the evaluation.
        records: Its records.
        typed: The command that made it.
    """

    folder: str
    part: str
    records: Sequence[Record]
    typed: str


def paper_report(title: str, estimate: str, made: Sequence[Made], chance: Chance | None = None) -> str:
    """Return the page over all evaluations of a paper, and over all models that it was made with.

    Args:
        title: What the paper is called.
        estimate: The estimate of the run that has just ended.
        made: All evaluations, those of other models too.
        chance: For all resampling.
    """
    rows = [_row(each) for each in made]
    head = ["model", "evaluation", "items", "power", "requests", "failed", "generations", "generated", "records"]
    sections = [
        f"# The tables of {title}",
        "Each report has its tables beside the paper's, with power, cost and conclusions; `published` has the records "
        "without texts, of which `make evaluation-pages` makes pages below docs/evaluation/papers.",
        table(head, rows),
        _all_models(made, chance or seeded(SEED)),
        f"## Estimate of the last start\n\n{estimate}",
        "## Commands\n\n" + "\n".join(f"- `{each.typed}`" for each in made if each.typed),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def published_name(part: str, folder: str) -> str:
    """Return the file of the published records of an evaluation."""
    return f"{part}_{folder}.jsonl.gz"


def _row(made: Made) -> Sequence[str]:
    replies = [record for record in made.records if record["kind"] == "reply"]
    items = len({record["item"] for record in replies})
    return [
        made.folder,
        f"[{made.part}]({made.folder}/{made.part}/report.md)",
        str(items),
        power(items) if items else "none",
        number(len(replies), 0),
        number(sum("reply" not in record for record in replies), 0),
        *(number(spent([made])[name], 0) for name in SPENT),
        f"[{published_name(made.part, made.folder)}](published/{published_name(made.part, made.folder)})",
    ]


def _all_models(made: Sequence[Made], chance: Chance) -> str:
    """Table 1 of MC-MAS over all models; empty for other papers."""
    found = [recorded_evaluation(each.records, mc_mas.COMMAND) for each in made if each.part == mc_mas.COMMAND]
    return models_section([_run(each, chance) for each in found]) if found else ""


def _run(evaluation: RecordedEvaluation, chance: Chance) -> ModelRun:
    control = [row for row in evaluation.rows if is_control(row.arm)]
    return model_run(evaluation, figures(questions(evaluation.of(FULL)), control, chance))


def recorded_share(records: Sequence[Record], requests: float) -> float:
    """Return which share of its requests an evaluation has recorded [0..1].

    Args:
        records: Its records so far.
        requests: Requests in all [count].

    Example:
        >>> recorded_share([{"kind": "run"}, {"kind": "reply", "reply": {}}, {"kind": "reply", "error": {}}], 4)
        0.25
    """
    answered = sum("reply" in record for record in records if record["kind"] == "reply")
    return min(1.0, answered / requests) if requests else 0.0


def spent(made: Sequence[Made]) -> Mapping[str, int]:
    """Return what the recorded requests spent: generations and generated tokens [count]."""
    usages = [_usage(record) for each in made for record in each.records if "reply" in record]
    return {name: sum(int(usage.get(name) or 0) for usage in usages) for name in SPENT}


def _usage(record: Record) -> Mapping[str, int]:
    reply = record["reply"]
    found: Mapping[str, int] = (reply.get("metacog") or reply).get("usage") or {}
    return found
