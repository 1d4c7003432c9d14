"""Which parts of a state help: the area of each by itself, and what each term adds to the activation. Pure."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from evals.routing.rows import Reading, Row
from evals.routing.separation import discrimination
from evals.stats.chance import Chance
from evals.stats.separation import area, area_gain, flags
from kernel.activation import LOWERS, level_pressure
from kernel.msv import CORRECTNESS_PARTS
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination
from kernel.values import value
from kernel.weighted_mean import weighted_mean

# Parts that indicate a right answer when they are high; they are inverted, so that a high level indicates an error.
REASSURING_PARTS = frozenset(
    {
        "knowledge_similarity",
        "experience_similarity",
        *CORRECTNESS_PARTS,
        "check",
        "draft_likelihood",
        "draft_support",
        "sample_agreement",
        "sample_likelihood",
    }
)
REASSURING = REASSURING_PARTS.union(LOWERS)


@value
class Part:
    """The discrimination of one part of the state by itself.

    Attributes:
        name: Its name; `1 - name` where it is turned round.
        area: Of the level that indicates an error.
    """

    name: str
    area: Discrimination

    @property
    def is_chance(self) -> bool:
        """Return whether its interval holds 0.5, so that it shows nothing on these items."""
        low, high = self.area.low, self.area.high
        return low is not None and high is not None and low <= 0.5 <= high

    @property
    def misleads(self) -> bool:
        """Return whether its whole interval is below 0.5: it indicates errors where there are fewer."""
        return self.area.high is not None and self.area.high < 0.5


@value
class Ablation:
    """The contribution of one term to the activation.

    Attributes:
        term: The component.
        without: Area of the activation without it, the other weights rescaled.
        gain: How much larger the area is with it.
    """

    term: str
    without: float | None
    gain: Estimate


def parts(rows: Sequence[Row], assessor: str) -> Sequence[Part]:
    """Every component and part that the assessor measured, the best first."""
    readings = [row.readings[assessor] for row in rows if assessor in row.readings]
    names = dict.fromkeys(name for reading in readings for name in (*reading.components, *reading.parts))
    return sorted((_part(rows, assessor, name) for name in names), key=lambda part: -(part.area.auroc or 0.0))


def ablations(rows: Sequence[Row], assessor: str, chance: Chance) -> Sequence[Ablation]:
    """Return what each term of the activation adds, by leaving it out on the same items."""
    terms = dict.fromkeys(
        term
        for row in rows
        if (reading := row.readings.get(assessor)) is not None
        for term in reading.weights
        if term in reading.components
    )
    return [_ablation(rows, assessor, term, chance) for term in terms]


def activation_without(reading: Reading, left_out: str) -> float | None:
    """The activation of a state without one component, the other weights rescaled [0..1]; None without any other.

    Source: MSV, routing (papers.md 1.2).
    """
    weights = {term: weight for term, weight in reading.weights.items() if term in reading.components}
    weights.pop(left_out, None)
    levels = [level_pressure(term, reading.components[term]) for term in weights]
    return weighted_mean(levels, list(weights.values()))


def speaking_for_error(name: str, level: float) -> float:
    """`level` inverted where needed, so that a high one indicates an error.

    Example:
        >>> speaking_for_error("check", 0.75), speaking_for_error("conflict", 0.75)
        (0.25, 0.75)
    """
    return 1 - level if name in REASSURING_PARTS else level_pressure(name, level)


def _part(rows: Sequence[Row], assessor: str, name: str) -> Part:
    level = partial(_part_level, assessor=assessor, name=name)
    return Part(name=f"1 - {name}" if name in REASSURING else name, area=discrimination(rows, level))


def _part_level(row: Row, *, assessor: str, name: str) -> float | None:
    reading = row.readings.get(assessor)
    if reading is None:
        return None
    level = reading.components.get(name, reading.parts.get(name))
    return None if level is None else speaking_for_error(name, level)


def _ablation(rows: Sequence[Row], assessor: str, term: str, chance: Chance) -> Ablation:
    pairs = [
        (reading.activation, without, row.wrong)
        for row in rows
        if (reading := row.readings.get(assessor)) is not None
        and reading.activation is not None
        and (without := activation_without(reading, term)) is not None
    ]
    wrong = flags([each for _, _, each in pairs])
    before = np.array([without for _, without, _ in pairs], dtype=np.float64)
    after = np.array([whole for whole, _, _ in pairs], dtype=np.float64)
    gain = area_gain(before, after, wrong, chance)
    return Ablation(term=term, without=area(before, wrong), gain=gain)
