"""The arms of a comparison: a System 2, and what it must be better than. Pure."""

from collections.abc import Sequence

from evals.harness.arms import Arm
from evals.strategies import AGENT, CHAT_MODELS, ROLES, ROUTE, VARIANTS, limited, named
from kernel.policy import Strategy

SYSTEM_ONE = Strategy.SYSTEM_ONE.value
SAME_GENERATIONS = "self-consistency"
MAJORITY = "majority"
# Samples of the majority vote: those of the arbiter's two solvers.
VOTE_SAMPLES = 10
# The default model name, by which the router decides itself.
AUTO = "auto"
SYSTEM_TWOS = (*(name for name in CHAT_MODELS if name != SYSTEM_ONE), *ROLES, "mc-mas")


def arms(system_two: str, agents: Sequence[str] = (), assessor: str = "", max_tokens: int = 0) -> Sequence[Arm]:
    """Return every arm that a comparison of `system_two` needs; the default model name routes by itself.

    Args:
        system_two: One of `SYSTEM_TWOS`.
        agents: Delegation agents, each a control by itself.
        assessor: Who assesses for the routing; empty: the router's default.
        max_tokens: Tokens of each text [count]; 0: the services' own limits.
    """
    roles = ["roles-greedy", "roles-random"] if system_two == "roles-optimal" else []
    arms_of_strategy = [
        *([] if system_two == AUTO else [named(ROUTE, assessor=assessor)]),
        named(SYSTEM_ONE),
        named(system_two),
        named(SAME_GENERATIONS, like=system_two),
        named(MAJORITY, samples=VOTE_SAMPLES),
        *(named(name) for name in roles),
        *(named(AGENT + agent) for agent in agents),
    ]
    return [limited(arm, max_tokens) for arm in arms_of_strategy]


def control_names(found: Sequence[str], system_two: str) -> Sequence[str]:
    """The arms among `found` that `system_two` must be better than."""
    known = (SYSTEM_ONE, *VARIANTS, "roles-greedy", "roles-random")
    return [name for name in found if name != system_two and (name in known or name.startswith(AGENT))]
