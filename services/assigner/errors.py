"""Refusals of the assigner.

MetacogError
├── InvalidWeights           weights of a role are negative or do not sum to 1 (kernel.roles)
├── InfeasibleAssignment     the constraints leave no assignment; names the one that cannot hold (kernel.assignment)
├── NoAgents                 nobody is configured (kernel.assignment)
└── UnknownAgent             the request names an agent that is not configured
"""

from kernel.errors import Code, MetacogError


class UnknownAgent(MetacogError):
    """The request names an agent that is not configured."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_AGENT"
