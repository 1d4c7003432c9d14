"""Fitness of agents for roles.

Source: SPEC 1.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel.msv import MSV
from kernel.roles import DEFAULT_WEIGHTS, ROLES, TERMS, Role, RoleWeights

Floats = NDArray[np.float64]

# Fitness is told, and compared, to this many decimals.
FITNESS_DECIMALS = 12


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


def fitness_matrix(agents: Sequence[str], msvs: Sequence[MSV], weights: RoleWeights = DEFAULT_WEIGHTS) -> FitnessMatrix:
    """Fitness of `agents`, whose states are `msvs`, for all roles.

    Returns:
        Weighted sums of known components, the known weights rescaled to sum to 1; NaN where none is known. The same
        state has the same fitness to the last bit, wherever it is listed.

    Source:
        SPEC 1.3, e.g. expert = 0.6 CE + 0.4 EM. Rescaling for unknown components is ours.

    Example:
        >>> made = fitness_matrix(["a"], [MSV(correctness=0.9, experience=0.5)])
        >>> float(made.fitness[0, 0].round(3)), made.unknown(Role.CRITIC, 0)
        (0.74, ('conflict',))
    """
    levels = term_levels(msvs)
    weight = np.array([[weights[role].get(term, 0.0) for term in TERMS] for role in ROLES])
    known = ~np.isnan(levels)
    known_weight = np.where(known[None], weight[:, None], 0.0).sum(axis=2)
    scale = np.divide(1.0, known_weight, out=np.full_like(known_weight, np.nan), where=known_weight > 0)
    counts = known[None] & (weight[:, None] > 0)
    terms = np.where(counts, weight[:, None] * levels[None] * scale[:, :, None], np.nan)
    fitness: Floats = np.where(known_weight > 0, np.nansum(terms, axis=2), np.nan)
    return FitnessMatrix(agents=tuple(agents), fitness=fitness.round(FITNESS_DECIMALS), terms=terms, weights=weights)


def term_levels(msvs: Sequence[MSV]) -> Floats:
    """Level of each of `TERMS` in each state [states x TERMS, 0..1]; NaN where it is unknown.

    Example:
        >>> term_levels([MSV(correctness=0.75, conflict=0.5)]).tolist()
        [[0.75, 0.25, nan, 0.5, nan, nan]]
    """
    known = [(m.correctness, m.experience, m.conflict, m.importance, m.emotional_response) for m in msvs]
    levels = np.array(known, dtype=float).reshape(len(msvs), len(TERMS) - 1)  # None becomes NaN
    return np.insert(levels, TERMS.index("incorrectness"), 1 - levels[:, 0], axis=1)
