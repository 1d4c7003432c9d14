"""The files that the long-horizon evaluation writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evals.errors import RecordsUnusable
from evals.harness.arm_figures import bar
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import RecordedEvaluation, recorded_evaluation
from evals.harness.session import REPORT
from evals.horizon.arms import AT_ONCE, SAME, SYSTEM_ONE, step_of
from evals.horizon.figures import Case, Episode, StrategyFigures, episodes, figures
from evals.markdown import UNKNOWN, estimate, gain, number, power, share, table
from evals.plots.charts import Bar, curve
from evals.records import Record
from evals.stats.chance import Chance, seeded
from evals.stats.gains import conclusion

COMMAND, SEED, CURVE = "horizon", 7, "horizon.svg"
TITLE = "Does deliberation at each step keep long tasks right?"
READING = (
    "A lock is changed step by step. `at-once` asks for the end state in one request; the other ways ask once for each "
    "step, with what the step before has left: `system1` without deliberation. An answer that cannot be read leaves "
    "the lock as it was. Intervals are 95 %, by bootstrap over tasks, paired where two ways are compared; **a gain "
    "whose interval holds zero is reported as no gain**, and the exact sign test must agree. A task with a failed "
    "step is left out of that way, and counted."
)


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are of another evaluation, or hold no task to its end yet.
    """
    evaluation = recorded_evaluation(records, COMMAND)
    found = episodes(evaluation, records)
    strategy = _compared(evaluation)
    if not strategy or not any(found.values()):
        raise RecordsUnusable("there is nothing to report on yet: no task was done to its end")
    by_length = figures(found, strategy, chance or seeded(SEED))
    parts = [
        opening(TITLE, evaluation, reading=READING, **{"tasks left out": _left_out(evaluation, found)}),
        settings_table(_first_steps(evaluation)),
        _ends(by_length),
        _gains(by_length, strategy),
        f"![{CURVE}]({CURVE})",
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    (folder / REPORT).write_text(text, encoding="utf-8")
    (folder / CURVE).write_text(_curve(by_length), encoding="utf-8")
    return text


def _compared(evaluation: RecordedEvaluation) -> str:
    """Return the strategy that deliberates."""
    names = dict.fromkeys(step_of(arm)[0] for run in evaluation.runs for arm in run["arms"])
    return next((name for name in names if name not in (AT_ONCE, SYSTEM_ONE, SAME)), "")


def _first_steps(evaluation: RecordedEvaluation) -> RecordedEvaluation:
    """Return the evaluation with one arm for each strategy, for the table of settings."""
    runs = [
        {**run, "arms": {step_of(arm)[0]: made for arm, made in run["arms"].items() if step_of(arm)[1] < 2}}
        for run in evaluation.runs
    ]
    return RecordedEvaluation(runs=runs, rows=evaluation.rows, failures=evaluation.failures, failed=evaluation.failed)


def _left_out(evaluation: RecordedEvaluation, found: Mapping[str, Mapping[Case, Episode]]) -> str:
    """Return how many tasks each strategy has begun and not ended."""
    begun: dict[str, set[Case]] = {}
    for row in (*evaluation.rows, *evaluation.failed):
        begun.setdefault(step_of(row.arm)[0], set()).add((row.item.id, row.seed))
    lost = {name: len(cases - found.get(name, {}).keys()) for name, cases in begun.items()}
    return ", ".join(f"{name} {count}" for name, count in lost.items() if count)


def _ends(by_length: Mapping[int, Sequence[StrategyFigures]]) -> str:
    rows = [
        [
            _length(length),
            way.name,
            str(way.right.items),
            estimate(way.right),
            share(way.steps) if way.steps else UNKNOWN,
            number(way.independent) if length else UNKNOWN,
            number(way.first_error, 1),
            number(way.generations, 1),
            number(way.tokens, 0),
        ]
        for length, ways in by_length.items()
        for way in ways
    ]
    head = ["steps", "way", "tasks", "end states right", "single steps right", "end right if errors were independent"]
    head += ["first error at step", "generations", "generated tokens"]
    return "End states by length:\n\n" + table(head, rows)


def _gains(by_length: Mapping[int, Sequence[StrategyFigures]], strategy: str) -> str:
    rows = [
        [_length(length), other, gain(each), f"**{conclusion(each)}**", power(each.items) if each.items else UNKNOWN]
        for length, ways in by_length.items()
        for way in ways
        for other, each in way.gains.items()
    ]
    note = f"`{strategy}` at each step against the other ways, in end states right"
    return f"{note}:\n\n{table(['steps', 'over', 'gain', 'conclusion', 'power'], rows)}"


def _curve(by_length: Mapping[int, Sequence[StrategyFigures]]) -> str:
    series: dict[str, list[tuple[float, Bar]]] = {}
    for length, ways in by_length.items():
        for way in ways:
            if length and way.right.items:
                series.setdefault(way.name, []).append((float(length), bar(way.right)))
    return curve(series, "steps of a task", "end states right")


def _length(length: int) -> str:
    return str(length) if length else "all"
