"""The figures of a router on recorded outcomes. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from evals.errors import RecordsUnusable
from evals.records import Record
from evals.stats.chance import Chance
from evals.stats.gains import contrast
from evals.stats.recovery import (
    Path,
    ShuffledCosts,
    cost_at_half,
    cost_at_most,
    knowing,
    mean_recovered,
    recovery,
    shuffled_costs,
)
from evals.stats.separation import Flags, Levels, area_gain
from kernel.statistics.bootstrap import Estimate, bootstrap_difference, bootstrap_interval
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.values import value

RANDOM, LENGTH, ORACLE = "random", "prompt length", "oracle"


@value
class RoutedQuestion:
    """One question: how both models did, and the level that each way to decide gives it."""

    dataset: str
    weak_correct: bool
    strong_correct: bool
    levels: Mapping[str, float]


@value
class Scored:
    """One way to decide, on one file of outcomes.

    Attributes:
        name: Who decides.
        weak_wrong: How well the level predicts where the weak model is wrong.
        recovered: Gap recovered in the mean over all shares (APGR).
        at_half: Share of strong calls that recovers half of the gap.
        at_most: The same of four fifths.
        shuffled: What both cost where the same levels are shuffled over the questions.
        over_random: How much more it recovers than random levels do in the mean, which is half.
        over_length: How much larger its area is than that of the prompt's length; None for the length itself.
        path: The gap recovered at growing shares of strong calls; None without a gap.
    """

    name: str
    weak_wrong: Discrimination
    recovered: Estimate
    at_half: Estimate
    at_most: Estimate
    shuffled: ShuffledCosts
    over_random: Estimate
    over_length: Estimate | None
    path: Path | None


@value
class SetScores:
    """One file of outcomes.

    Attributes:
        name: Its name.
        items: Questions [count].
        weak: Share right of the weak model [0..1].
        strong: Share right of the strong model [0..1].
        scored: Ways to decide.
    """

    name: str
    items: int
    weak: float
    strong: float
    scored: Sequence[Scored]


def routed_questions(records: Sequence[Record]) -> Sequence[RoutedQuestion]:
    """The questions that every arm decided on.

    Raises:
        RecordsUnusable: When there is none, or a record lacks what it should have.
    """
    levels: dict[str, dict[str, float]] = {}
    arms = dict.fromkeys(record["arm"] for record in records if record["kind"] == "reply")
    for record in records:
        value_of = ((record.get("reply") or {}).get("activation") or {}).get("value")
        if record["kind"] == "reply" and value_of is not None:
            levels.setdefault(record["item"], {})[record["arm"]] = value_of
    try:
        introduced = [record for record in records if record["kind"] == "item"]
        made = [
            _routed_question(record, levels[record["id"]])
            for record in introduced
            if len(levels.get(record["id"], ())) == len(arms)
        ]
    except KeyError as error:
        raise RecordsUnusable(
            f"the records lack {error}; are they those of `metacog eval routing --outcomes`?"
        ) from error
    if not made:
        raise RecordsUnusable("there is nothing to report on yet: the router has decided on no question")
    return made


def figures(questions: Sequence[RoutedQuestion], chance: Chance) -> Sequence[SetScores]:
    """The figures of each file."""
    sets = dict.fromkeys(one.dataset for one in questions)
    return [_of_set(name, [one for one in questions if one.dataset == name], chance) for name in sets]


def _routed_question(record: Record, levels: Mapping[str, float]) -> RoutedQuestion:
    return RoutedQuestion(
        dataset=record["dataset"],
        weak_correct=record["weak_correct"],
        strong_correct=record["strong_correct"],
        levels={**levels, LENGTH: float(record["prompt_characters"])},
    )


def _of_set(name: str, questions: Sequence[RoutedQuestion], chance: Chance) -> SetScores:
    weak, strong = (
        np.array([getattr(one, which) for one in questions]) for which in ("weak_correct", "strong_correct")
    )
    names = list(questions[0].levels)
    levels: dict[str, Levels] = {
        each: np.array([one.levels[each] for one in questions], dtype=np.float64) for each in names
    }
    levels[RANDOM] = chance.rng.random(len(questions))
    levels[ORACLE] = knowing(list(weak), list(strong))
    return SetScores(
        name=name,
        items=len(questions),
        weak=float(weak.mean()),
        strong=float(strong.mean()),
        scored=[_scored(each, found, levels[LENGTH], (weak, strong), chance) for each, found in levels.items()],
    )


def _scored(name: str, levels: Levels, length: Levels, right: tuple[Flags, Flags], chance: Chance) -> Scored:
    weak, strong = right
    interval = partial(bootstrap_interval, rng=chance.rng, resamples=chance.draws)
    difference = partial(bootstrap_difference, rng=chance.rng, resamples=chance.draws)
    level = np.zeros(len(levels))
    return Scored(
        name=name,
        weak_wrong=auroc(levels, ~weak),
        recovered=interval(mean_recovered, levels, weak, strong),
        at_half=interval(cost_at_half, levels, weak, strong),
        at_most=interval(cost_at_most, levels, weak, strong),
        shuffled=shuffled_costs(levels, weak, strong, chance),
        over_random=contrast(
            difference(mean_recovered, [level, weak, strong], [levels, weak, strong]),
            len(levels),
            int((weak != strong).sum()),
        ),
        over_length=None if name == LENGTH else area_gain(length, levels, ~weak, chance),
        path=recovery(levels, weak, strong),
    )
