"""The activation is the pressure to deliberate on a question; it decides between System 1 and System 2.

Source: MSV, routing (papers.md 1.2).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.thresholds import reaches
from kernel.values import value
from kernel.weighted_mean import sums_to_one, weighted_terms

# Order of the terms; correctness and experience count as 1 - value.
TERMS = ("correctness", "conflict", "importance", "experience")
LOWERS = ("correctness", "experience")

PAPER_THRESHOLD = 0.45


class InvalidActivationWeights(MetacogError):
    """Activation weights are negative, incomplete, or do not sum to 1."""

    code = Code.FAILED_PRECONDITION
    reason = "INVALID_WEIGHTS"


class Route(StrEnum):
    """A route is the system that answers a request."""

    SYSTEM_ONE = "SYSTEM_ONE"
    SYSTEM_TWO = "SYSTEM_TWO"


@value
class ActivationWeights:
    """These weights have one number per term [dimensionless, >= 0, sum 1]; the defaults are the paper's.

    Raises:
        InvalidActivationWeights: On construction, for a negative weight or a sum other than 1.
    """

    correctness: float = 0.30
    conflict: float = 0.25
    importance: float = 0.25
    experience: float = 0.20

    def __post_init__(self) -> None:
        weights = [getattr(self, term) for term in TERMS]
        if not sums_to_one(weights):
            raise InvalidActivationWeights(
                f"activation weights must be >= 0 and sum to 1; they are {weights} and sum to {sum(weights):g}"
            )


PAPER_WEIGHTS = ActivationWeights()


@value
class Activation:
    """An activation is the pressure to deliberate, with its terms.

    Attributes:
        value: Sum of the terms [0..1]; None when fewer than two components are known.
        threshold: System 2 if and only if `value` reaches it [0..1].
        terms: Weighted term by component [0..1], rescaled for unknown components.
        unknown: Components that were left out.
        weights: Weights in force by component [dimensionless, sum 1].
    """

    value: float | None
    threshold: float
    terms: Mapping[str, float]
    unknown: Sequence[str]
    weights: Mapping[str, float]


def activation(msv: MSV, weights: ActivationWeights = PAPER_WEIGHTS, threshold: float = PAPER_THRESHOLD) -> Activation:
    """Return the pressure to deliberate on a question.

    Args:
        msv: State of the question [dimensionless, each known component in 0..1].
        weights: One weight per term [>= 0, sum 1].
        threshold: Activation from which System 2 answers, carried into the result [0..1].

    Returns:
        The activation with its four terms; the known weights are rescaled to sum to 1. Its value is None when fewer
        than two of the four components are known, or all known ones have weight 0.

    Source:
        MSV, routing (papers.md 1.2): 0.30 (1 - CE) + 0.25 CI + 0.25 PI + 0.20 (1 - EM). Rescaling for unknown
        components is ours.

    Example:
        >>> activation(MSV(correctness=0.45, experience=1.0, conflict=0.72, importance=0.85)).value
        0.5575
    """
    weight = {term: getattr(weights, term) for term in TERMS}
    unknown = tuple(term for term in TERMS if getattr(msv, term) is None)
    found = weighted_terms([pressure(msv, term) for term in TERMS], list(weight.values()))
    if found is None:
        return Activation(value=None, threshold=threshold, terms={}, unknown=unknown, weights=weight)
    terms = {name: term for name, term in zip(TERMS, found, strict=True) if term is not None}
    return Activation(
        value=round(sum(terms.values()), 12), threshold=threshold, terms=terms, unknown=unknown, weights=weight
    )


def pressure(msv: MSV, term: str) -> float | None:
    """Return the level of one of `TERMS`, high where it asks for deliberation [0..1]; None where it is unknown.

    Example:
        >>> state = MSV(correctness=0.75, conflict=0.5)
        >>> [pressure(state, term) for term in TERMS]
        [0.25, 0.5, None, None]
    """
    level: float | None = getattr(msv, term)
    return None if level is None else level_pressure(term, level)


def level_pressure(term: str, level: float) -> float:
    """Return the level of one of `TERMS` turned so that it is high where it asks for deliberation [0..1].

    Args:
        term: One of `TERMS`.
        level: Level of that component [0..1].

    Example:
        >>> level_pressure("correctness", 0.75), level_pressure("conflict", 0.75)
        (0.25, 0.75)
    """
    return 1 - level if term in LOWERS else level


@value
class SystemChoice:
    """A system choice names the system and the reason for it."""

    system: Route
    reason: str


def choose(level: Activation, *, undetermined: Route = Route.SYSTEM_TWO) -> SystemChoice:
    """Choose System 2 if and only if the activation reaches its threshold; without a value, choose `undetermined`.

    Example:
        >>> choose(activation(MSV(correctness=0.92, conflict=0.12, importance=0.5, experience=0.5))).system.value
        'SYSTEM_ONE'
    """
    if level.value is None:
        return SystemChoice(system=undetermined, reason="undetermined")
    deliberate = reaches(level.value, level.threshold)
    return SystemChoice(system=Route.SYSTEM_TWO if deliberate else Route.SYSTEM_ONE, reason="activation")
