"""How the state moves from stage to stage, and whether the texts get more right. Pure.

Source: SPEC 1.5: what the paper claims, and what is measured here, is that conflict falls and correctness rises.
"""

from collections.abc import Mapping, Sequence

from evals.harness.rows import Row
from evals.stats.chance import Chance
from evals.stats.gains import mean_interval, paired_gain
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.values import value

STAGES = ("THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS")
FIRST, LAST = STAGES[0], STAGES[-1]
COMPONENTS = ("correctness", "conflict", "importance", "experience", "emotional_response")


@value
class Stage:
    """One stage: mean of each component where it is known, and how many texts were measured."""

    name: str
    means: Mapping[str, Estimate]
    measured: int


@value
class Evolution:
    """How the state moves.

    Attributes:
        stages: The four stages.
        moved: By component: last stage less the first, on the deliberations where both are known.
        first_right: Share of first texts that are right.
        last_right: Share of final texts that are right.
        better: Final less first, paired.
        knows: How well correctness of the final text, as its assessor rates it, tells wrong answers from right ones.
        models: Agents that held each role [count], by role and agent.
    """

    stages: Sequence[Stage]
    moved: Mapping[str, Estimate]
    first_right: Estimate
    last_right: Estimate
    better: Estimate
    knows: Discrimination
    models: Mapping[tuple[str, str], int]


def evolution(rows: Sequence[Row], chance: Chance) -> Evolution:
    """How the state moves in recorded deliberations."""
    states = [{each["stage"]: each["msv"] or {} for each in row.reply["measurements"]} for row in rows]
    texts = [{each["stage"]: each["text"] for each in row.reply["stages"]} for row in rows]
    both = [(row, text) for row, text in zip(rows, texts, strict=True) if FIRST in text and LAST in text]
    first = _means([(row.item.id, float(row.judged_text(text[FIRST], "").right)) for row, text in both])
    last = _means([(row.item.id, float(row.judged_text(text[LAST], "answer").right)) for row, text in both])
    sure = [(level, row.right) for row in rows if (level := row.said.confidence) is not None]
    return Evolution(
        stages=[_stage(name, states, chance) for name in STAGES],
        moved={name: _moved(name, rows, states, chance) for name in COMPONENTS},
        first_right=mean_interval(first, chance),
        last_right=mean_interval(last, chance),
        better=paired_gain(first, last, chance),
        knows=auroc([1 - level for level, _ in sure], [not right for _, right in sure]),
        models=_roles(rows),
    )


def _stage(name: str, states: Sequence[Mapping[str, Mapping[str, float | None]]], chance: Chance) -> Stage:
    found = [state[name] for state in states if name in state]
    levels = {each: [level for state in found if (level := state.get(each)) is not None] for each in COMPONENTS}
    return Stage(
        name=name, means={each: mean_interval(some, chance) for each, some in levels.items()}, measured=len(found)
    )


def _moved(
    component: str, rows: Sequence[Row], states: Sequence[Mapping[str, Mapping[str, float | None]]], chance: Chance
) -> Estimate:
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
