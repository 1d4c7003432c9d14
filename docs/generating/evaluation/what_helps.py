"""This module makes the table of what helps in docs/evaluation/decision-quality.md from the figures of the replay."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from evals.markdown import table
from evals.replay.calibration import ALL, CalibrationRow
from evals.replay.figures import ReplayFigures
from evals.replay.second_opinions import SecondOpinionRow
from evals.replay.stopping import REASONED

HEAD = ("decision", "what it buys", "at which cost", "section of the report")
# The small price of a reasoned answer, the assumed one and the large one [direct answers].
PRICES = (6, 12, 24)


def what_helps(found: ReplayFigures) -> str:
    """Return the table.

    Args:
        found: The figures of the pack whose records are in docs/evaluation/replay/records.
    """
    rows = [_stopping(found), _drafts(found), _opinions(found), _calibration(found.calibration)]
    rows += [_kinds(found), _panels(found), _cascades(found), _promises(found)]
    return table(HEAD, rows) + "\n"


def spread(numbers: Iterable[float], digits: int = 1, times: float = 100) -> str:
    """Return the range of some shares, as percentages or points.

    Example:
        >>> spread([0.0231, 0.0318]), spread([0.5])
        ('2.3 to 3.2', '50.0')
    """
    known = list(numbers)
    ends = [f"{times * one:.{digits}f}" for one in (min(known), max(known))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _stopping(found: ReplayFigures) -> Sequence[str]:
    rows = [row for row in found.stopping if row.rule == "agree_2" and row.agent.endswith(REASONED)]
    above = sum((row.gain_over_fixed.low or 0.0) > 0 for row in rows)
    gains = spread(row.gain_over_fixed.value or 0.0 for row in rows)
    return [
        "ask until two agree, five times at most",
        f"{gains} points over a fixed number of reasoned answers of the same mean cost; of {len(rows)} models the"
        f" interval is above 0 for {above}",
        f"{spread((row.mean_generations for row in rows), 1, 1)} answers a question",
        "When to stop",
    ]


def _drafts(found: ReplayFigures) -> Sequence[str]:
    rows = found.draft_vote
    small, assumed, large = (spread((row.cost_shares[price] for row in rows), 0) for price in PRICES)
    return [
        "count the System 1 answer as the first vote",
        f"{spread((row.accuracy_share.value or 0.0 for row in rows), 2, 1)} of the accuracy without it",
        f"{assumed} % of the cost, where a reasoned answer costs {PRICES[1]} direct ones; at {PRICES[0]} {small} %, at"
        f" {PRICES[2]} {large} %",
        "The direct answer as the first vote",
    ]


def _opinions(found: ReplayFigures) -> Sequence[str]:
    def means(opinions: int, of: Callable[[SecondOpinionRow], float | None]) -> str:
        by_set: dict[str, list[float]] = {}
        for row in found.second_opinion:
            if row.opinions == opinions:
                by_set.setdefault(row.set, []).append(of(row) or 0.0)
        return spread((float(np.mean(of_set)) for of_set in by_set.values()), 2, 1)

    one, three = (means(opinions, lambda row: row.auroc.value) for opinions in (1, 3))
    return [
        "compare with another model's answer",
        f"AUROC for 'System 1 is wrong' {one} with one other model, {three} with three (means of sets); the length of"
        f" the question gives {means(1, lambda row: row.length_auroc)}",
        "one answer of each other model",
        "Second opinions",
    ]


def _calibration(rows: Sequence[CalibrationRow]) -> Sequence[str]:
    raw, prior, labelled = (
        next(row for row in rows if (row.set, row.votes, row.method, row.labels) == ("mmlu_pro", ALL, method, labels))
        for method, labels in (("raw", 0), ("prior", 0), ("product", 1000))
    )
    return [
        "turn agreement into a probability",
        f"calibration error on MMLU-Pro {raw.ece:.3f} as a share of votes, {prior.ece:.3f} by the shipped prior,"
        f" {labelled.ece:.3f} with 1,000 labels, where chance alone shows {labelled.floor:.3f}",
        "labels",
        "Is the probability calibrated?",
    ]


def _kinds(found: ReplayFigures) -> Sequence[str]:
    row = next(row for row in found.gain_by_kind if row.labels == 50)
    return [
        "System 2 only on kinds of question where labels say that it pays",
        f"{spread([row.accuracy_share.value or 0.0])} % of the accuracy of always System 2, with {row.labels} labels of"
        f" each of {row.kinds} tasks",
        f"{spread([row.token_share.value or 0.0], 0)} % of its tokens; an exam of both systems",
        "Does System 2 pay, by kind of question?",
    ]


def _panels(found: ReplayFigures) -> Sequence[str]:
    rows = [row for row in found.panel if row.agents == "alike"]
    return [
        "stop a panel of five different models, alike in strength, when two agree",
        f"{spread(row.difference.value or 0.0 for row in rows)} points against all five",
        f"{spread((row.calls_share.value or 0.0 for row in rows), 0)} % of the calls",
        "Panels that stop early",
    ]


def _cascades(found: ReplayFigures) -> Sequence[str]:
    two, three = (
        next(
            row
            for row in found.cascade
            if row.set == "zeroeval_gsm" and row.rule == rule and row.strong.startswith("gpt-4o-2024-08")
        )
        for rule in ("2 of 3", "3 of 4")
    )
    shares = [spread([row.accuracy_share.value or 0.0]) for row in (two, three)]
    return [
        "small models first, a strong one where they divide",
        f"{shares[0]} % of GPT-4o's share right on GSM8K where two of three must agree, {shares[1]} % where three of"
        " four must",
        f"{spread([two.strong_share.value or 0.0])} and {spread([three.strong_share.value or 0.0])} % of its calls",
        "Cascades",
    ]


def _promises(found: ReplayFigures) -> Sequence[str]:
    worst = max(row.worst_broken_share for row in found.promise)
    given = next(
        row
        for row in found.promise
        if (row.set, row.votes, row.labels, row.error_at_most) == ("zeroeval_gsm", ALL, 400, 0.05)
        and row.agents.startswith("above")
    )
    return [
        "promise an error of at most 5, 10 or 20 %",
        f"broken after at most {spread([worst])} % of the draws of labels of any panel; GSM8K, System 1 above 80 %"
        f" right: with 400 labels {spread([given.kept_share], 0)} % of the answers are given at 5 %",
        "labels drawn at random; other answers are withheld",
        "What can be promised",
    ]
