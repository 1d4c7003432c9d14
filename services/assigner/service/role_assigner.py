"""Roles are assigned in a deliberation at the start, and again when an agent has failed."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from configuration.agents import AgentConfig
from kernel.assignment import (
    DrawnAssignment,
    Problem,
    best_assignment,
    build_problem,
    count_assignments,
    explored_assignment,
    greedy_assignment,
    random_assignment,
    shared_capacities,
)
from kernel.errors import MalformedRequest, UnknownAgent
from kernel.roles import ROLES, FitnessMatrix, Role, VersionedWeights
from services.assigner.service.assignment import assignment_problem, explained, with_total
from services.assigner.service.values import (
    AgentAssessed,
    AssignmentKind,
    AssignRequest,
    Candidate,
    ForbiddenPair,
    RolesAssigned,
)


def random_seed() -> int:
    """Return a seed from the operating system."""
    return secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPolicy:
    """This value says how roles are assigned.

    Attributes:
        weights: Weights of the fitness in force.
        exploration_share: Share of the deliberations whose request states no kind, in which chance decides [0..1].
        keep_apart: Whether roles that should be apart go to different agents where the request does not say.
        chance: Returns the seed of a draw where the request gives none.
    """

    weights: VersionedWeights = field(default_factory=VersionedWeights)
    exploration_share: float = 0.0
    keep_apart: bool = False
    chance: Callable[[], int] = random_seed


class RoleAssigner:
    """The role assigner assigns the roles of one deliberation.

    Args:
        agents: The agents that take part.
        policy: How roles are assigned.
        kind: The kind of assignment that the request asks for; None leaves it to the policy.
        fixed: Agent by role, for a fixed assignment.
        seed: Seed of a draw; None takes one from the policy.
        keep_apart: Whether roles that should be apart go to different agents; None: as the policy says.

    Raises:
        MalformedRequest: For a fixed assignment that leaves out a role.
        UnknownAgent: For one that names another agent.
        InfeasibleAssignment: When the stated capacities do not suffice for all roles.
    """

    def __init__(
        self,
        agents: Sequence[AgentConfig],
        policy: AssignmentPolicy,
        *,
        kind: AssignmentKind | None,
        fixed: Mapping[Role, str],
        seed: int | None,
        keep_apart: bool | None = None,
    ) -> None:
        self._capacities = {agent.id: agent.capacity for agent in agents}
        self._policy = policy
        self._kind = kind
        self._fixed = fixed
        self._seed = seed
        self._keep_apart = policy.keep_apart if keep_apart is None else keep_apart
        ids = list(self._capacities)
        if kind is AssignmentKind.FIXED:
            _check_fixed(fixed, ids)
        else:
            capacities = shared_capacities(list(self._capacities.values()))
            best_assignment(build_problem(ids, np.zeros((len(ROLES), len(ids))), capacities=capacities))

    def first(self, assessments: Sequence[AgentAssessed]) -> RolesAssigned:
        """Return the assignment at the start, of the kind asked for."""
        matrix, problem = self._problem(assessments, failed=(), played={})
        return self._assigned(matrix, problem, self._drawn(problem))

    def again(
        self, assessments: Sequence[AgentAssessed], failed: Collection[str], played: Mapping[Role, str], reason: str
    ) -> RolesAssigned:
        """Return the best assignment of the roles not yet `played` to the agents that have not `failed`.

        Raises:
            InfeasibleAssignment: When the others may not hold them.
        """
        matrix, problem = self._problem(assessments, failed=failed, played=played)
        drawn = DrawnAssignment(chosen=best_assignment(problem), propensity=1.0)
        return self._assigned(matrix, problem, drawn, reason)

    def _problem(
        self, assessments: Sequence[AgentAssessed], *, failed: Collection[str], played: Mapping[Role, str]
    ) -> tuple[FitnessMatrix, Problem]:
        ids = [assessed.agent for assessed in assessments]
        capacities = self._capacities_left(ids, failed, played)
        request = AssignRequest(
            agents=[
                Candidate(id=assessed.agent, msv=assessed.msv, capacity=capacity)
                for assessed, capacity in zip(assessments, capacities, strict=True)
            ],
            pins=played,
            forbidden=[
                ForbiddenPair(role=role, agent=agent)
                for agent in sorted(failed)
                for role in ROLES
                if role not in played
            ],
            keep_apart=self._keep_apart,
        )
        return assignment_problem(request, self._policy.weights)

    def _capacities_left(self, ids: Sequence[str], failed: Collection[str], played: Mapping[Role, str]) -> list[int]:
        """Return the roles that each agent may still hold; a role that it has played counts no more."""
        left = [agent for agent in ids if agent not in failed]
        shares = dict(zip(left, shared_capacities([self._capacities[agent] for agent in left]), strict=True))
        done = list(played.values())
        return [max(1, shares.get(agent, 0) + done.count(agent)) for agent in ids]

    def _drawn(self, problem: Problem) -> DrawnAssignment:
        """Return an assignment of the kind asked for, and the probability with which it was drawn."""
        match self._kind:
            case None:
                return explored_assignment(problem, self._policy.exploration_share, self._rng())
            case AssignmentKind.OPTIMAL:
                return DrawnAssignment(chosen=best_assignment(problem), propensity=1.0)
            case AssignmentKind.GREEDY:
                return DrawnAssignment(chosen=greedy_assignment(problem) or best_assignment(problem), propensity=1.0)
            case AssignmentKind.RANDOM:
                chosen = random_assignment(problem, self._rng())
                return DrawnAssignment(chosen=chosen, propensity=1.0 / count_assignments(problem))
            case AssignmentKind.FIXED:
                fixed = tuple(problem.agents.index(self._fixed[role]) for role in ROLES)
                return DrawnAssignment(chosen=fixed, propensity=1.0)
            case _:
                assert_never(self._kind)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._policy.chance() if self._seed is None else self._seed)

    def _assigned(
        self, matrix: FitnessMatrix, problem: Problem, drawn: DrawnAssignment, reason: str = ""
    ) -> RolesAssigned:
        roles = with_total(problem, drawn.chosen)
        return RolesAssigned(
            assignment_kind=self._kind or AssignmentKind.OPTIMAL,
            assignment=roles.assignment,
            total_fitness=roles.total_fitness,
            propensity=drawn.propensity,
            optimum=explained(matrix, problem, version=self._policy.weights.version),
            reason=reason,
            explored=drawn.explored,
            capacities=dict(zip(problem.agents, problem.capacities.tolist(), strict=True)),
        )


def _check_fixed(fixed: Mapping[Role, str], agents: Sequence[str]) -> None:
    for role in ROLES:
        if role not in fixed:
            raise MalformedRequest(f"fixed_assignment: {role} is missing", field="fixed_assignment", role=role)
        if fixed[role] not in agents:
            message = f"fixed_assignment: {role} needs one of {', '.join(agents)}, not {fixed[role]!r}"
            raise UnknownAgent(message, field="fixed_assignment", role=role, agent=fixed[role])
