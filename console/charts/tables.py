"""Tables whose cells are shaded: fitness of agents for roles, profiles of agents by dimension, hand-overs."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.values import value

Data = Mapping[str, Any]

ROLES = ("EXPERT", "CRITIC", "EVALUATOR", "SYNTHESIZER", "GENERALIST")
SHADES = 10


def shade(level: float | None) -> str:
    """Class of a cell's shade; `none` for what is unknown.

    Example:
        >>> shade(0.0), shade(0.55), shade(1.0), shade(None)
        ('shade-0', 'shade-6', 'shade-10', 'shade-none')
    """
    if level is None:
        return "shade-none"
    return f"shade-{int(min(1.0, max(0.0, level)) * SHADES + 0.5)}"


@value
class Weighed:
    """One term of a fitness: weight x what the role takes of the component."""

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
        fitness: The fitness [0..1]; None where it is unknown.
        is_chosen: Whether the agent has the role.
        is_greedy: Whether greedy would have given it the role.
        unknown: Components that were left out.
        terms: What each component adds.
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
    """One role, with what would be lost without its choice."""

    role: str
    cells: Sequence[Cell]
    margin: float | None


@value
class Matrix:
    """The fitness matrix with the assignment in it."""

    agents: Sequence[str]
    rows: Sequence[Row]


def fitness_matrix(roles: Data, states: Mapping[str, Data]) -> Matrix:
    """The matrix of an assignment.

    Args:
        roles: What the assigner told: the assignment, and the optimum with its matrix.
        states: MSV of each agent.
    """
    optimum = roles.get("optimum") or {}
    fitness: Data = optimum.get("fitness") or {}
    agents = sorted({*states, *(agent for by_agent in fitness.values() for agent in by_agent)})
    partial = {(each["role"], each["agent"]): each["unknown"] for each in optimum.get("partial") or ()}
    greedy = ((optimum.get("greedy") or {}).get("assignment")) or {}
    rows = []
    for role in (name for name in ROLES if name in fitness):
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
    """What a role takes of a component: some take its complement."""
    if name == "incorrectness":
        correctness = state.get("correctness")
        return None if correctness is None else 1.0 - correctness
    level: float | None = state.get(name)
    return level
