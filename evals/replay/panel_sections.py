"""The sections of a replay's report on panels and on learned profiles."""

from collections.abc import Sequence

from evals.markdown import gain, ranged, table
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


def _level(estimate: Estimate) -> str:
    return ranged(estimate.value, estimate.low, estimate.high, 3)
