"""Roles that must be apart go to different agents, as far as there are enough agents."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernel.assignment.problem import APART, AssignedAgents, Bools, Problem, RolePair
from kernel.roles import ROLES, Floats

# All sets of roles, as bit masks.
SETS = 1 << len(ROLES)
Places = NDArray[np.intp]


def with_roles_apart(problem: Problem, pairs: Sequence[RolePair] = APART) -> Problem:
    """Return the problem whose assignments keep `pairs` of roles apart, as many of them as the agents allow.

    Args:
        problem: The problem; its pins and forbidden pairs go before.
        pairs: Roles that different agents should hold, the most important pair first.

    Returns:
        The problem with each pair in `apart` that can be kept beside those before it, and the others in `released`. A
        problem that has no assignment is returned as it is.

    Source:
        MSV, departures (papers.md 1.5); which pairs are released first is ours.

    Example:
        >>> from kernel.assignment import build_problem
        >>> one = build_problem(["a"], np.zeros((5, 1)), capacities=[5])
        >>> with_roles_apart(one).apart, len(with_roles_apart(one).released)
        ((), 5)
    """
    if not is_feasible(problem):
        return problem
    kept: tuple[RolePair, ...] = ()
    for pair in pairs:
        if is_feasible(replace(problem, apart=(*kept, pair))):
            kept = (*kept, pair)
    return replace(problem, apart=kept, released=tuple(pair for pair in pairs if pair not in kept))


def is_feasible(problem: Problem) -> bool:
    """Return whether any assignment satisfies the constraints."""
    masks, parts = _splits()
    possible = np.arange(SETS) == 0
    for agent in _representatives(problem):
        able = holdings(problem.allowed[:, agent], int(problem.capacities[agent]), problem.apart)
        reached = possible[masks ^ parts] & able[parts]
        possible = np.bincount(masks, weights=reached, minlength=SETS) > 0
        if possible[-1]:
            return True
    return False


def best_kept_apart(
    values: Floats, allowed: Bools, capacities: NDArray[np.intp], apart: Sequence[RolePair]
) -> AssignedAgents | None:
    """Return an assignment with the largest total in which `apart` holds; None where there is none.

    It is found by dynamic programming over sets of roles: the best total in which the first k agents hold exactly a
    set is the best over all parts of it that agent k may hold.

    Args:
        values: Fitness [roles x agents, 0..1].
        allowed: Pairs that may be [roles x agents].
        capacities: Roles that each agent may hold [count, shape (agents,)].
        apart: Pairs of roles that no agent may hold together.
    """
    masks, parts = _splits()
    starts = np.flatnonzero(np.r_[True, masks[1:] != masks[:-1]])
    best = np.where(np.arange(SETS) == 0, 0.0, -np.inf)
    taken: list[Places] = []
    for agent in range(values.shape[1]):
        able = holdings(allowed[:, agent], int(capacities[agent]), apart)
        worth = np.where(able, _members() @ values[:, agent], -np.inf)
        totals = best[masks ^ parts] + worth[parts]
        best = np.maximum.reduceat(totals, starts)
        # The first part with the best total: the choice does not depend on anything else.
        is_best = np.flatnonzero(totals == best[masks])
        _, first = np.unique(masks[is_best], return_index=True)
        taken.append(parts[is_best[first]])
    if not np.isfinite(best[-1]):
        return None
    chosen, mask = [0] * len(ROLES), SETS - 1
    for agent in reversed(range(values.shape[1])):
        part = int(taken[agent][mask])
        for role in range(len(ROLES)):
            if part >> role & 1:
                chosen[role] = agent
        mask ^= part
    return tuple(chosen)


def holdings(allowed: Bools, capacity: int, apart: Sequence[RolePair]) -> Bools:
    """Return which sets of roles, by bit mask, one agent may hold together.

    Args:
        allowed: Roles that it may hold [roles].
        capacity: How many of them at once [count].
        apart: Pairs of roles that it may not hold together.
    """
    members = _members()
    able: Bools = (members.sum(axis=1) <= capacity) & ~(members[:, ~allowed] > 0).any(axis=1)
    for first, second in apart:
        able &= (members[:, ROLES.index(first)] + members[:, ROLES.index(second)]) < 2
    return able


def _representatives(problem: Problem) -> list[int]:
    """Return the first five of the agents that the constraints do not tell apart: no assignment needs more of them."""
    bits = 1 << np.arange(len(ROLES))
    kinds = bits @ problem.allowed + SETS * problem.capacities
    return [int(agent) for kind in np.unique(kinds) for agent in np.flatnonzero(kinds == kind)[: len(ROLES)]]


@cache
def _members() -> Floats:
    """Return 1 where a set contains a role [sets x roles]."""
    return np.array([[float(mask >> role & 1) for role in range(len(ROLES))] for mask in range(SETS)])


@cache
def _splits() -> tuple[Places, Places]:
    """Return every set of roles with every part of it, in ascending order of the set, then of the part."""
    pairs = [(mask, part) for mask in range(SETS) for part in range(mask + 1) if part & mask == part]
    masks, parts = np.array(pairs, dtype=np.intp).T
    return masks, parts
