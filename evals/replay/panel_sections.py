"""The sections of a replay's report on panels, on learned profiles and on cascades."""

from collections.abc import Sequence

from evals.markdown import gain, number, ranged, table
from evals.replay.cascade_labels import LIMIT, CascadeLabelsRow
from evals.replay.cascades import LEAST_AHEAD, LEAST_SIZE, MOST_SIZE, STRONG, CascadeRow
from evals.replay.learned_profiles import LearnedProfileRow
from evals.replay.panels import EXAM, LEAST_RIGHT, MEMBERS, PanelRow
from kernel.statistics.bootstrap import Estimate


def panel_section(rows: Sequence[PanelRow]) -> str:
    """Return the section on panels; empty without rows."""
    if not rows:
        return ""
    head = ["set", "agents", "panels", "share right", "against all five", "share of the calls", "against the exam's"]
    cells = [
        [
            row.set,
            row.agents,
            str(row.panels),
            _level(row.accuracy),
            gain(row.difference),
            _level(row.calls_share),
            gain(row.gain_over_exam),
        ]
        for row in rows
    ]
    return (
        "## Panels that stop early\n\n"
        f"{MEMBERS} agents of different families (makers, or models that others are built on), each {LEAST_RIGHT:.0%}"
        " right or more, answer one after another until two agree; no two agree: the vote by weight. Alike: the agent"
        " drawn first is the weakest, and the others are at most 10 points better; unequal: any agents. Panels are"
        f" drawn at random. An exam of {EXAM} questions, drawn for each panel, gives order and weights; the figures are"
        " of the other questions, means over the panels. Compared with the most frequent answer of all five, and with"
        " the one agent that the exam would choose.\n\n" + table(head, cells)
    )


def learned_profile_section(rows: Sequence[LearnedProfileRow]) -> str:
    """Return the section on profiles that are learned on the job; empty without rows."""
    if not rows:
        return ""
    head = ["set", "agents", "tasks", "share right, plain", "gain of drawn profiles", "drawn, against the best agent"]
    cells = [
        [row.set, row.agents, str(row.tasks), _level(row.accuracy), gain(row.gain), gain(row.gain_over_best)]
        for row in rows
    ]
    return (
        "## Profiles learned on the job\n\n"
        "Tasks come in random order; the agent with the highest draw from its profile in the question's category does"
        " each, and learns from it. Drawn profiles are drawn towards the agent's record in its other categories. The"
        f" best agent is the single best of the {MEMBERS} on the same tasks, which is known only afterwards. Means over"
        f" the first tasks of {rows[0].panels} panels, each with its own order.\n\n" + table(head, cells)
    )


def cascade_section(rows: Sequence[CascadeRow]) -> str:
    """Return the section on cascades; empty without rows."""
    if not rows:
        return ""
    head = [
        "set",
        "agree",
        "strong model",
        "its share right",
        "cascades",
        "share right",
        "of the strong model's",
        "worst to best",
        "strong calls",
        "small calls",
        "over random, same votes",
        "over random, one small model",
        "cheaper from",
    ]
    cells = [
        [
            row.set,
            row.rule,
            row.strong,
            number(row.strong_accuracy, 3),
            str(row.cascades),
            _level(row.accuracy),
            _level(row.accuracy_share),
            f"{number(row.least_share, 3)} to {number(row.largest_share, 3)}",
            _level(row.strong_share),
            number(row.small_calls.value),
            gain(row.gain_over_random),
            gain(row.gain_over_random_alone),
            number(row.pays_from, 1),
        ]
        for row in rows
    ]
    small = {row.set: ", ".join(row.small) for row in rows}
    return (
        "## Cascades\n\n"
        "Small models answer one after another, and a strong one only where too few of them agree."
        f" Small are all models whose name states {LEAST_SIZE:.0f} to {MOST_SIZE:.0f} billion parameters and that are"
        f" {LEAST_RIGHT:.0%} right or more; every three, or four, of different families are a cascade, and the"
        f" figures are means over them and over all orders of asking. The strong model is the best of its family, for"
        f" each of the {STRONG} families whose best are right most often, if it is at least"
        f" {100 * LEAST_AHEAD:.0f} points ahead of the best small one. Nothing is fitted,"
        " and all questions are reported. Escalating as many questions at random is the"
        " control: with the same votes, and with one small model alone (the mean of its own). `cheaper from` is the"
        " price of a strong answer, in small ones, from which the cascade costs less than the strong model alone.\n\n"
        + table(head, cells)
        + "\n\nSmall models: "
        + "; ".join(f"{name}: {models}" for name, models in small.items())
        + "."
    )


def cascade_labels_section(rows: Sequence[CascadeLabelsRow]) -> str:
    """Return the section on rules chosen from labels; empty without rows."""
    if not rows:
        return ""
    head = [
        *("set", "strong model", "labels", "short of the best rule", "in one of ten draws more than"),
        *("better on the labels by", "escalated", "in one of ten draws more than"),
    ]
    cells = [
        [
            row.set,
            row.strong,
            str(row.labels),
            number(row.shortfall, 3),
            number(row.largest_shortfall, 3),
            number(row.optimism, 3),
            number(row.escalated, 3),
            number(row.most_escalated, 3),
        ]
        for row in rows
    ]
    return (
        "## The rule of a cascade, chosen from labels\n\n"
        f"Labels are drawn at random; of all rules that escalate at most {LIMIT.share:.0%} of the labelled questions"
        " the one that is right most often is taken. All choices of small models (the first cascade by name) and all"
        " numbers that must agree are compared, with and without the best strong model. The figures are of the"
        " questions not drawn; the best rule is the one that all questions would choose.\n\n" + table(head, cells)
    )


def _level(estimate: Estimate) -> str:
    return ranged(estimate.value, estimate.low, estimate.high, 3)
