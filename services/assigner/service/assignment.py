"""This use case assigns the best roles to agents, and explains them."""

import asyncio
from collections.abc import Sequence

import numpy as np

from kernel.assignment import (
    AssignedAgents,
    Problem,
    best_assignment,
    build_problem,
    greedy_assignment,
    is_tie,
    margins,
    total_fitness,
    with_roles_apart,
)
from kernel.errors import MalformedRequest
from kernel.msv import MSV
from kernel.roles import (
    FITNESS_DECIMALS,
    FITNESS_TERMS,
    ROLES,
    FitnessMatrix,
    Role,
    VersionedWeights,
    checked_weights,
    fitness_matrix,
)
from services.assigner.service.values import (
    AssignRequest,
    AssignResponse,
    Candidate,
    PartialFitness,
    RoleAssignment,
    RolePair,
)

MAX_AGENTS = 10_000
# From here on, writing every cell takes long enough to leave the event loop for it.
MANY_AGENTS = 200


async def assign(request: AssignRequest, *, weights: VersionedWeights = VersionedWeights()) -> AssignResponse:  # noqa: B008
    """Find the best assignment for the request, with matrix, terms, margins and the greedy baseline.

    Args:
        request: The candidates, and what bounds their roles.
        weights: The weights in force; the request's own go before them, role by role.
    """
    if len(request.agents) > MANY_AGENTS:
        return await asyncio.to_thread(_assigned, request, weights)
    return _assigned(request, weights)


def _assigned(request: AssignRequest, weights: VersionedWeights) -> AssignResponse:
    matrix, problem = assignment_problem(request, weights)
    version = "" if request.weights or request.fitness else weights.version
    return explained(matrix, problem, version=version, brief=request.brief)


def assignment_problem(request: AssignRequest, weights: VersionedWeights) -> tuple[FitnessMatrix, Problem]:
    """Return the fitness of the candidates and the problem to solve.

    Raises:
        MalformedRequest: For no, too many or repeated agents, or incomplete fitness.
        InvalidWeights: For unusable weights.
        InfeasibleAssignment: For a constraint that names no candidate.
    """
    ids = [agent.id for agent in request.agents]
    _check(request.agents)
    used = checked_weights(request.weights, weights.weights)
    matrix = (
        _given_fitness(request)
        if request.fitness
        else fitness_matrix(ids, [_msv(agent) for agent in request.agents], used)
    )
    problem = build_problem(
        ids,
        matrix.fitness,
        capacities=[1 if agent.capacity is None else agent.capacity for agent in request.agents],
        pins=request.pins,
        forbidden=[(pair.role, pair.agent) for pair in request.forbidden],
    )
    return matrix, with_roles_apart(problem) if request.keep_apart else problem


def explained(matrix: FitnessMatrix, problem: Problem, *, version: str, brief: bool = False) -> AssignResponse:
    """Solve the problem and explain the best assignment; a `brief` response leaves out everything by cell.

    Raises:
        InfeasibleAssignment: When the constraints leave none.
    """
    chosen, greedy = best_assignment(problem), greedy_assignment(problem)
    in_full = bool(matrix.weights) and not brief
    lost = margins(problem, chosen)
    return AssignResponse(
        assignment=by_role(problem, chosen),
        total_fitness=round(total_fitness(problem, chosen), 12),
        fitness={} if brief else _fitness_by_role(matrix),
        terms=_terms(matrix) if in_full else {},
        margins=dict(zip(ROLES, lost, strict=True)),
        greedy=None if greedy is None else with_total(problem, greedy),
        partial=_partial(matrix) if in_full else (),
        weights=matrix.weights,
        weights_version=version,
        tie=is_tie(lost),
        kept_apart=[RolePair(first=first, second=second) for first, second in problem.apart],
        released=[RolePair(first=first, second=second) for first, second in problem.released],
    )


def by_role(problem: Problem, chosen: AssignedAgents) -> dict[Role, str]:
    """Return the agent of each role."""
    return {role: problem.agents[agent] for role, agent in zip(ROLES, chosen, strict=True)}


def with_total(problem: Problem, chosen: AssignedAgents) -> RoleAssignment:
    """Return the assignment `chosen` with its total fitness."""
    total = round(total_fitness(problem, chosen), 12)
    return RoleAssignment(assignment=by_role(problem, chosen), total_fitness=total)


def _check(agents: Sequence[Candidate]) -> None:
    if not 1 <= len(agents) <= MAX_AGENTS:
        raise MalformedRequest(f"agents: give 1 to {MAX_AGENTS} agents, not {len(agents)}", field="agents")
    seen: set[str] = set()
    for agent in agents:
        if not agent.id or agent.id in seen:
            raise MalformedRequest(f"agents: id {agent.id!r} is empty or used twice", field="agents", id=agent.id)
        if agent.capacity is not None and agent.capacity < 1:
            message = f"agents: capacity of {agent.id} is {agent.capacity}; it must be at least 1"
            raise MalformedRequest(message, field="capacity", id=agent.id)
        seen.add(agent.id)


def _msv(agent: Candidate) -> MSV:
    if agent.msv is None:
        message = f"agents: {agent.id} has no msv; give one for every agent, or give fitness"
        raise MalformedRequest(message, field="agents", id=agent.id)
    return agent.msv


def _given_fitness(request: AssignRequest) -> FitnessMatrix:
    unknown = {agent for levels in request.fitness.values() for agent in levels} - {
        agent.id for agent in request.agents
    }
    if unknown:
        first = sorted(unknown)[0]
        raise MalformedRequest(f"fitness: {first!r} is none of the agents", field="fitness", agent=first)
    fitness = np.empty((len(ROLES), len(request.agents)))
    for row, role in enumerate(ROLES):
        for column, agent in enumerate(request.agents):
            level = request.fitness.get(role, {}).get(agent.id)
            if level is None or not 0 <= level <= 1:
                message = f"fitness: {role} needs a number in [0, 1] for {agent.id}, not {level}"
                raise MalformedRequest(message, field="fitness", role=role, agent=agent.id)
            fitness[row, column] = level
    ids = tuple(agent.id for agent in request.agents)
    no_terms = np.empty((len(ROLES), len(ids), 0))
    return FitnessMatrix(agents=ids, fitness=fitness, terms=no_terms, weights={})


def _fitness_by_role(matrix: FitnessMatrix) -> dict[Role, dict[str, float | None]]:
    levels = [[None if cell != cell else cell for cell in row] for row in matrix.fitness.tolist()]
    return {role: dict(zip(matrix.agents, levels[row], strict=True)) for row, role in enumerate(ROLES)}


def _terms(matrix: FitnessMatrix) -> dict[Role, dict[str, dict[str, float]]]:
    cells = np.round(matrix.terms, FITNESS_DECIMALS).tolist()
    places = {
        role: [(FITNESS_TERMS.index(name), name) for name in FITNESS_TERMS if matrix.weights[role].get(name)]
        for role in ROLES
    }
    return {
        role: {
            agent: {name: cell[place] for place, name in places[role] if cell[place] == cell[place]}
            for agent, cell in zip(matrix.agents, cells[row], strict=True)
        }
        for row, role in enumerate(ROLES)
    }


def _partial(matrix: FitnessMatrix) -> list[PartialFitness]:
    counts = np.array([[bool(matrix.weights[role].get(name)) for name in FITNESS_TERMS] for role in ROLES])
    incomplete = (np.isnan(matrix.terms) & counts[:, None]).any(axis=2)
    return [
        PartialFitness(role=ROLES[row], agent=matrix.agents[column], unknown=matrix.unknown(ROLES[row], column))
        for row, column in np.argwhere(incomplete).tolist()
    ]
