"""Refusals of the assigner.

MetacogError
├── InvalidWeights           weights of a role are negative or do not sum to 1
├── InfeasibleAssignment     the constraints leave no assignment; names the one that cannot hold
├── UnknownAgent             the request names an agent that is not configured
└── NoAgents                 nobody is configured
"""

from kernel.errors import Code, MetacogError


class InvalidWeights(MetacogError):
    """Weights of a role are negative, do not sum to 1, or name no component."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_WEIGHTS"


class InfeasibleAssignment(MetacogError):
    """No assignment satisfies the constraints."""

    code = Code.FAILED_PRECONDITION
    reason = "INFEASIBLE_ASSIGNMENT"


class UnknownAgent(MetacogError):
    """The request names an agent that is not configured."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_AGENT"


class NoAgents(MetacogError):
    """There is no agent to give a role to."""

    code = Code.FAILED_PRECONDITION
    reason = "NO_AGENTS"
