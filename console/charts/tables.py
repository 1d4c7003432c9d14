"""The fitness matrix of an assignment, and the shades of table cells."""

from collections.abc import Mapping, Sequence

from metacog.assigner.v1.assigner_pb2 import AssignResponse, RolesAssigned
from metacog.common.v1.msv_pb2 import MSV
from metacog.common.v1.stage_pb2 import Role

from chassis.serving.wire import word
from console.replies.fields import component
from kernel.roles import ROLES
from kernel.values import value

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


def fitness_matrix(roles: RolesAssigned, states: Mapping[str, MSV | None]) -> Matrix:
    """Return the matrix of an assignment.

    Args:
        roles: Reply of the assigner: the assignment, and the optimum with its matrix.
        states: MSV of each agent.
    """
    optimum = roles.optimum
    agents = sorted({*states, *(agent for fitness in optimum.fitness.values() for agent in fitness.by_agent)})
    partial = {(word(Role, each.role), each.agent): each.unknown for each in optimum.partial}
    rows = []
    for role in (role.value for role in ROLES if role in optimum.fitness):
        fitness = optimum.fitness[role].by_agent
        cells = [
            Cell(
                role=role,
                agent=agent,
                fitness=fitness.get(agent),
                is_chosen=roles.assignment.get(role) == agent,
                is_greedy=optimum.greedy.assignment.get(role) == agent,
                unknown=partial.get((role, agent), ()),
                terms=_terms(optimum, role, agent, states.get(agent)),
            )
            for agent in agents
        ]
        rows.append(Row(role=role, cells=cells, margin=optimum.margins.get(role)))
    return Matrix(agents=agents, rows=rows)


def _terms(optimum: AssignResponse, role: str, agent: str, state: MSV | None) -> list[Weighed]:
    """Return the terms of a fitness, by name; a map of the contract has no order."""
    weights = optimum.weights[role].by_component if role in optimum.weights else {}
    explained = optimum.terms[role].by_agent if role in optimum.terms else {}
    shares = explained[agent].by_component if agent in explained else {}
    return [
        Weighed(component=name, weight=weights.get(name), state=_level(state, name), share=shares.get(name))
        for name in sorted(weights or shares)
    ]


def _level(state: MSV | None, name: str) -> float | None:
    """Return the level of a component, or of its complement."""
    if name == "incorrectness":
        correctness = component(state, "correctness")
        return None if correctness is None else 1.0 - correctness
    return component(state, name)
