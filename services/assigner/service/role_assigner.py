"""Who plays which role in a deliberation: at first, and again when an agent has failed."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

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
from kernel.seeds import derived_seed
from services.assigner.service.assign import explained, stated, totalled
from services.assigner.service.values import (
    AgentAssessed,
    AssignmentKind,
    AssignRequest,
    Candidate,
    DeliberateRequest,
    ForbiddenPair,
    RolesAssigned,
)


def drawn_seed() -> int:
    """A seed that nobody chose."""
    return secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPolicy:
    """How roles are given.

    Attributes:
        weights: Weights of the fitness in force.
        exploration_share: Share of the deliberations whose request states no kind, in which chance decides [0..1].
        chance: Seed of a draw for which the request gives none.
    """

    weights: VersionedWeights = field(default_factory=VersionedWeights)
    exploration_share: float = 0.0
    chance: Callable[[], int] = drawn_seed


class RoleAssigner:
    """Gives the roles of one deliberation.

    Args:
        ask: The request.
        agents: Who takes part.
        policy: How roles are given.

    Raises:
        MalformedRequest: For a fixed assignment that leaves out a role.
        UnknownAgent: For one that names somebody else.
        InfeasibleAssignment: When the stated capacities do not reach for five roles.
    """

    def __init__(self, ask: DeliberateRequest, agents: Sequence[AgentConfig], policy: AssignmentPolicy) -> None:
        self._ask = ask
        self._agents = agents
        self._policy = policy
        if ask.assignment_kind is AssignmentKind.FIXED:
            _check_fixed(ask.fixed_assignment, [agent.id for agent in agents])
        else:
            ids = [agent.id for agent in agents]
            capacities = shared_capacities([agent.capacity for agent in agents])
            best_assignment(build_problem(ids, np.zeros((len(ROLES), len(ids))), capacities=capacities))

    def first(self, assessments: Sequence[AgentAssessed]) -> RolesAssigned:
        """The roles as the request has them given."""
        matrix, problem = self._stated(assessments, gone=(), played={})
        return self._told(matrix, problem, self._drawn(problem))

    def again(
        self, assessments: Sequence[AgentAssessed], *, gone: Collection[str], played: Mapping[Role, str], reason: str
    ) -> RolesAssigned:
        """The roles not yet played, as well as they can be given without the agents that are `gone`.

        Raises:
            InfeasibleAssignment: When the others may not hold them.
        """
        matrix, problem = self._stated(assessments, gone=gone, played=played)
        return self._told(matrix, problem, DrawnAssignment(chosen=best_assignment(problem), propensity=1.0), reason)

    def _stated(
        self, assessments: Sequence[AgentAssessed], *, gone: Collection[str], played: Mapping[Role, str]
    ) -> tuple[FitnessMatrix, Problem]:
        request = AssignRequest(
            agents=[
                Candidate(id=made.agent, msv=made.msv, capacity=capacity)
                for made, capacity in zip(assessments, self._capacities(assessments, gone, played), strict=True)
            ],
            pins=played,
            forbidden=[
                ForbiddenPair(role=role, agent=agent) for agent in sorted(gone) for role in ROLES if role not in played
            ],
        )
        return stated(request, self._policy.weights)

    def _capacities(
        self, assessments: Sequence[AgentAssessed], gone: Collection[str], played: Mapping[Role, str]
    ) -> list[int]:
        """Roles that each agent may still hold; one that it has played is done with, and counts no more."""
        said = {agent.id: agent.capacity for agent in self._agents}
        here = [made.agent for made in assessments if made.agent not in gone]
        shares = dict(zip(here, shared_capacities([said[agent] for agent in here]), strict=True))
        done = list(played.values())
        return [max(1, shares.get(made.agent, 0) + done.count(made.agent)) for made in assessments]

    def _drawn(self, problem: Problem) -> DrawnAssignment:
        """The assignment of the kind asked for, and the probability with which it was drawn."""
        match self._ask.assignment_kind:
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
                wanted = self._ask.fixed_assignment
                return DrawnAssignment(
                    chosen=tuple(problem.agents.index(wanted[role]) for role in ROLES), propensity=1.0
                )

    def _rng(self) -> np.random.Generator:
        seed = self._ask.assignment_seed
        if seed is None and self._ask.seed is not None:
            seed = derived_seed(self._ask.seed, "assignment")
        return np.random.default_rng(self._policy.chance() if seed is None else seed)

    def _told(self, matrix: FitnessMatrix, problem: Problem, drawn: DrawnAssignment, reason: str = "") -> RolesAssigned:
        given = totalled(problem, drawn.chosen)
        return RolesAssigned(
            assignment_kind=self._ask.assignment_kind or AssignmentKind.OPTIMAL,
            assignment=given.assignment,
            total_fitness=given.total_fitness,
            propensity=drawn.propensity,
            optimum=explained(matrix, problem, version=self._policy.weights.version),
            reason=reason,
            explored=drawn.explored,
            capacities=dict(zip(problem.agents, problem.capacities.tolist(), strict=True)),
        )


def _check_fixed(wanted: Mapping[Role, str], agents: Sequence[str]) -> None:
    for role in ROLES:
        if role not in wanted:
            raise MalformedRequest(f"fixed_assignment: {role} is missing", field="fixed_assignment", role=role)
        if wanted[role] not in agents:
            said = f"fixed_assignment: {role} needs one of {', '.join(agents)}, not {wanted[role]!r}"
            raise UnknownAgent(said, field="fixed_assignment", role=role, agent=wanted[role])
