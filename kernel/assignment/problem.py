"""An assignment problem states agents, fitness and constraints, and why no assignment satisfies them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kernel.errors import Code, MetacogError, NoAgents
from kernel.roles import FITNESS_DECIMALS, ROLES, Floats, Role

# An unknown fitness counts as this: the middle, neither a recommendation nor an exclusion.
ASSUMED_FITNESS = 0.5


Bools = NDArray[np.bool_]


AssignedAgents = tuple[int, ...]


"""Index of an agent for each role, in the order of `ROLES`."""


RolePair = tuple[Role, Role]


"""Two roles."""


# Pairs of roles that different agents should hold, the most important first.
#
# Source: MSV, departures (papers.md 1.5): meta-level monitoring is not object-level critique, and the generalist stands
# outside the chain.
APART: tuple[RolePair, ...] = (
    (Role.CRITIC, Role.EVALUATOR),
    *((role, Role.GENERALIST) for role in ROLES if role is not Role.GENERALIST),
)


class InfeasibleAssignment(MetacogError):
    """No assignment satisfies the constraints; the error names the one that cannot hold."""

    code = Code.FAILED_PRECONDITION
    reason = "INFEASIBLE_ASSIGNMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem states the agents, their fitness and the constraints of an assignment.

    Attributes:
        agents: Identifiers in ascending order, one a column; the order makes ties deterministic.
        fitness: Fitness [roles x agents, 0..1]; NaN where unknown.
        values: The same, to 1e-12, with unknown cells at `ASSUMED_FITNESS` [roles x agents, 0..1].
        capacities: Roles that each agent may hold [count, 1..5; shape (agents,)].
        allowed: Pairs that may be [roles x agents].
        pins: The pins that `allowed` already expresses, for messages.
        apart: Pairs of roles that no agent may hold together.
        released: Pairs that were to be apart, and are not, because the agents are too few.
    """

    agents: tuple[str, ...]
    fitness: Floats
    values: Floats
    capacities: NDArray[np.intp]
    allowed: Bools
    pins: Mapping[Role, str] = field(default_factory=dict)
    apart: tuple[RolePair, ...] = ()
    released: tuple[RolePair, ...] = ()


def build_problem(
    agents: Sequence[str],
    fitness: Floats,
    *,
    capacities: Sequence[int],
    pins: Mapping[Role, str] | None = None,
    forbidden: Sequence[tuple[Role, str]] = (),
) -> Problem:
    """Return a problem that does not depend on the order in which agents are listed.

    Args:
        agents: Identifiers, in any order.
        fitness: Fitness [roles x agents, 0..1]; NaN where unknown.
        capacities: Roles that each agent may hold [count, 1..5].
        pins: Agents that must hold a role.
        forbidden: Pairs that must not be.

    Raises:
        NoAgents: For an empty list.
        InfeasibleAssignment: For a pin or a forbidden pair that names an unknown agent, or a pin that is forbidden.
    """
    if not agents:
        raise NoAgents("there is no agent to give a role to")
    order = sorted(range(len(agents)), key=agents.__getitem__)
    names = tuple(agents[index] for index in order)
    places = {name: place for place, name in enumerate(names)} if pins or forbidden else {}
    allowed = np.ones((len(ROLES), len(names)), dtype=bool)
    for role, agent in forbidden:
        allowed[ROLES.index(role), _column(places, agent, "forbidden pair", role)] = False
    for role, agent in (pins or {}).items():
        column = _column(places, agent, "pin", role)
        if not allowed[ROLES.index(role), column]:
            raise InfeasibleAssignment(
                f"{role} is pinned to {agent}, and that pair is forbidden", constraint="pin", role=role, agent=agent
            )
        allowed[ROLES.index(role)] = np.arange(len(names)) == column
    sorted_fitness = fitness[:, order]
    values: Floats = np.where(np.isnan(sorted_fitness), ASSUMED_FITNESS, sorted_fitness)
    return Problem(
        agents=names,
        fitness=sorted_fitness,
        values=values.round(FITNESS_DECIMALS),
        capacities=np.array([min(capacities[index], len(ROLES)) for index in order], dtype=np.intp),
        allowed=allowed,
        pins=dict(pins or {}),
    )


def shared_capacities(stated: Sequence[int | None]) -> list[int]:
    """Return the roles that each agent may hold, where some state it and the others share what is left.

    Args:
        stated: Roles that each agent may hold [count, >= 1]; None where none is stated.

    Returns:
        What is stated; else ⌈5/N⌉, or as many as are needed for every role to be held [count, >= 1].

    Source:
        Ours (papers.md 1.4); that the others make up for small stated capacities is ours.

    Example:
        >>> shared_capacities([None, None]), shared_capacities([1, 1, None]), shared_capacities([2, 2])
        ([3, 3], [1, 1, 3], [2, 2])
    """
    stated_ones = [capacity for capacity in stated if capacity is not None]
    others = len(stated) - len(stated_ones)
    if not others:
        return stated_ones
    share = max(_ceiling(len(ROLES), len(stated)), _ceiling(max(0, len(ROLES) - sum(stated_ones)), others))
    return [share if capacity is None else capacity for capacity in stated]


def infeasible(problem: Problem) -> InfeasibleAssignment:
    """Return the error for the smallest set of roles whose agents cannot hold them all (Hall's condition)."""
    room = int(problem.capacities.sum())
    if room < len(ROLES):
        return InfeasibleAssignment(
            f"the agents may hold {room} roles in all and there are {len(ROLES)}; raise a capacity or add agents",
            constraint="capacity",
            capacity=str(room),
        )
    for size in range(1, len(ROLES) + 1):
        for roles in combinations(range(len(ROLES)), size):
            able = problem.allowed[list(roles)].any(axis=0)
            if int(problem.capacities[able].sum()) < size:
                return _crowded([ROLES[r] for r in roles], [problem.agents[a] for a in np.flatnonzero(able)], problem)
    raise AssertionError("every set of roles has room, yet no assignment was found")


def _crowded(roles: Sequence[Role], agents: Sequence[str], problem: Problem) -> InfeasibleAssignment:
    names, holders = ", ".join(roles), ", ".join(agents) or "no agent"
    constraint = "pin" if any(role in problem.pins for role in roles) else "forbidden pair"
    return InfeasibleAssignment(
        f"{names}: pins and forbidden pairs leave "
        + (f"only {holders}, who may not hold {len(roles)} role(s)" if agents else holders),
        constraint=constraint,
        roles=names,
        agents=holders,
    )


def _column(places: Mapping[str, int], agent: str, what: str, role: Role) -> int:
    if agent not in places:
        message = f"the {what} of {role} names {agent!r}, which is none of the agents"
        raise InfeasibleAssignment(message, constraint=what, role=role, agent=agent)
    return places[agent]


def _ceiling(amount: int, parts: int) -> int:
    return -(-amount // parts)
