"""The assignment gives all roles to agents at once, with the best total fitness.

Its margins and baselines are here too.

Source: MSV Eq. 6 (papers.md 1.4): maximise the sum of fitness over all maps of roles to agents at once.
"""

from kernel.assignment.apart import with_roles_apart
from kernel.assignment.chance import DrawnAssignment, count_assignments, explored_assignment, random_assignment
from kernel.assignment.problem import (
    APART,
    ASSUMED_FITNESS,
    AssignedAgents,
    InfeasibleAssignment,
    Problem,
    RolePair,
    build_problem,
    shared_capacities,
)
from kernel.assignment.solving import best_assignment, greedy_assignment, is_tie, margins, total_fitness
from kernel.errors import NoAgents

__all__ = [
    "APART",
    "ASSUMED_FITNESS",
    "AssignedAgents",
    "DrawnAssignment",
    "InfeasibleAssignment",
    "NoAgents",
    "Problem",
    "RolePair",
    "best_assignment",
    "build_problem",
    "count_assignments",
    "explored_assignment",
    "greedy_assignment",
    "is_tie",
    "margins",
    "random_assignment",
    "shared_capacities",
    "total_fitness",
    "with_roles_apart",
]
