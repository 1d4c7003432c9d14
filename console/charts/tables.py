"""The fitness matrix of an assignment, and the shades of table cells."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.roles import ROLES
from kernel.values import value

Data = Mapping[str, Any]

SHADES = 10


def shade(level: float | None) -> str:
    """Return the CSS class of a cell's shade.

    Example:
        >>> shade(0.0), shade(0.55), shade(1.0), shade(None)
        ('shade-0', 'shade-6', 'shade-10', 'shade-none')
    """
    if level is None:
        return "shade-none"
    return f"shade-{int(min(1.0, max(0.0, level)) * SHADES + 0.5)}"


@value
class Weighed:
    """A term of a fitness: weight x component, or its complement."""

    component: str
    weight: float | None
    state: float | None
    share: float | None


@value
class Cell:
    """Fitness of one agent for one role.

    Attributes:
        role: The role.
        agent: The agent.
        fitness: The fitness [0..1]; None if unknown.
        is_chosen: Whether the agent has the role.
        is_greedy: Whether the greedy assignment gives it the role.
        unknown: Components that are left out.
        terms: Terms of the fitness.
    """

    role: str
    agent: str
    fitness: float | None
    is_chosen: bool
    is_greedy: bool
    unknown: Sequence[str]
    terms: Sequence[Weighed]


@value
class Row:
    """The row of one role, with the loss in total fitness without its choice."""

    role: str
    cells: Sequence[Cell]
    margin: float | None


@value
class Matrix:
    """The fitness matrix with the assignment in it."""

    agents: Sequence[str]
    rows: Sequence[Row]


def fitness_matrix(roles: Data, states: Mapping[str, Data]) -> Matrix:
    """Return the matrix of an assignment.

    Args:
        roles: Reply of the assigner: the assignment, and the optimum with its matrix.
        states: MSV of each agent.
    """
    optimum = roles.get("optimum") or {}
    fitness: Data = optimum.get("fitness") or {}
    agents = sorted({*states, *(agent for by_agent in fitness.values() for agent in by_agent)})
    partial = {(each["role"], each["agent"]): each["unknown"] for each in optimum.get("partial") or ()}
    greedy = ((optimum.get("greedy") or {}).get("assignment")) or {}
    rows = []
    for role in (role.value for role in ROLES if role in fitness):
        weights = (optimum.get("weights") or {}).get(role) or {}
        cells = [
            Cell(
                role=role,
                agent=agent,
                fitness=fitness[role].get(agent),
                is_chosen=roles["assignment"].get(role) == agent,
                is_greedy=greedy.get(role) == agent,
                unknown=partial.get((role, agent), ()),
                terms=_terms(weights, states.get(agent) or {}, _explained(optimum, role, agent)),
            )
            for agent in agents
        ]
        rows.append(Row(role=role, cells=cells, margin=(optimum.get("margins") or {}).get(role)))
    return Matrix(agents=agents, rows=rows)


def _explained(optimum: Data, role: str, agent: str) -> Data:
    return ((optimum.get("terms") or {}).get(role) or {}).get(agent) or {}


def _terms(weights: Data, state: Data, shares: Data) -> list[Weighed]:
    names = list(weights) or list(shares)
    return [
        Weighed(component=name, weight=weights.get(name), state=_taken(state, name), share=shares.get(name))
        for name in names
    ]


def _taken(state: Data, name: str) -> float | None:
    """Return the level of a component, or of its complement."""
    if name == "incorrectness":
        correctness = state.get("correctness")
        return None if correctness is None else 1.0 - correctness
    level: float | None = state.get(name)
    return level
