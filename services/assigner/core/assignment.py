"""The best assignment of roles, its margins, and the baselines it is compared with.

Source: SPEC 1.4, Eq. 6: maximise the sum of fitness over all maps of roles to agents at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from services.assigner.core.errors import InfeasibleAssignment, NoAgents
from services.assigner.core.fitness import Floats
from services.assigner.core.roles import ROLES, Role

# A fitness nobody could measure counts as this: the middle, neither a recommendation nor an exclusion.
ASSUMED_FITNESS = 0.5

Bools = NDArray[np.bool_]
Chosen = tuple[int, ...]
"""Index of an agent for each role, in the order of `ROLES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is to be assigned.

    Attributes:
        agents: Identifiers in ascending order, one a column; the order makes ties deterministic.
        fitness: Fitness [roles x agents, 0..1]; NaN where unknown.
        capacities: Roles that each agent may hold [count, >= 1].
        allowed: Pairs that may be [roles x agents].
        pins: The pins that `allowed` already expresses, for messages.
    """

    agents: tuple[str, ...]
    fitness: Floats
    capacities: tuple[int, ...]
    allowed: Bools
    pins: Mapping[Role, str] = field(default_factory=dict)

    @property
    def values(self) -> Floats:
        """Fitness with unknown cells at `ASSUMED_FITNESS`."""
        return np.where(np.isnan(self.fitness), ASSUMED_FITNESS, self.fitness)


def build_problem(
    agents: Sequence[str],
    fitness: Floats,
    *,
    capacities: Sequence[int],
    pins: Mapping[Role, str] | None = None,
    forbidden: Sequence[tuple[Role, str]] = (),
) -> Problem:
    """A problem that does not depend on the order in which agents are listed.

    Raises:
        NoAgents: For an empty list.
        InfeasibleAssignment: For a pin or a forbidden pair that names an unknown agent, or a pin that is forbidden.
    """
    if not agents:
        raise NoAgents("there is no agent to give a role to")
    order = sorted(range(len(agents)), key=lambda index: agents[index])
    names = tuple(agents[index] for index in order)
    allowed = np.ones((len(ROLES), len(names)), dtype=bool)
    for role, agent in forbidden:
        allowed[ROLES.index(role), _column(names, agent, "forbidden pair", role)] = False
    for role, agent in (pins or {}).items():
        column = _column(names, agent, "pin", role)
        if not allowed[ROLES.index(role), column]:
            raise InfeasibleAssignment(
                f"{role} is pinned to {agent}, and that pair is forbidden", constraint="pin", role=role, agent=agent
            )
        allowed[ROLES.index(role)] = np.arange(len(names)) == column
    return Problem(
        agents=names,
        fitness=fitness[:, order],
        capacities=tuple(min(capacities[index], len(ROLES)) for index in order),
        allowed=allowed,
        pins=dict(pins or {}),
    )


def best_assignment(problem: Problem) -> Chosen:
    """Agent for each role so that the total is largest; the same for equal input in any order.

    Raises:
        InfeasibleAssignment: When the constraints leave none; names the roles and what they lack.

    Example:
        >>> fitness = np.array([[0.9, 0.8], [0.9, 0.1], [0.0, 0.5], [0.0, 0.5], [0.0, 0.5]])
        >>> best_assignment(build_problem(["a", "b"], fitness, capacities=[3, 3]))
        (0, 0, 1, 1, 1)
    """
    chosen = _solve(problem, problem.allowed)
    if chosen is None:
        raise _infeasible(problem)
    return chosen


def total_fitness(problem: Problem, chosen: Chosen) -> float:
    """Sum of the fitness over all roles [0..5]."""
    return float(problem.values[np.arange(len(ROLES)), list(chosen)].sum())


def margins(problem: Problem, chosen: Chosen) -> tuple[float | None, ...]:
    """For each role the total lost if its pair were forbidden [>= 0]; None where no assignment would be left."""
    total = total_fitness(problem, chosen)
    lost: list[float | None] = []
    for role, agent in enumerate(chosen):
        allowed = problem.allowed.copy()
        allowed[role, agent] = False
        other = _solve(problem, allowed)
        lost.append(None if other is None else max(0.0, round(total - total_fitness(problem, other), 12)))
    return tuple(lost)


def greedy_assignment(problem: Problem) -> Chosen | None:
    """What greedy first-available gets: roles in order, each its best free agent, ties by identifier; None if stuck."""
    free = list(problem.capacities)
    chosen: list[int] = []
    for role in range(len(ROLES)):
        open_to = [a for a in range(len(free)) if free[a] > 0 and problem.allowed[role, a]]
        if not open_to:
            return None
        best = max(open_to, key=lambda a: (problem.values[role, a], -a))
        free[best] -= 1
        chosen.append(best)
    return tuple(chosen)


def count_assignments(problem: Problem) -> int:
    """Number of assignments that satisfy the constraints."""
    return _ways(problem)[-1][-1]


def random_assignment(problem: Problem, rng: np.random.Generator) -> Chosen:
    """An assignment drawn uniformly from all that satisfy the constraints.

    Raises:
        InfeasibleAssignment: When there is none.
    """
    ways, mask = _ways(problem), (1 << len(ROLES)) - 1
    if not ways[-1][mask]:
        raise _infeasible(problem)
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


def _column(names: Sequence[str], agent: str, what: str, role: Role) -> int:
    if agent not in names:
        said = f"the {what} of {role} names {agent!r}, which is none of the agents"
        raise InfeasibleAssignment(said, constraint=what, role=role, agent=agent)
    return names.index(agent)


def _solve(problem: Problem, allowed: Bools) -> Chosen | None:
    """Hungarian assignment over seats: an agent has as many as its capacity.

    Only the best five agents of each role can matter: the other roles take at most four of them.
    """
    cost = np.where(allowed, -problem.values, np.inf)
    able = np.unique(np.argsort(cost, axis=1, kind="stable")[:, : len(ROLES)])
    seats = np.repeat(able, np.asarray(problem.capacities)[able])
    if len(seats) < len(ROLES):
        return None
    cost = cost[:, seats]
    try:
        _, columns = linear_sum_assignment(cost)
    except ValueError:  # SciPy's word for an infeasible matrix
        return None
    return tuple(int(agent) for agent in seats[columns])


def _infeasible(problem: Problem) -> InfeasibleAssignment:
    """Names the smallest set of roles whose agents cannot hold them all (Hall's condition with capacities)."""
    capacity = np.minimum(problem.capacities, len(ROLES))
    if int(capacity.sum()) < len(ROLES):
        return InfeasibleAssignment(
            f"the agents may hold {int(capacity.sum())} roles in all and there are {len(ROLES)}; "
            "raise a capacity or add agents",
            constraint="capacity",
            capacity=str(int(capacity.sum())),
        )
    for size in range(1, len(ROLES) + 1):
        for roles in combinations(range(len(ROLES)), size):
            able = problem.allowed[list(roles)].any(axis=0)
            if int(capacity[able].sum()) < size:
                return _crowded([ROLES[r] for r in roles], [problem.agents[a] for a in np.flatnonzero(able)], problem)
    raise AssertionError("every set of roles has room, yet no assignment was found")


def _crowded(roles: Sequence[Role], agents: Sequence[str], problem: Problem) -> InfeasibleAssignment:
    names, holders = ", ".join(roles), ", ".join(agents) or "nobody"
    constraint = "pin" if any(role in problem.pins for role in roles) else "forbidden pair"
    return InfeasibleAssignment(
        f"{names}: pins and forbidden pairs leave only {holders}, who may not hold {len(roles)} role(s)",
        constraint=constraint,
        roles=names,
        agents=holders,
    )


def _holdings(problem: Problem, agent: int) -> list[int]:
    """Sets of roles, as bit masks, that one agent may hold together."""
    able = sum(1 << role for role in range(len(ROLES)) if problem.allowed[role, agent])
    room = problem.capacities[agent]
    return [part for part in range(1 << len(ROLES)) if part & able == part and part.bit_count() <= room]


def _ways(problem: Problem) -> list[list[int]]:
    """Number of ways in which the first k agents hold exactly a set of roles, for every k and set."""
    ways = [[1] + [0] * ((1 << len(ROLES)) - 1)]
    for agent in range(len(problem.agents)):
        following = [0] * (1 << len(ROLES))
        for part in _holdings(problem, agent):
            for mask, count in enumerate(ways[-1]):
                if count and not mask & part:
                    following[mask | part] += count
        ways.append(following)
    return ways
