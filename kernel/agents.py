"""The agents that a request names are checked against the configured ones."""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from kernel.errors import NoAgents, UnknownAgent

# Agents that an error lists at most [count].
MAX_LISTED = 20

A = TypeVar("A")


def check_agent(name: str, known: Collection[str], *, field: str) -> None:
    """Return if there is an agent of that name.

    Args:
        name: Identifier of the agent.
        known: Identifiers of the configured agents, in their order.
        field: Field of the request that names the agent.

    Raises:
        UnknownAgent: When there is not; names the field, the agent, and those that there are.

    Example:
        >>> check_agent("ada", ["ada", "ben"], field="solver_agents")
    """
    if name not in known:
        listed = ", ".join(islice(known, MAX_LISTED)) or "none"
        more = ", ..." if len(known) > MAX_LISTED else ""
        message = f"{field}: {name!r} is not configured; there are {listed}{more}"
        raise UnknownAgent(message, field=field, agent=name)


def participants(requested: Sequence[str], configured: Mapping[str, A]) -> dict[str, A]:
    """Return the agents that take part, in the order of the configuration; all of them if none is requested.

    Args:
        requested: Identifiers that the field `agents` of the request names.
        configured: The configured agents by identifier.

    Raises:
        NoAgents: When no agent is configured.
        UnknownAgent: For one that is not configured.

    Example:
        >>> participants(["ben"], {"ada": 1, "ben": 2})
        {'ben': 2}
    """
    for name in requested:
        check_agent(name, configured, field="agents")
    if not configured:
        raise NoAgents("no agents are configured")
    return {name: agent for name, agent in configured.items() if not requested or name in requested}
