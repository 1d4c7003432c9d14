"""Draws what an exam will take, and what it has shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from cli.exam.arms import ArmKind
from cli.exam.estimate import EstimatedArm, EstimatedTotal
from cli.exam.journal import ExamJournal
from cli.exam.requests import AnswerOutcome, ExamQuestion
from cli.exam.results import ArmGain, ArmResult
from cli.exam.taking import UnsentLabel
from cli.exam.tasks import DrawnTasks
from cli.terminal.output import UNKNOWN, snippet, stderr, stdout, table, text

MOST_SHOWN = 20
SYSTEM_ONE_MISSING = (
    "gains of System 2 need strategy:system1 and another strategy, e.g. --arms strategy:system1,strategy:vote"
)


def show_tasks(exam: str, tasks: DrawnTasks, per_kind: int) -> None:
    """Print the drawn tasks, and the kinds of which there are too few."""
    counts = ", ".join(f"{kind} {count}" for kind, count in tasks.counts.items())
    stderr.print(text(f"{exam}: {len(tasks.items)} tasks ({counts})"), soft_wrap=True)
    for kind, count in tasks.short.items():
        line = f"{kind}: {count} of the {per_kind} tasks asked for; there are no more"
        stderr.print(text(line, "yellow"), soft_wrap=True)


def show_estimate(rows: Sequence[EstimatedArm], whole: EstimatedTotal) -> None:
    """Print what the questions that are left will take."""
    columns = ["arm", "questions", "calls", "tokens read", "tokens generated", "cost", "these figures are"]
    stderr.print(table(columns, [_estimate_cells(row) for row in rows]))
    cost = UNKNOWN if whole.cost is None else f"{whole.cost:.6g}"
    unpriced = f", and unknown for {', '.join(whole.unpriced)}" if whole.unpriced and whole.cost is not None else ""
    known = f"in all: {whole.questions} questions, {whole.calls:g} calls, cost {cost}{unpriced}"
    stderr.print(text(known), soft_wrap=True)
    if whole.unknown:
        stderr.print(text(f"not in these sums: {', '.join(whole.unknown)}"), soft_wrap=True)


def _estimate_cells(row: EstimatedArm) -> list[str]:
    numbers = (row.calls, row.prompt_tokens, row.completion_tokens)
    cost = UNKNOWN if row.cost is None else f"{row.cost:.6g}"
    return [
        row.arm,
        str(row.questions),
        *(UNKNOWN if each is None else f"{each:,g}" for each in numbers),
        cost,
        row.basis,
    ]


def estimate_document(rows: Sequence[EstimatedArm], whole: EstimatedTotal) -> Mapping[str, Any]:
    """Describe an estimate as JSON."""
    return {"arms": [asdict(row) for row in rows], "total": asdict(whole)}


def show_results(rows: Sequence[ArmResult], gained: Sequence[ArmGain]) -> None:
    """Print shares right and gains."""
    stdout.print(_results_table(rows))
    if gained:
        stdout.print()
        stdout.print(_gains_table(gained))
        if any(not row.gain.decides for row in gained):
            stdout.print("* fewer than 20 questions labelled for both: too few to choose a system by")
    elif any(row.arm.startswith(f"{ArmKind.STRATEGY}:") for row in rows):
        stderr.print(SYSTEM_ONE_MISSING, soft_wrap=True)


def _results_table(rows: Sequence[ArmResult]) -> Table:
    columns = ["arm", "kind", "asked", "right", "share right (95 %)", "abstained", "failed", "undecided"]
    return table(columns, [_result_cells(row) for row in rows])


def _result_cells(row: ArmResult) -> list[str]:
    found = row.right
    interval = (
        f"{found.value:.3f} [{found.interval.low:.3f}, {found.interval.high:.3f}]" if found.value is not None else ""
    )
    counts = (row.abstained, row.failed, row.undecided)
    return [row.arm, row.kind, str(row.asked), f"{found.count} of {found.of}", interval or UNKNOWN, *map(str, counts)]


def _gains_table(rows: Sequence[ArmGain]) -> Table:
    columns = ["System 2", "kind", "for both", "System 1", "System 2", "gain (95 %)", "drawn to overall", ""]
    return table(columns, [_gain_cells(row) for row in rows])


def _gain_cells(row: ArmGain) -> list[str]:
    gain = row.gain
    interval = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
    shown = UNKNOWN if gain.gain is None else f"{gain.gain:+.3f}{interval}"
    return [
        row.arm,
        row.kind,
        f"{gain.labels}{'' if gain.decides else '*'}",
        _share(gain.system_one),
        _share(gain.system_two),
        shown,
        UNKNOWN if gain.shrunk is None else f"{gain.shrunk:+.3f}",
        row.conclusion.value,
    ]


def _share(found: float | None) -> str:
    return UNKNOWN if found is None else f"{found:.3f}"


def label_counts(questions: Sequence[ExamQuestion], journal: ExamJournal) -> Mapping[str, Mapping[str, Any]]:
    """Return the accepted labels by arm: how many, how many teach, and why the others do not."""
    by_arm: dict[str, dict[str, Any]] = {}
    for arm in dict.fromkeys(question.arm for question in questions):
        tokens = [question.token for question in questions if question.arm == arm]
        sent = [journal.sent[token] for token in tokens if token in journal.sent]
        reasons = Counter(label.reason for label in sent if label.reason)
        by_arm[arm.label] = {
            "sent": len(sent),
            "teach": sum(label.teaches for label in sent),
            "not_learned": dict(sorted(reasons.items())),
        }
    return by_arm


def show_labels(counts: Mapping[str, Mapping[str, Any]], unsent: Sequence[UnsentLabel]) -> None:
    """Print how many labels the suite accepted, and those that it did not."""
    for arm, found in counts.items():
        reasons = "".join(
            f"; {count} not: {reason.replace('_', ' ')}" for reason, count in found["not_learned"].items()
        )
        line = f"{arm}: {found['sent']} labels sent, the suite learns from {found['teach']}{reasons}"
        stderr.print(text(line), soft_wrap=True)
    _show_problems("no label sent", [(each.arm, each.item, each.error) for each in unsent])


def failed_answers(questions: Sequence[ExamQuestion], journal: ExamJournal) -> Sequence[tuple[str, str, str]]:
    """Return arm, task and error of each question whose request failed."""
    answers = [journal.answers[question.token] for question in questions if question.token in journal.answers]
    return [(each.arm, each.item, each.error) for each in answers if each.outcome is AnswerOutcome.FAILED]


def show_failed(failed: Sequence[tuple[str, str, str]]) -> None:
    """Print the questions whose request failed."""
    _show_problems("failed", failed)
    if failed:
        stderr.print("the same command asks these again")


def _show_problems(what: str, problems: Sequence[tuple[str, str, str]]) -> None:
    for arm, item, error in problems[:MOST_SHOWN]:
        stderr.print(text(f"{what}: {arm}, {item}: {snippet(error)}", "red"), soft_wrap=True)
    if len(problems) > MOST_SHOWN:
        stderr.print(f"... and {len(problems) - MOST_SHOWN} more; --json lists all", soft_wrap=True)
