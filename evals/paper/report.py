"""The page over all tables of a paper: which evaluation made which, by which model, and what it took. Pure."""

from collections.abc import Mapping, Sequence

from evals.harness.failures import error_of, replies_in_force
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
    """The records of one evaluation, made with one model.

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
    answered = [each for each in made if _is_answered(each)]
    rows = [_row(each) for each in answered]
    head = ["model", "evaluation", "items", "power", "requests", "failed", "generations", "generated", "records"]
    sections = [
        f"# The tables of {title}",
        "Each report has its tables beside the paper's, with power, cost and conclusions; `published` has the records "
        "without texts, of which `make evaluation-pages` makes pages below docs/evaluation/papers.",
        table(head, rows),
        _left_out([each for each in made if each not in answered]),
        _all_models(answered, chance or seeded(SEED)),
        f"## Estimate of the last start\n\n{estimate}",
        "## Commands\n\n" + "\n".join(f"- `{each.typed}`" for each in made if each.typed),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def published_name(part: str, folder: str) -> str:
    """Return the file of the published records of an evaluation."""
    return f"{part}_{folder}.jsonl.gz"


def _row(made: Made) -> Sequence[str]:
    replies = _in_force(made)
    items = len({record["item"] for record in replies})
    return [
        made.folder,
        f"[{made.part}]({made.folder}/{made.part}/report.md)",
        str(items),
        power(items) if items else "none",
        number(len(replies), 0),
        number(sum(error_of(record) is not None for record in replies), 0),
        *(number(spent([made])[name], 0) for name in SPENT),
        f"[{published_name(made.part, made.folder)}](published/{published_name(made.part, made.folder)})",
    ]


def _in_force(made: Made) -> Sequence[Record]:
    """Return the reply to each request that counts; the router's evaluation names an assessor, and has one seed."""
    replies = [record for record in made.records if record["kind"] == "reply"]
    keyed = [{**each, "arm": each.get("arm") or each["asked"], "seed": each.get("seed", 0)} for each in replies]
    return list(replies_in_force(keyed).values())


def _is_answered(made: Made) -> bool:
    """Return whether an evaluation has something to report on: in MC-MAS an arbitration, else any reply."""
    arms = (record.get("arm") for record in made.records if record["kind"] == "reply" and "reply" in record)
    return any(made.part != mc_mas.COMMAND or arm == FULL for arm in arms)


def _left_out(made: Sequence[Made]) -> str:
    """Return which evaluations are not in the tables, since they were begun and no request has a reply yet."""
    names = ", ".join(f"`{each.folder}/{each.part}`" for each in made)
    return f"Left out, since they have no answer yet: {names}." if names else ""


def _all_models(made: Sequence[Made], chance: Chance) -> str:
    """Return Table 1 of MC-MAS over all models; empty for other papers."""
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
