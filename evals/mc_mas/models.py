"""Several models and precisions in one table, as Table 1 of MC-MAS has them. Pure."""

from collections.abc import Sequence

from evals.harness.rows import RecordedEvaluation
from evals.hub.titles import title
from evals.markdown import UNKNOWN, gain, number, table
from evals.mc_mas import paper
from evals.mc_mas.arms import FULL as FULL_ARM
from evals.mc_mas.arms import is_control
from evals.mc_mas.figures import FULL, MAJORITY, Compared, Figures, SetFigures
from evals.mc_mas.report import over_seeds
from evals.stats.detectable import least_gain
from evals.stats.gains import conclusion
from kernel.values import value

PRECISION = "precision"


@value
class ModelRun:
    """The figures of one model in one precision.

    Attributes:
        models: Models that took part.
        precision: Precision of their weights, as the run states it; empty where it states none.
        found: The figures.
    """

    models: Sequence[str]
    precision: str
    found: Figures


def model_run(evaluation: RecordedEvaluation, found: Figures) -> ModelRun:
    """The model and precision of a recorded evaluation, with its figures."""
    models = dict.fromkeys(model for row in evaluation.of(FULL_ARM) for model in row.said.models)
    stated = (run["arms"].get(FULL_ARM, {}).get(PRECISION) for run in evaluation.runs)
    return ModelRun(models=list(models), precision=next(filter(None, stated), ""), found=found)


def models_section(runs: Sequence[ModelRun]) -> str:
    """Return Table 1 over all runs: model, precision and data set, beside what the paper prints."""
    rows = [_row(run, each) for run in runs for each in run.found.sets]
    head = ["model", PRECISION, "data set (questions)", "best solver %", "MC-MAS %", "over the best solver"]
    head += ["conclusion"]
    head += ["over the majority vote", "over self-consistency", "smallest gain it could show"]
    printed = [list(row) for row in paper.TABLE_1]
    theirs = table(["model", PRECISION, "data set", "best solver %", "MC-MAS %"], printed)
    note = (
        "**Table 1, all models.** Shares right in percent over seeds (seeds), gains of MC-MAS in share right with "
        "their intervals; the last column is in points, where one question of six differs. No server reports the "
        "precision of its weights: it is as stated when the run began."
    )
    return f"{note}\n\n{table(head, rows)}\n\nThe paper's (200 questions, 3 seeds):\n\n{theirs}"


def _row(run: ModelRun, found: SetFigures) -> Sequence[str]:
    ways = {way.name: way for way in found.ways}
    best = found.ways[1]
    controls = [way for way in found.ways if is_control(way.name)]
    return [
        " + ".join(run.models) or UNKNOWN,
        run.precision or "not stated",
        f"{title(found.name)} ({found.questions})",
        over_seeds(best.by_seed),
        over_seeds(ways[FULL].by_seed),
        _gain(best),
        f"**{conclusion(best.gain)}**" if best.gain else "",
        _gain(ways[MAJORITY]),
        "; ".join(_gain(way) for way in controls) or UNKNOWN,
        number(100 * least_gain(found.items), 1),
    ]


def _gain(way: Compared) -> str:
    return gain(way.gain) if way.gain else UNKNOWN
