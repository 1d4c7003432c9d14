"""This module holds the five roles: the stage that each one writes, the terms of its fitness, and their weights.

Source: MSV, fitness functions (papers.md 1.3). The paper gives the form; the default weights are ours.

A new role needs a member of `Role`, its default weights and, where it writes a text, its stage; mypy names each place,
because all are exhaustive `match` statements. Everything else in the kernel follows from `ROLES`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.thresholds import exceeds, reaches
from kernel.values import value
from kernel.weighted_mean import sums_to_one


class Role(StrEnum):
    """A role is a place in the ensemble, in the order of papers.md 1.3."""

    EXPERT = "EXPERT"
    CRITIC = "CRITIC"
    EVALUATOR = "EVALUATOR"
    SYNTHESIZER = "SYNTHESIZER"
    GENERALIST = "GENERALIST"


ROLES = tuple(Role)
FITNESS_TERMS = ("correctness", "incorrectness", "experience", "conflict", "importance", "emotional_response")

RoleWeights = Mapping[Role, Mapping[str, float]]


def _default_weights(role: Role) -> Mapping[str, float]:
    match role:
        case Role.EXPERT:
            return {"correctness": 0.6, "experience": 0.4}
        case Role.CRITIC:
            return {"conflict": 0.6, "incorrectness": 0.4}
        case Role.EVALUATOR:
            return {"correctness": 0.4, "conflict": 0.3, "experience": 0.3}
        case Role.SYNTHESIZER:
            return {"experience": 0.6, "correctness": 0.4}
        case Role.GENERALIST:
            return {"importance": 0.4, "conflict": 0.3, "emotional_response": 0.3}
        case _:
            assert_never(role)


DEFAULT_WEIGHTS: RoleWeights = {role: _default_weights(role) for role in ROLES}
# The version that is recorded with whatever the default weights decide.
DEFAULT_VERSION = "default"


class InvalidWeights(MetacogError):
    """Weights of a role are negative, do not sum to 1, or name no component."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_WEIGHTS"


@value
class VersionedWeights:
    """This value holds the weights of all roles, and the version that is recorded with the decisions they make.

    Attributes:
        version: Version of the weights.
        weights: Weights by role and component [>= 0, sum 1 for each role].
    """

    version: str = DEFAULT_VERSION
    weights: RoleWeights = field(default_factory=lambda: DEFAULT_WEIGHTS)


def checked_weights(
    requested: Mapping[Role, Mapping[str, float]], otherwise: RoleWeights = DEFAULT_WEIGHTS
) -> RoleWeights:
    """Return `requested`, completed by those of `otherwise` for the roles that it leaves out.

    Args:
        requested: Weights by role and component [any numbers].
        otherwise: Weights of roles that it leaves out [>= 0, sum 1 for each role].

    Returns:
        Weights of all roles [>= 0, sum 1 for each role].

    Raises:
        InvalidWeights: For a negative weight, a sum other than 1, or a name that is no component.
    """
    for role, weights in requested.items():
        wrong = [name for name in weights if name not in FITNESS_TERMS]
        if wrong:
            message = f"weights of {role} name {wrong[0]!r}; components are {', '.join(FITNESS_TERMS)}"
            raise InvalidWeights(message, role=role, component=wrong[0])
        if not sums_to_one(weights.values()):
            message = f"weights of {role} must be >= 0 and sum to 1; they sum to {sum(weights.values()):g}"
            raise InvalidWeights(message, role=role)
    return {role: dict(requested.get(role) or otherwise[role]) for role in ROLES}


Floats = NDArray[np.float64]

# Fitness is reported, and compared, to this many decimals.
FITNESS_DECIMALS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FitnessMatrix:
    """This matrix holds the fitness of every agent for every role.

    Attributes:
        agents: Identifiers, one a column.
        fitness: Fitness [roles x agents, 0..1]; NaN where every component is unknown.
        terms: Weighted terms, rescaled for unknown components [roles x agents x TERMS, 0..1]; NaN where unknown.
        weights: Weights used [>= 0, sum 1 for each role].
    """

    agents: tuple[str, ...]
    fitness: Floats
    terms: Floats
    weights: RoleWeights

    def unknown(self, role: Role, agent: int) -> tuple[str, ...]:
        """Return the components that the fitness of `agent` for `role` had to leave out.

        Args:
            role: The role.
            agent: Column of the agent [0..agents - 1].
        """
        row = self.terms[ROLES.index(role), agent]
        return tuple(
            t for t, term in zip(FITNESS_TERMS, row, strict=True) if self.weights[role].get(t) and np.isnan(term)
        )


def fitness_matrix(agents: Sequence[str], msvs: Sequence[MSV], weights: RoleWeights = DEFAULT_WEIGHTS) -> FitnessMatrix:
    """Return the fitness of `agents`, whose states are `msvs`, for all roles.

    Args:
        agents: Identifiers, one for each state.
        msvs: State of each agent.
        weights: Weights by role and component [>= 0, sum 1 for each role].

    Returns:
        Weighted sums of known components, the known weights rescaled to sum to 1; NaN where none is known. The same
        state has the same fitness to the last bit, wherever it is listed.

    Source:
        MSV, fitness functions (papers.md 1.3), e.g. expert = 0.6 CE + 0.4 EM. Rescaling for unknown components is ours.

    Example:
        >>> matrix = fitness_matrix(["a"], [MSV(correctness=0.9, experience=0.5)])
        >>> float(matrix.fitness[0, 0].round(3)), matrix.unknown(Role.CRITIC, 0)
        (0.74, ('conflict',))
    """
    levels = term_levels(msvs)
    weight = np.array([[weights[role].get(term, 0.0) for term in FITNESS_TERMS] for role in ROLES])
    known = ~np.isnan(levels)
    known_weight = np.where(known[None], weight[:, None], 0.0).sum(axis=2)
    scale = np.divide(1.0, known_weight, out=np.full_like(known_weight, np.nan), where=known_weight > 0)
    counts = known[None] & (weight[:, None] > 0)
    terms = np.where(counts, weight[:, None] * levels[None] * scale[:, :, None], np.nan)
    fitness: Floats = np.where(known_weight > 0, np.nansum(terms, axis=2), np.nan)
    return FitnessMatrix(agents=tuple(agents), fitness=fitness.round(FITNESS_DECIMALS), terms=terms, weights=weights)


def term_levels(msvs: Sequence[MSV]) -> Floats:
    """Return the level of each of `FITNESS_TERMS` in each state [states x TERMS, 0..1]; NaN where it is unknown.

    Example:
        >>> term_levels([MSV(correctness=0.75, conflict=0.5)]).tolist()
        [[0.75, 0.25, nan, 0.5, nan, nan]]
    """
    known = [(m.correctness, m.experience, m.conflict, m.importance, m.emotional_response) for m in msvs]
    levels = np.array(known, dtype=float).reshape(len(msvs), len(FITNESS_TERMS) - 1)  # None becomes NaN
    return np.insert(levels, FITNESS_TERMS.index("incorrectness"), 1 - levels[:, 0], axis=1)


class Stage(StrEnum):
    """A stage is a text of the dialectic."""

    THESIS = "THESIS"
    ANTITHESIS = "ANTITHESIS"
    RESOLUTION = "RESOLUTION"
    SYNTHESIS = "SYNTHESIS"
    NOTE = "NOTE"


CHAIN = (Stage.THESIS, Stage.ANTITHESIS, Stage.RESOLUTION, Stage.SYNTHESIS)
# The stage whose text is the answer when all goes well.
FINAL_STAGE = CHAIN[-1]


def _author(stage: Stage) -> Role:
    match stage:
        case Stage.THESIS:
            return Role.EXPERT
        case Stage.ANTITHESIS:
            return Role.CRITIC
        case Stage.RESOLUTION:
            return Role.EVALUATOR
        case Stage.SYNTHESIS:
            return Role.SYNTHESIZER
        case Stage.NOTE:
            return Role.GENERALIST
        case _:
            assert_never(stage)


AUTHOR: Mapping[Stage, Role] = {stage: _author(stage) for stage in Stage}
# The roles that write the chain. The generalist's note is no part of the answer, so labels teach nothing about it.
CHAIN_ROLES = tuple(AUTHOR[stage] for stage in CHAIN)


# Importance from which the generalist writes its note, and experience above which it does not [0..1].
NOTE_IMPORTANCE = 0.7
NOTE_EXPERIENCE = 0.4


@value
class Concern:
    """A concern decides whether the final answer gets the generalist's note, with the reason."""

    raised: bool
    reason: str


def cross_domain_concern(msv: MSV, *, important: float = NOTE_IMPORTANCE, familiar: float = NOTE_EXPERIENCE) -> Concern:
    """Return whether the question's state calls for the generalist's note.

    Args:
        msv: State of the question.
        important: Importance from which on a note may be due [0..1].
        familiar: Experience up to which it is [0..1].

    Source:
        MSV, generalist (papers.md 1.5): importance high and experience low; the thresholds are ours.

    Example:
        >>> cross_domain_concern(MSV(importance=0.7)).reason
        'importance 0.70 reaches 0.70 and experience is unknown, which counts as low'
    """
    if msv.importance is None:
        return Concern(raised=False, reason="importance is unknown")
    if not reaches(msv.importance, important):
        return Concern(raised=False, reason=f"importance {msv.importance:.2f} is below {important:.2f}")
    reason = f"importance {msv.importance:.2f} reaches {important:.2f} and experience "
    if msv.experience is None:
        return Concern(raised=True, reason=reason + "is unknown, which counts as low")
    if exceeds(msv.experience, familiar):
        return Concern(raised=False, reason=f"experience {msv.experience:.2f} is above {familiar:.2f}")
    return Concern(raised=True, reason=reason + f"{msv.experience:.2f} is at most {familiar:.2f}")
