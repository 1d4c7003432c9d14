"""The files that scoring on recorded outcomes writes."""

from collections.abc import Sequence
from pathlib import Path

from evals.harness.commands import OUTCOMES
from evals.harness.heading_text import opening
from evals.harness.rows import recorded_evaluation
from evals.harness.session import REPORT
from evals.markdown import area, band, estimate, gain, number, table
from evals.outcomes.figures import ORACLE, RANDOM, Scored, SetScores, figures, routed_questions
from evals.outcomes.plots import recovery_plot
from evals.records import Record
from evals.stats.chance import Chance, seeded
from evals.stats.gains import conclusion

COMMAND, SEED = OUTCOMES, 7
TITLE = "Which questions would the router send to the strong model?"
READING = (
    "AUROC: does the level predict where the weak model is wrong? APGR: share of the gap between the models that is "
    "recovered, in the mean over all shares of strong calls; 0.5 is chance. Cost: least share of strong calls that "
    "recovers half, and four fifths, of the gap, read where that is reached first; `shuffled` is what the same levels "
    "cost shuffled over the questions (mean, and where 95 % of the shuffles fall): a small gap is reached early "
    "by chance too. Intervals are 95 %: DeLong's for areas, bootstrap over questions for the rest. The state is that "
    "of the suite's own model, which is neither of the two: what is asked is whether what is hard for it is hard for "
    "the weak one. `oracle` knows both outcomes and is no router."
)


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write what follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no scoring on outcomes.
    """
    evaluation = recorded_evaluation(records, COMMAND)
    found = figures(routed_questions(records), chance or seeded(SEED))
    head = opening(TITLE, evaluation, reading=READING, outcomes=_models(records))
    text = "\n\n".join([head, *(_set(each) for each in found)]) + "\n"
    (folder / REPORT).write_text(text, encoding="utf-8")
    for each in found:
        (folder / _picture(each)).write_text(recovery_plot(each), encoding="utf-8")
    return text


def picture_names(records: Sequence[Record]) -> Sequence[str]:
    """Return the names of the pictures of a report, one for each set."""
    return [_picture(each) for each in figures(routed_questions(records), seeded(SEED, draws=2))]


def _models(records: Sequence[Record]) -> str:
    pairs = [(one["weak_model"], one["strong_model"]) for one in records if "weak_model" in one]
    return "; ".join(f"{weak} (weak), {strong} (strong)" for weak, strong in dict.fromkeys(pairs))


def _picture(found: SetScores) -> str:
    return f"recovered-{found.name}.svg"


def _set(found: SetScores) -> str:
    rows = [
        [
            each.name,
            area(each.weak_wrong),
            estimate(each.recovered),
            estimate(each.at_half),
            band(each.shuffled.at_half),
            estimate(each.at_most),
            band(each.shuffled.at_most),
            f"{gain(each.over_random)} **{conclusion(each.over_random)}**" if each.name not in (RANDOM, ORACLE) else "",
            _over_length(each),
        ]
        for each in found.scored
    ]
    right = f"weak right {number(100 * found.weak, 1)} %, strong right {number(100 * found.strong, 1)} %"
    head = [
        "decides",
        "AUROC, weak is wrong",
        "APGR",
        "cost at 50 %",
        "shuffled",
        "cost at 80 %",
        "shuffled",
        "APGR over random",
        "AUROC over length",
    ]
    shown = f"![gap recovered, {found.name}]({_picture(found)})"
    return f"**{found.name}**, {found.items} questions, {right}:\n\n{table(head, rows)}\n\n{shown}"


def _over_length(scored: Scored) -> str:
    if scored.over_length is None or scored.name in (RANDOM, ORACLE):
        return ""
    return f"{gain(scored.over_length)} **{conclusion(scored.over_length)}**"
