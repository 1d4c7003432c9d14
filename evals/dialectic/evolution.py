"""These figures show how the state moves from stage to stage, and whether the texts get more right. Pure.

Source: MSV, evolution (papers.md 1.5): what the paper claims, and what is measured here, is that conflict falls and
correctness rises.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from evals.harness.rows import Row
from evals.records import Record
from evals.stats.chance import Chance
from evals.stats.gains import mean_interval, paired_gain
from evals.stats.separation import area, flags
from kernel.activation import TERMS
from kernel.msv import COMPONENTS as MSV_COMPONENTS
from kernel.roles import CHAIN
from kernel.statistics.bootstrap import Estimate, bootstrap_interval
from kernel.values import value

Array = npt.NDArray[np.intp]
State = Mapping[str, Mapping[str, float | None]]

STAGES = tuple(stage.value for stage in CHAIN)
FIRST, LAST = STAGES[0], STAGES[-1]
# The terms of the activation come first.
COMPONENTS = tuple(dict.fromkeys((*TERMS, *MSV_COMPONENTS)))


@value
class Stage:
    """One stage: mean of each component over the items where it is known, and how many texts were measured."""

    name: str
    means: Mapping[str, Estimate]
    measured: int


@value
class Evolution:
    """The movement of the state over the stages.

    Attributes:
        stages: The four stages, of deliberations whose texts were all judged beside the same number of others.
        unlike: Measured deliberations that are left out there [count].
        moved: By component: last stage less the first, on the deliberations where both are known.
        first_right: Share of first texts that are right.
        last_right: Share of final texts that are right.
        better: Final less first, paired.
        knows: How well correctness of the final text, as its assessor rates it, separates wrong answers from right
            ones: the area.
        models: Agents that held each role [count], by role and agent.
    """

    stages: Sequence[Stage]
    unlike: int
    moved: Mapping[str, Estimate]
    first_right: Estimate
    last_right: Estimate
    better: Estimate
    knows: Estimate
    models: Mapping[tuple[str, str], int]


def evolution(rows: Sequence[Row], chance: Chance) -> Evolution:
    """Return how the state moves in recorded deliberations."""
    measured = [row for row in rows if row.reply["measurements"]]
    alike = [row for row in measured if is_judged_alike(row.reply["measurements"])]
    states = [{each["stage"]: each["msv"] or {} for each in row.reply["measurements"]} for row in alike]
    texts = [{each["stage"]: each["text"] for each in row.reply["stages"]} for row in rows]
    both = [(row, text) for row, text in zip(rows, texts, strict=True) if FIRST in text and LAST in text]
    first = _means([(row.item.id, float(row.judged_text(text[FIRST], "").right)) for row, text in both])
    last = _means([(row.item.id, float(row.judged_text(text[LAST], "answer").right)) for row, text in both])
    return Evolution(
        stages=[_stage(name, alike, states, chance) for name in STAGES],
        unlike=len(measured) - len(alike),
        moved={name: _moved(name, alike, states, chance) for name in COMPONENTS},
        first_right=mean_interval(first, chance),
        last_right=mean_interval(last, chance),
        better=paired_gain(first, last, chance),
        knows=_knows(rows, chance),
        models=_roles(rows),
    )


def is_judged_alike(measurements: Sequence[Record]) -> bool:
    """Return whether the texts of every stage were judged, each beside all the others.

    What was judged beside fewer texts has less to contradict, so that its conflict cannot be compared.

    Source: ours (papers.md 1.5).

    Example:
        >>> others = {"THESIS": [], "ANTITHESIS": ["THESIS"]}
        >>> is_judged_alike([{"stage": stage, "beside": beside} for stage, beside in others.items()])
        False
    """
    return {each["stage"] for each in measurements} == set(STAGES) and all(
        {each["stage"], *each.get("beside", ())} == set(STAGES) for each in measurements
    )


def _stage(name: str, rows: Sequence[Row], states: Sequence[State], chance: Chance) -> Stage:
    found = [(row.item.id, state[name]) for row, state in zip(rows, states, strict=True) if name in state]
    levels = {
        each: _means([(item, level) for item, state in found if (level := state.get(each)) is not None])
        for each in COMPONENTS
    }
    means = {each: mean_interval(some, chance) for each, some in levels.items()}
    return Stage(name=name, means=means, measured=len(found))


def _knows(rows: Sequence[Row], chance: Chance) -> Estimate:
    """The area over all final texts; what is resampled are items, each with all of its seeds."""
    sure = [(row.item.id, 1 - level, not row.right) for row in rows if (level := row.said.confidence) is not None]
    doubts = np.array([doubt for _, doubt, _ in sure], dtype=np.float64)
    wrong = flags([each for _, _, each in sure])
    places: dict[str, list[int]] = {}
    for place, (item, _, _) in enumerate(sure):
        places.setdefault(item, []).append(place)
    of_item = list(places.values())

    def among(picks: Array) -> float | None:
        picked = np.array([place for pick in picks for place in of_item[int(pick)]], dtype=np.intp)
        return area(doubts[picked], wrong[picked])

    return bootstrap_interval(among, np.arange(len(of_item)), rng=chance.rng, resamples=chance.draws)


def _moved(component: str, rows: Sequence[Row], states: Sequence[State], chance: Chance) -> Estimate:
    ends = [
        (row.item.id, before, after)
        for row, state in zip(rows, states, strict=True)
        if (before := state.get(FIRST, {}).get(component)) is not None
        and (after := state.get(LAST, {}).get(component)) is not None
    ]
    first = _means([(item, before) for item, before, _ in ends])
    last = _means([(item, after) for item, _, after in ends])
    return paired_gain(first, last, chance)


def _means(each: Sequence[tuple[str, float]]) -> Sequence[float]:
    """Mean of each item over its seeds."""
    found: dict[str, list[float]] = {}
    for item, level in each:
        found.setdefault(item, []).append(level)
    return [sum(some) / len(some) for some in found.values()]


def _roles(rows: Sequence[Row]) -> Mapping[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        for stage in row.reply["stages"]:
            counts[stage["role"], stage["agent"]] = counts.get((stage["role"], stage["agent"]), 0) + 1
    return counts
