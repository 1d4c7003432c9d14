"""The files of a replay: figures.json, report.md and its pictures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from evals.commit import made_by
from evals.markdown import gain, number, ranged, table
from evals.plots.charts import Bar, curve, grouped_bars
from evals.replay.calibration import CalibrationRow
from evals.replay.figures import ReplayFigures, figures_document
from evals.replay.gain_sections import gain_section
from evals.replay.pack import RecordedSet
from evals.replay.panel_sections import (
    cascade_labels_section,
    cascade_section,
    learned_profile_section,
    panel_section,
)
from evals.replay.promises import PromiseRow
from evals.replay.second_opinions import SecondOpinionRow
from evals.replay.stopping import COST_RATIOS, REASONED, DraftVoteRow, StoppingRow
from evals.stats.detectable import least_gain

FIGURES, REPORT = "figures.json", "report.md"
STOPPING, OPINIONS, CALIBRATION = "stopping.svg", "second-opinions.svg", "calibration.svg"

# Rules that the picture shows.
PICTURED = ("fixed_1", "fixed_3", "agree_2", "arbiter")

READING = (
    "No model was called: the rules of the product chose among recorded answers. The smallest gain is what so many"
    " paired questions can show where one in six differs [points]. Whether an answer is right is as the"
    " pack states. Intervals are 95 %, by bootstrap over questions. Rules without fitted parameters are reported on all"
    " questions; what is fitted is fitted on one half of the questions, by the hash of their wording, and reported on"
    " the other."
)


def write_replay(pack: Sequence[RecordedSet], found: ReplayFigures, folder: Path, typed: str) -> str:
    """Write the files of a replay into `folder`; return the report.

    Args:
        pack: The files that were read.
        found: Their figures.
        folder: The folder; it is made where it does not exist.
        typed: The command that makes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = report_files(pack, found, made_by(typed))
    document = json.dumps(figures_document(found), indent=1) + "\n"
    for name, content in {FIGURES: document, **files}.items():
        (folder / name).write_text(content, encoding="utf-8")
    return files[REPORT]


def report_files(pack: Sequence[RecordedSet], found: ReplayFigures, made: str) -> Mapping[str, str]:
    """Return the report and its pictures, by the name of their file.

    Args:
        pack: The files that were read.
        found: Their figures.
        made: By what the report is made, as its head states it.
    """
    text = "\n\n".join(part for part in (_head(pack, made), *_sections(found)) if part) + "\n"
    return {REPORT: text, **_pictures(found)}


def _head(pack: Sequence[RecordedSet], made: str) -> str:
    rows = [
        [
            one.name,
            number(len(one), 0),
            number(100 * least_gain(len(one)), 1),
            str(len(one.agents)),
            str(max(agent.samples for agent in one.agents.values())),
        ]
        for one in pack
    ]
    sets = table(["set", "questions", "smallest gain", "agents", "answers per agent, at most"], rows)
    return f"# Which decisions help? Recorded answers\n\nMade by {made}.\n\n{READING}\n\n{sets}"


def _sections(found: ReplayFigures) -> Sequence[str]:
    return [
        _stopping(found.stopping),
        _drafts(found.draft_vote),
        _opinions(found.second_opinion),
        _calibration(found.calibration),
        panel_section(found.panel),
        learned_profile_section(found.learned_profiles),
        cascade_section(found.cascade),
        cascade_labels_section(found.cascade_labels),
        promise_section(found.promise),
        gain_section(found),
    ]


def _stopping(rows: Sequence[StoppingRow]) -> str:
    if not rows:
        return ""
    shown = [row for row in rows if row.agent.endswith(REASONED)] or rows
    cells = [
        [
            row.set,
            row.agent,
            row.rule,
            number(row.mean_generations),
            _estimate(row),
            gain(row.gain_over_fixed),
            gain(row.loss_against_all),
        ]
        for row in shown
        if not row.rule.startswith("fixed")
    ]
    head = ["set", "agent", "rule", "samples", "share right", "gain over fixed", "loss against all"]
    agreeing = [row for row in rows if row.rule == "agree_2"]
    above = sum((row.gain_over_fixed.low or 0.0) > 0 for row in agreeing)
    mean = float(np.mean([row.gain_over_fixed.value or 0.0 for row in agreeing]))
    return (
        "## When to stop\n\n"
        "`agree_2` asks until two answers agree, at most five times; `arbiter` is adaptive arbitration. The gain is"
        " over a fixed number of samples with as many in the mean; the loss is against all recorded samples.\n\n"
        f"![Share right by rule]({STOPPING})\n\n{table(head, cells)}\n\n"
        f"`agree_2` over all {len(agreeing)} agents: gain {number(mean, 3)} in the mean, its interval above 0 for"
        f" {above} of them."
    )


def _estimate(row: StoppingRow) -> str:
    return ranged(row.accuracy.value, row.accuracy.low, row.accuracy.high, 3)


def _drafts(rows: Sequence[DraftVoteRow]) -> str:
    if not rows:
        return ""
    head = ["set", "model", "share of the accuracy", *(f"share of the cost, at {ratio}" for ratio in COST_RATIOS)]
    cells = [
        [row.set, row.model, gain(row.accuracy_share), *(number(row.cost_shares[ratio]) for ratio in COST_RATIOS)]
        for row in rows
    ]
    return (
        "## The direct answer as the first vote\n\nBoth ask until two agree. The cost counts direct answers; an answer"
        f" with its reasoning is taken as {', '.join(map(str, COST_RATIOS))} of them, since no tokens are recorded.\n\n"
        + table(head, cells)
    )


def _opinions(rows: Sequence[SecondOpinionRow]) -> str:
    if not rows:
        return ""
    by_set: dict[tuple[str, int], list[SecondOpinionRow]] = {}
    for row in rows:
        by_set.setdefault((row.set, row.opinions), []).append(row)
    cells = [
        [
            name,
            str(opinions),
            str(len(each)),
            number(_mean([row.auroc.value for row in each]), 3),
            " to ".join(number(end(row.auroc.value or 0.0 for row in each), 3) for end in (min, max)),
            number(_mean([row.length_auroc for row in each]), 3),
            number(_mean([row.shuffled_auroc for row in each]), 3),
        ]
        for (name, opinions), each in sorted(by_set.items())
    ]
    head = ["set", "opinions", "System 1 models", "AUROC, mean", "range", "length of the question", "shuffled"]
    return (
        "## Second opinions\n\nHow well the share of other models with another answer shows that the first answer is"
        " wrong. System 1 is each model that is 20 to 80 % right; the others are the models nearest to it in share"
        " right.\n\n"
        f"![AUROC by opinions]({OPINIONS})\n\n{table(head, cells)}"
    )


def _calibration(rows: Sequence[CalibrationRow]) -> str:
    if not rows:
        return ""
    head = ["set", "votes", "method", "labels", "ECE", "by chance", "Brier", "models"]
    cells = [
        [
            row.set,
            row.votes,
            row.method,
            str(row.labels),
            number(row.ece, 3),
            number(row.floor, 3),
            number(row.brier, 3),
            str(row.models),
        ]
        for row in rows
    ]
    return (
        "## Is the probability calibrated?\n\nFive models vote. `raw` is the share of votes for the winner, `prior` was"
        " fitted on other models, `product` is the prior drawn towards labels. `by chance` is the ECE that perfect"
        " calibration would show.\n\n"
        f"![ECE by labels]({CALIBRATION})\n\n{table(head, cells)}"
    )


def promise_section(rows: Sequence[PromiseRow]) -> str:
    """Return the section on promises; empty without rows."""
    if not rows:
        return ""
    head = [
        "set",
        "System 1",
        "votes",
        "error at most",
        "labels",
        "given",
        "error of these",
        "broken",
        "worst",
        "panels",
    ]
    cells = [
        [
            row.set,
            row.agents,
            row.votes,
            number(row.error_at_most),
            str(row.labels),
            number(row.kept_share, 3),
            number(row.given_error, 3),
            number(row.broken_share, 3),
            number(row.worst_broken_share, 3),
            str(row.panels),
        ]
        for row in rows
    ]
    largest = max(row.worst_broken_share for row in rows)
    return (
        "## What can be promised\n\nFive models vote: System 1 and those nearest to it. Labels are drawn 200 times, and"
        " an answer is given where the labels prove that answers with such an agreement, or a stricter one, are wrong"
        " at most as often as promised. `given` is the share of the other questions' answers that is given; `broken`"
        " the share of draws after which more of these are wrong than promised, in the mean over the panels and for the"
        " worst of them.\n\n"
        f"{table(head, cells)}\n\nFor any panel the promise is broken after at most {number(100 * largest, 1)} % of the"
        " draws."
    )


def _pictures(found: ReplayFigures) -> Mapping[str, str]:
    pictures = {
        STOPPING: _stopping_picture(found.stopping),
        OPINIONS: _opinion_picture(found.second_opinion),
        CALIBRATION: _calibration_picture(found.calibration),
    }
    return {name: picture for name, picture in pictures.items() if picture}


def _stopping_picture(rows: Sequence[StoppingRow]) -> str:
    groups: dict[str, dict[str, Bar]] = {}
    for row in rows:
        if row.agent.endswith(REASONED) and row.rule in PICTURED:
            bar = Bar(level=row.accuracy.value, low=row.accuracy.low, high=row.accuracy.high)
            groups.setdefault(row.agent.removesuffix(REASONED), {})[row.rule] = bar
    return grouped_bars(groups) if groups else ""


def _opinion_picture(rows: Sequence[SecondOpinionRow]) -> str:
    lines: dict[str, dict[float, list[float | None]]] = {}
    for row in rows:
        lines.setdefault(row.set, {}).setdefault(float(row.opinions), []).append(row.auroc.value)
    series = {
        name: [(at, Bar(level=_mean(levels))) for at, levels in sorted(points.items())]
        for name, points in lines.items()
    }
    return curve(series, "opinions of other models", up="AUROC") if series else ""


def _calibration_picture(rows: Sequence[CalibrationRow]) -> str:
    lines: dict[str, list[tuple[float, Bar]]] = {}
    for row in rows:
        if row.method != "raw":
            at = round(float(np.log10(max(row.labels, 10))), 2)
            lines.setdefault(f"{row.set}, {row.votes}", []).append((at, Bar(level=row.ece)))
    return curve(lines, "labels, as powers of ten; the prior alone at 1", up="ECE") if lines else ""


def _mean(levels: Sequence[float | None]) -> float | None:
    known = [level for level in levels if level is not None]
    return float(np.mean(known)) if known else None
