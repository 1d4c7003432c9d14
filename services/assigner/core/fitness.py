"""Fitness of agents for roles.

Source: SPEC 1.3. The paper gives the form; the default weights are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel.msv import MSV
from services.assigner.core.errors import InvalidWeights
from services.assigner.core.roles import ROLES, Role

TERMS = ("correctness", "incorrectness", "experience", "conflict", "importance", "emotional_response")

RoleWeights = Mapping[Role, Mapping[str, float]]

PAPER_FORM_WEIGHTS: RoleWeights = {
    Role.EXPERT: {"correctness": 0.6, "experience": 0.4},
    Role.CRITIC: {"conflict": 0.6, "incorrectness": 0.4},
    Role.EVALUATOR: {"correctness": 0.4, "conflict": 0.3, "experience": 0.3},
    Role.SYNTHESIZER: {"experience": 0.6, "correctness": 0.4},
    Role.GENERALIST: {"importance": 0.4, "conflict": 0.3, "emotional_response": 0.3},
}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitnessMatrix:
    """Fitness of every agent for every role.

    Attributes:
        agents: Identifiers, one a column.
        fitness: Fitness [roles x agents, 0..1]; NaN where every component is unknown.
        terms: Weighted terms, rescaled for unknown components [roles x agents x TERMS, 0..1]; NaN where unknown.
        weights: Weights used.
    """

    agents: tuple[str, ...]
    fitness: Floats
    terms: Floats
    weights: RoleWeights

    def unknown(self, role: Role, agent: int) -> tuple[str, ...]:
        """Components that the fitness of `agent` for `role` had to leave out."""
        row = self.terms[ROLES.index(role), agent]
        return tuple(t for t, term in zip(TERMS, row, strict=True) if self.weights[role].get(t) and np.isnan(term))


def checked_weights(asked: Mapping[Role, Mapping[str, float]]) -> RoleWeights:
    """`asked`, and the defaults for the roles that it leaves out.

    Raises:
        InvalidWeights: For a negative weight, a sum other than 1, or a name that is no component.
    """
    for role, weights in asked.items():
        wrong = [name for name in weights if name not in TERMS]
        if wrong:
            said = f"weights of {role} name {wrong[0]!r}; components are {', '.join(TERMS)}"
            raise InvalidWeights(said, role=role, component=wrong[0])
        if any(not weight >= 0 for weight in weights.values()) or abs(sum(weights.values()) - 1) > 1e-9:
            said = f"weights of {role} must be >= 0 and sum to 1; they sum to {sum(weights.values()):g}"
            raise InvalidWeights(said, role=role)
    return {role: dict(asked.get(role) or PAPER_FORM_WEIGHTS[role]) for role in ROLES}


def fitness_matrix(
    agents: Sequence[str], msvs: Sequence[MSV], weights: RoleWeights = PAPER_FORM_WEIGHTS
) -> FitnessMatrix:
    """Fitness of `agents`, whose states are `msvs`, for all roles.

    Returns:
        Weighted sums of known components, the known weights rescaled to sum to 1; NaN where none is known.

    Source:
        SPEC 1.3, e.g. expert = 0.6 CE + 0.4 EM. Rescaling for unknown components is ours.

    Example:
        >>> made = fitness_matrix(["a"], [MSV(correctness=0.9, experience=0.5)])
        >>> float(made.fitness[0, 0].round(3)), made.unknown(Role.CRITIC, 0)
        (0.74, ('conflict',))
    """
    levels = np.array([_levels(msv) for msv in msvs], dtype=float).reshape(len(msvs), len(TERMS))
    weight = np.array([[weights[role].get(term, 0.0) for term in TERMS] for role in ROLES])
    known = ~np.isnan(levels)
    known_weight = np.einsum("rt,at->ra", weight, known.astype(float))
    scale = np.divide(1.0, known_weight, out=np.full_like(known_weight, np.nan), where=known_weight > 0)
    terms = np.where(known[None, :, :], weight[:, None, :] * levels[None, :, :] * scale[:, :, None], np.nan)
    terms = np.where(weight[:, None, :] > 0, terms, np.nan)
    fitness = np.where(known_weight > 0, np.nansum(terms, axis=2), np.nan)
    return FitnessMatrix(agents=tuple(agents), fitness=fitness, terms=terms, weights=weights)


def _levels(msv: MSV) -> list[float]:
    correct = np.nan if msv.correctness is None else msv.correctness
    rest = (msv.experience, msv.conflict, msv.importance, msv.emotional_response)
    return [correct, 1 - correct, *(np.nan if level is None else level for level in rest)]
