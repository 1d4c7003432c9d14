"""Agents are configured in `agents.yaml`, which is checked with line numbers and read again when it changes."""

import os
from collections.abc import Sequence
from pathlib import Path

from chassis.errors import ConfigurationInvalid
from configuration.yaml_file import YamlFile
from kernel.values import value

DEFAULT_AGENTS_FILE = Path(__file__).parents[1] / "config" / "agents.yaml"


@value
class AgentConfig:
    """An agent is a model with a prompt of its own.

    Attributes:
        id: Identifier, unique in the file: letters, digits, `-` and `_`.
        model: Name of the model; empty: the suite's default model.
        base_url: OpenAI-compatible server, with its /v1; empty: the suite's default server.
        api_key_env: Environment variable that holds the key of that server; empty: the suite's default key.
        system_prompt: Prompt that each call of the agent begins with.
        capacity: Roles it may hold at once [count, >= 1]; None: the service decides.
        tags: Free labels.
        thinking: Whether a thinking model may think in the stages; None: as the model does by default.
        temperature: Sampling temperature of its texts [0..2].
    """

    id: str
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    system_prompt: str = ""
    capacity: int | None = None
    tags: Sequence[str] = ()
    thinking: bool | None = None
    temperature: float = 0.7


@value
class AgentsFile:
    """The agents file lists the agents."""

    agents: Sequence[AgentConfig]


class Agents:
    """The agents are read again when their file changes; while it is invalid, the last valid ones stay in use.

    Args:
        path: The file.

    Raises:
        ConfigurationInvalid: When the file cannot be used at start; names the line and the reason.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()
        self._agents = read_agents(path)
        self.problem = ""

    def current(self) -> tuple[AgentConfig, ...]:
        """Return the agents of the file as it is now, or the last valid ones when it is invalid."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._agents, self.problem = read_agents(self._path), ""
            except ConfigurationInvalid as error:
                self.problem = error.message
        return self._agents

    async def check(self) -> None:
        """Return if the file can be used as it is now.

        Raises:
            ConfigurationInvalid: While it is invalid and the last valid agents are in use.
        """
        self.current()
        if self.problem:
            raise ConfigurationInvalid(f"{self.problem}; the agents read before are in use")

    def _stamp(self) -> tuple[int, int]:
        try:
            stat = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (stat.st_mtime_ns, stat.st_size)


def read_agents(path: Path) -> tuple[AgentConfig, ...]:
    """Return the agents of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, AgentsFile)
    listed = file.content.agents
    for index, agent in enumerate(listed):
        problem = _problem(agent, [other.id for other in listed[:index]])
        if problem:
            raise file.error_at(["agents", index], problem)
    if not listed:
        raise file.error_at(["agents"], "agents: at least one agent is needed")
    return tuple(listed)


def _problem(agent: AgentConfig, earlier: Sequence[str]) -> str:
    if not agent.id or not agent.id.replace("-", "").replace("_", "").isalnum():
        return f"id {agent.id!r} must be letters, digits, `-` and `_`"
    if agent.id in earlier:
        return f"id {agent.id!r} is used twice"
    if agent.capacity is not None and agent.capacity < 1:
        return f"capacity of {agent.id!r} is {agent.capacity}; it must be at least 1"
    if not 0 <= agent.temperature <= 2:
        return f"temperature of {agent.id!r} is {agent.temperature}; it must lie in [0, 2]"
    if agent.base_url and not agent.base_url.startswith(("http://", "https://")):
        return f"base_url of {agent.id!r} is {agent.base_url!r}; it must start with http:// or https://"
    return ""
