"""The figures of the router's evaluation: from rows to numbers with intervals. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from evals.routing.costs import AnswerCosts, Costs, answer_costs, costs
from evals.routing.parts import Ablation, Part, ablations, parts
from evals.routing.rows import Reading, RecordedRouting, Row
from evals.routing.separation import Level, Separation, columns, discrimination, separation
from evals.stats.chance import Chance
from evals.stats.separation import Band, area_gain, flags, random_band, shuffled_band, shuffled_within_band
from evals.stats.shares import Share, share
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination
from kernel.values import value

LENGTH = "prompt length"


@value
class AssessorFigures:
    """Figures of one assessor.

    Attributes:
        name: Its name.
        items: Items that it assessed [count].
        activation: How well activation predicts that System 1 is wrong.
        error: The same of 1 - correctness, the predicted probability of error by itself.
        conflict: The same of conflict alone.
        shuffled: Areas of the real activations, shuffled over the items.
        shuffled_within: The same inside each data set.
        sent: Items sent to System 2 at the threshold in force.
        right_of_system1: System 1's right answers among the items kept.
        right_of_sent: The same among those sent.
        unknown: Items with an unknown component, by component and reason [count].
        parts: How well each part of the state does by itself.
        ablations: What each term adds to the activation.
        costs: What it spent.
    """

    name: str
    items: int
    activation: Separation
    error: Discrimination
    conflict: Discrimination
    shuffled: Band
    shuffled_within: Band
    sent: Share
    right_of_system1: Share
    right_of_sent: Share
    unknown: Mapping[tuple[str, str], int]
    parts: Sequence[Part]
    ablations: Sequence[Ablation]
    costs: Costs


@value
class SetFigures:
    """One data set: wrong and unreadable answers."""

    name: str
    wrong: Share
    unreadable: int


@value
class Difference:
    """The gain in area of one level over another, on the items where both are known."""

    first: str
    second: str
    gain: Estimate


@value
class Figures:
    """The figures that the report shows.

    Attributes:
        sets: The data sets.
        wrong: Wrong System 1 answers.
        unreadable: Answers that could not be read; they count as wrong [count].
        assessors: Figures of each assessor.
        random: Areas of a level drawn by chance.
        length: The prompt's length as the level.
        differences: Of each assessor to the prompt's length, and between assessors.
        answers: What the System 1 answer costs by itself.
        repeated: Drafts that are word for word the answer that was asked for by itself.
    """

    sets: Sequence[SetFigures]
    wrong: Share
    unreadable: int
    assessors: Sequence[AssessorFigures]
    random: Band
    length: Separation
    differences: Sequence[Difference]
    answers: AnswerCosts
    repeated: Share


def figures(evaluation: RecordedRouting, chance: Chance) -> Figures:
    """The figures of a recorded evaluation.

    Args:
        evaluation: What was recorded.
        chance: For all resampling.
    """
    rows = evaluation.rows
    names = list(dict.fromkeys(name for row in rows for name in row.readings))
    levels: dict[str, Level] = {LENGTH: lambda row: float(row.prompt_characters)}
    levels.update({name: level_of(name, lambda reading: reading.activation) for name in names})
    return Figures(
        sets=[_set(name, rows) for name in dict.fromkeys(row.dataset for row in rows)],
        wrong=share(row.wrong for row in rows),
        unreadable=sum(row.label.answer is None for row in rows),
        assessors=[_assessor(name, rows, chance) for name in names],
        random=random_band(flags([row.wrong for row in rows]), chance),
        length=separation(rows, levels[LENGTH], chance),
        differences=[_difference(first, second, levels, rows, chance) for first, second in combinations(levels, 2)],
        answers=answer_costs(rows),
        repeated=share(
            row.single_pass.text == row.drafted for row in rows if row.single_pass is not None and row.drafted
        ),
    )


def level_of(assessor: str, read: Callable[[Reading], float | None]) -> Level:
    """Return what `read` finds in the readings of `assessor`."""

    def level(row: Row) -> float | None:
        reading = row.readings.get(assessor)
        return None if reading is None else read(reading)

    return level


def predicted_error(reading: Reading) -> float | None:
    """1 - correctness [0..1]; None where it is unknown."""
    correctness = reading.components.get("correctness")
    return None if correctness is None else 1 - correctness


def _assessor(name: str, rows: Sequence[Row], chance: Chance) -> AssessorFigures:
    assessed = [row for row in rows if name in row.readings]
    pressure = level_of(name, lambda reading: reading.activation)
    known = columns(assessed, pressure)
    return AssessorFigures(
        name=name,
        items=len(assessed),
        activation=separation(assessed, pressure, chance),
        error=discrimination(assessed, level_of(name, predicted_error)),
        conflict=discrimination(assessed, level_of(name, lambda reading: reading.components.get("conflict"))),
        shuffled=shuffled_band(known.levels, known.wrong, chance),
        shuffled_within=shuffled_within_band(known.levels, known.wrong, known.groups, chance),
        sent=share(row.readings[name].sent for row in assessed),
        right_of_system1=share(row.label.right for row in assessed if not row.readings[name].sent),
        right_of_sent=share(row.label.right for row in assessed if row.readings[name].sent),
        unknown=Counter(unknown for row in assessed for unknown in row.readings[name].reasons.items()),
        parts=parts(assessed, name),
        ablations=ablations(assessed, name, chance),
        costs=costs(assessed, name),
    )


def _set(name: str, rows: Sequence[Row]) -> SetFigures:
    inside = [row for row in rows if row.dataset == name]
    return SetFigures(
        name=name,
        wrong=share(row.wrong for row in inside),
        unreadable=sum(row.label.answer is None for row in inside),
    )


def _difference(
    first: str, second: str, levels: Mapping[str, Level], rows: Sequence[Row], chance: Chance
) -> Difference:
    both = [
        (one, other, row.wrong)
        for row in rows
        if (one := levels[first](row)) is not None and (other := levels[second](row)) is not None
    ]
    before = np.array([one for one, _, _ in both], dtype=np.float64)
    after = np.array([other for _, other, _ in both], dtype=np.float64)
    wrong = flags([each for _, _, each in both])
    gain = area_gain(before, after, wrong, chance)
    return Difference(first=first, second=second, gain=gain)
