"""This module solves an assignment problem, and computes its margins and its greedy baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from kernel.assignment.apart import best_kept_apart
from kernel.assignment.problem import AssignedAgents, Bools, Problem, RolePair, infeasible
from kernel.roles import ROLES, Floats
from kernel.thresholds import exceeds, reaches


def best_assignment(problem: Problem) -> AssignedAgents:
    """Return the agent for each role so that the total is largest.

    Of assignments with equal totals (to 1e-9) it is the one whose first role goes to the first agent by identifier,
    then the second role, and so on: the same for equal input in any order, whatever solver is beneath.

    Raises:
        InfeasibleAssignment: When the constraints leave none; names the roles and what they lack.

    Source:
        MSV Eq. 6 (papers.md 1.4), solved by the Hungarian algorithm; the order of equal totals is ours.

    Example:
        >>> from kernel.assignment import build_problem
        >>> fitness = np.array([[0.9, 0.8], [0.9, 0.1], [0.0, 0.5], [0.0, 0.5], [0.0, 0.5]])
        >>> best_assignment(build_problem(["a", "b"], fitness, capacities=[3, 3]))
        (0, 0, 1, 1, 1)
    """
    subproblem = _subproblem(problem)
    chosen = _solved(subproblem, subproblem.allowed)
    if chosen is None:
        raise infeasible(problem)
    return subproblem.in_columns_of_problem(_first_of_equals(subproblem, chosen))


def total_fitness(problem: Problem, chosen: AssignedAgents) -> float:
    """Return the sum of the fitness over all roles [0..5]."""
    return _total(problem.values, chosen)


def margins(problem: Problem, chosen: AssignedAgents) -> tuple[float | None, ...]:
    """Return for each role the total lost if its pair were forbidden [>= 0]; None where no assignment would be left.

    Args:
        problem: The problem.
        chosen: Its best assignment.

    Source:
        Ours (papers.md 1.4).
    """
    subproblem, total = _subproblem(problem), total_fitness(problem, chosen)
    lost: list[float | None] = []
    for role, agent in enumerate(chosen):
        allowed = subproblem.allowed.copy()
        allowed[role, subproblem.columns == agent] = False
        other = _solved(subproblem, allowed)
        lost.append(None if other is None else max(0.0, round(total - _total(subproblem.values, other), 12)))
    return tuple(lost)


def is_tie(margins_of_best: Sequence[float | None]) -> bool:
    """Return whether another assignment has the same total (to 1e-9), so that fitness alone does not decide.

    Args:
        margins_of_best: What `margins` returns for the best assignment [>= 0; None for a role that no other could
            hold].

    Source:
        Ours (papers.md 1.4): two assignments with equal totals differ in a role, whose margin is then 0.

    Example:
        >>> is_tie([0.2, None, 0.1, 0.0, None]), is_tie([0.2, None])
        (True, False)
    """
    return any(lost is not None and not exceeds(lost, 0.0) for lost in margins_of_best)


def greedy_assignment(problem: Problem) -> AssignedAgents | None:
    """Return what greedy first-available yields: roles in order, each its best free agent, ties by identifier.

    It keeps the roles apart that the problem keeps apart. It is None if stuck.

    Source:
        MSV, assignment (papers.md 1.4): what Eq. 6 replaces.
    """
    free = problem.capacities.copy()
    chosen: list[int] = []
    for role in range(len(ROLES)):
        open_to = problem.allowed[role] & (free > 0)
        open_to[[chosen[other] for other in _apart_from(role, problem.apart) if other < role]] = False
        if not open_to.any():
            return None
        best = int(np.argmax(np.where(open_to, problem.values[role], -1.0)))
        free[best] -= 1
        chosen.append(best)
    return tuple(chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subproblem:
    """This part of a problem can matter: for each role its six best agents, earlier ones first where they tie.

    The other roles take at most four of a role's five best, so one of these is always free, and holds no role that must
    be apart from this one; the sixth is for margins, where one pair is forbidden.
    """

    columns: NDArray[np.intp]
    values: Floats
    allowed: Bools
    capacities: NDArray[np.intp]
    places: NDArray[np.intp]
    apart: tuple[RolePair, ...]

    def in_columns_of_problem(self, chosen: AssignedAgents) -> AssignedAgents:
        """Return `chosen` by the columns of the problem."""
        return tuple(int(self.columns[agent]) for agent in chosen)


def _subproblem(problem: Problem) -> _Subproblem:
    ranked = [_leaders(np.where(problem.allowed[row], problem.values[row], -1.0)) for row in range(len(ROLES))]
    columns = np.unique(np.concatenate(ranked))
    return _Subproblem(
        columns=columns,
        values=problem.values[:, columns],
        allowed=problem.allowed[:, columns],
        capacities=problem.capacities[columns],
        places=np.repeat(np.arange(len(columns)), problem.capacities[columns]),
        apart=problem.apart,
    )


def _leaders(values: Floats) -> NDArray[np.intp]:
    """Return the places of the six largest of `values`, earlier ones first where they tie."""
    wanted = len(ROLES) + 1
    if len(values) <= wanted:
        return np.arange(len(values))
    bar = np.partition(values, len(values) - wanted)[len(values) - wanted]
    above = np.flatnonzero(values > bar)
    return np.concatenate([above, np.flatnonzero(values == bar)[: wanted - len(above)]])


def _solved(subproblem: _Subproblem, allowed: Bools) -> AssignedAgents | None:
    """Return a best assignment among the pairs that are `allowed`; None where there is none."""
    if subproblem.apart:
        return best_kept_apart(subproblem.values, allowed, subproblem.capacities, subproblem.apart)
    return _hungarian(subproblem, allowed)


def _hungarian(subproblem: _Subproblem, allowed: Bools) -> AssignedAgents | None:
    """Return the Hungarian assignment over places: an agent has as many as its capacity; None where there is none."""
    if len(subproblem.places) < len(ROLES):
        return None
    cost = np.where(allowed, -subproblem.values, np.inf)[:, subproblem.places]
    try:
        _, columns = linear_sum_assignment(cost)
    except ValueError:  # SciPy's word for an infeasible matrix
        return None
    return tuple(int(agent) for agent in subproblem.places[columns])


def _first_of_equals(subproblem: _Subproblem, chosen: AssignedAgents) -> AssignedAgents:
    """Return the first, by identifiers, role after role, of the assignments that are as good as `chosen`."""
    total, allowed = _total(subproblem.values, chosen), subproblem.allowed.copy()
    for role in range(len(ROLES)):
        for agent in np.flatnonzero(allowed[role, : chosen[role]]):
            trial = allowed.copy()
            trial[role] = np.arange(trial.shape[1]) == agent
            if not reaches(float(np.where(trial, subproblem.values, -1.0).max(axis=1).sum()), total):
                continue
            other = _solved(subproblem, trial)
            if other is not None and reaches(_total(subproblem.values, other), total):
                chosen = other
                break
        allowed[role] = np.arange(allowed.shape[1]) == chosen[role]
    return chosen


def _apart_from(role: int, apart: Sequence[RolePair]) -> list[int]:
    """Return the roles that must be apart from `role`, by their place in `ROLES`."""
    pairs = [(ROLES.index(first), ROLES.index(second)) for first, second in apart]
    return [second if first == role else first for first, second in pairs if role in (first, second)]


def _total(values: Floats, chosen: AssignedAgents) -> float:
    return float(values[np.arange(len(ROLES)), list(chosen)].sum())
