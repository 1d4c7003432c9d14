"""Deliberations of agents whose states decide, by known weights, how right their answers are."""

import numpy as np
from scipy.special import expit

from chassis.serving.wire import from_plain
from kernel.assignment import DrawnAssignment, best_assignment, build_problem, explored_assignment
from kernel.learning.contrasts import Deliberated
from kernel.msv import MSV
from kernel.roles import CHAIN_ROLES, DEFAULT_WEIGHTS, ROLES, Role, RoleWeights, fitness_matrix

TRUTH: RoleWeights = {
    Role.EXPERT: {"correctness": 0.1, "experience": 0.9},
    Role.CRITIC: {"conflict": 0.9, "incorrectness": 0.1},
    Role.EVALUATOR: {"correctness": 0.8, "conflict": 0.1, "experience": 0.1},
    Role.SYNTHESIZER: {"experience": 0.1, "correctness": 0.9},
    Role.GENERALIST: DEFAULT_WEIGHTS[Role.GENERALIST],
}
AGENTS = ("ada", "ben", "cleo", "dan", "eve")
CAPACITIES = (1,) * len(AGENTS)
SLOPE = 8.0


def simulated(
    count: int, *, truth: RoleWeights = TRUTH, share: float = 1.0, hardness: float = 0.0, seed: int = 1
) -> list[Deliberated]:
    """Deliberations in which chance gives the roles with probability `share`, else the default weights do.

    Args:
        count: How many.
        truth: Weights that decide how right answers are.
        share: How often chance gives the roles.
        hardness: How much harder a query is, for agents who all are less sure of it.
        seed: Of everything.
    """
    rng = np.random.default_rng(seed)
    return [_one(rng, truth, share, hardness) for _ in range(count)]


def _one(rng: np.random.Generator, truth: RoleWeights, share: float, hardness: float) -> Deliberated:
    ease = rng.random()
    levels = np.round(rng.random((len(AGENTS), 5)), 3)
    levels[:, 0] = np.round(levels[:, 0] * (1 - hardness) + ease * hardness, 3)
    names = ("correctness", "experience", "conflict", "importance", "emotional_response")
    msvs = tuple(from_plain(dict(zip(names, row, strict=True)), MSV) for row in levels.tolist())
    drawn = _drawn(msvs, share, rng)
    right = rng.random() < expit(SLOPE * _advantage(msvs, drawn.chosen, truth) + 6 * hardness * (ease - 0.5))
    return Deliberated(
        agents=AGENTS,
        msvs=msvs,
        capacities=CAPACITIES,
        chosen=drawn.chosen,
        propensity=drawn.propensity,
        score=float(right),
    )


def _drawn(msvs: tuple[MSV, ...], share: float, rng: np.random.Generator) -> DrawnAssignment:
    if share == 1:
        return DrawnAssignment(chosen=tuple(map(int, rng.permutation(len(AGENTS)))), propensity=1 / 120, explored=True)
    usual = build_problem(AGENTS, fitness_matrix(AGENTS, msvs).fitness, capacities=CAPACITIES)
    return explored_assignment(usual, share, rng)


def _advantage(msvs: tuple[MSV, ...], chosen: tuple[int, ...], truth: RoleWeights) -> float:
    fitness = fitness_matrix(AGENTS, msvs, truth).fitness
    rows = [ROLES.index(role) for role in CHAIN_ROLES]
    return float(sum(fitness[row, chosen[row]] - fitness[row].mean() for row in rows))


def distance(one: RoleWeights, other: RoleWeights) -> float:
    """Largest difference of two weights."""
    return max(abs(one[role].get(term, 0) - weight) for role in ROLES for term, weight in other[role].items())


def right_share(weights: RoleWeights, *, truth: RoleWeights = TRUTH, count: int = 100, seed: int = 9) -> float:
    """Share of right answers if `weights` gave all roles, by the truth."""
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(count):
        each = _one(rng, truth, 1.0, 0.0)
        problem = build_problem(AGENTS, fitness_matrix(AGENTS, each.msvs, weights).fitness, capacities=each.capacities)
        shares.append(expit(SLOPE * _advantage(each.msvs, best_assignment(problem), truth)))
    return float(np.mean(shares))
