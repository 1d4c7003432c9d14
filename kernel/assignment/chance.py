"""These assignments are drawn by chance, as controls and as data from which weights are learned."""

from dataclasses import dataclass

import numpy as np

from kernel.assignment.apart import holdings
from kernel.assignment.problem import AssignedAgents, Problem, infeasible
from kernel.assignment.solving import best_assignment
from kernel.roles import ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAssignment:
    """This value is an assignment, with the probability that led to it.

    Attributes:
        chosen: The assignment.
        propensity: Probability with which it was drawn [0 < p <= 1].
        explored: Whether chance decided instead of fitness.
    """

    chosen: AssignedAgents
    propensity: float
    explored: bool = False


def count_assignments(problem: Problem) -> int:
    """Return the number of assignments that satisfy the constraints [count, >= 0]."""
    return _ways(problem)[-1][-1]


def random_assignment(problem: Problem, rng: np.random.Generator) -> AssignedAgents:
    """Return an assignment drawn uniformly from all that satisfy the constraints.

    Raises:
        InfeasibleAssignment: When there is none.
    """
    ways, mask = _ways(problem), (1 << len(ROLES)) - 1
    if not ways[-1][mask]:
        raise infeasible(problem)
    chosen = [0] * len(ROLES)
    for agent in reversed(range(len(problem.agents))):
        options = [part for part in _holdings(problem, agent) if part & mask == part]
        counts = np.array([ways[agent][mask ^ part] for part in options], dtype=float)
        part = options[int(rng.choice(len(options), p=counts / counts.sum()))]
        for role in range(len(ROLES)):
            if part >> role & 1:
                chosen[role] = agent
        mask ^= part
    return tuple(chosen)


def explored_assignment(problem: Problem, share: float, rng: np.random.Generator) -> DrawnAssignment:
    """Return the best assignment, or with probability `share` one drawn from all.

    Args:
        problem: The problem.
        share: How often chance decides [0..1].
        rng: Chance; not touched when `share` is 0.

    Returns:
        The assignment with its propensity: `share` / number of assignments, and 1 - `share` more for the best one.

    Raises:
        InfeasibleAssignment: When the constraints leave none.

    Source:
        Ours (papers.md 1.6): weights cannot be learned from choices that are always optimal.
    """
    best = best_assignment(problem)
    if share <= 0:
        return DrawnAssignment(chosen=best, propensity=1.0)
    explored = bool(rng.random() < share)
    chosen = random_assignment(problem, rng) if explored else best
    by_chance = share / count_assignments(problem)
    return DrawnAssignment(chosen=chosen, propensity=by_chance + (1 - share) * (chosen == best), explored=explored)


def _holdings(problem: Problem, agent: int) -> list[int]:
    """Return the sets of roles, as bit masks, that one agent may hold together."""
    able = holdings(problem.allowed[:, agent], int(problem.capacities[agent]), problem.apart)
    parts: list[int] = np.flatnonzero(able).tolist()
    return parts


def _ways(problem: Problem) -> list[list[int]]:
    """Return the number of ways in which the first k agents hold exactly a set of roles, for every k and set."""
    ways = [[1] + [0] * ((1 << len(ROLES)) - 1)]
    for agent in range(len(problem.agents)):
        following = [0] * (1 << len(ROLES))
        for part in _holdings(problem, agent):
            for mask, count in enumerate(ways[-1]):
                if count and not mask & part:
                    following[mask | part] += count
        ways.append(following)
    return ways
