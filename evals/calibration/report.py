"""The files of `metacog eval calibration`: figures.json and report.md."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from evals.calibration.figures import CLAIMED, KindCalibration
from evals.commit import commit, made_by
from evals.markdown import number, ranged, table
from kernel.statistics.bootstrap import Estimate

REPORT, FIGURES = "report.md", "figures.json"
HEAD = ("kind", "labels", "ECE before", "ECE after", "by chance", f"≤ {CLAIMED}", "Brier before", "Brier after")
TEXT = """Each answer is served by the recalibration map that the labels of the other four folds give; where that map is
not better than none, by none, as the router does. The error is the mean over the systems that were asked; intervals are
95 %, by bootstrap over questions, the wider end of percentiles and their reflection each. `by chance` is the error that
perfect calibration would show. `≤ 0.087` holds the interval after recalibration against the error that MetaCogAgent
reports."""


def held_claim(found: Estimate) -> str:
    """Return what an interval says about the claimed error.

    Example:
        >>> held_claim(Estimate(value=0.05, low=0.02, high=0.08, items=500, resamples=2000))
        'holds'
    """
    if found.low is None or found.high is None:
        return "too few labels"
    if found.high <= CLAIMED:
        return "holds"
    return "does not hold" if found.low > CLAIMED else "undecided"


def write_calibration(found: Sequence[KindCalibration], folder: Path, typed: str) -> str:
    """Write the files into `folder`; return the report.

    Args:
        found: The figures, those of one source one after another.
        folder: The folder; it is made where it does not exist.
        typed: The command that makes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {"command": typed, "commit": commit(), "rows": [asdict(one) for one in found]}
    (folder / FIGURES).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = report(found, typed)
    (folder / REPORT).write_text(text, encoding="utf-8")
    return text


def report(found: Sequence[KindCalibration], typed: str) -> str:
    """Return the report."""
    parts = ["# Calibration on labels that the map has not seen", f"Made by {made_by(typed)}.", TEXT]
    return "\n\n".join([*parts, tables(found)]) + "\n"


def tables(found: Sequence[KindCalibration]) -> str:
    """Return a table for each source, below its name."""
    parts = [
        f"## {source}\n\n{table(HEAD, [_row(one) for one in found if one.source == source])}"
        for source in dict.fromkeys(one.source for one in found)
    ]
    return "\n\n".join(parts) or "No labelled answer has a confidence."


def _row(one: KindCalibration) -> list[str]:
    return [
        one.kind,
        number(one.labels, 0),
        ranged(one.before.value, one.before.low, one.before.high, 3),
        ranged(one.after.value, one.after.low, one.after.high, 3),
        number(one.chance, 3),
        held_claim(one.after),
        number(one.brier_before, 3),
        number(one.brier_after, 3),
    ]
