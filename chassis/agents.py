"""Agents are configuration: read from `agents.yaml`, checked with line numbers, read again when the file changes."""

import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from chassis.errors import ConfigurationInvalid
from chassis.wire import MalformedRequest, from_plain
from kernel.values import value


@value
class AgentConfig:
    """One agent.

    Attributes:
        id: Identifier, unique in the file: letters, digits, `-` and `_`.
        model: Model to ask for; empty: the suite's default model.
        base_url: OpenAI-compatible server, with its /v1; empty: the suite's default server.
        api_key_env: Environment variable that holds the key of that server; empty: the suite's default key.
        system_prompt: What the agent is told about itself.
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
    """The agents file."""

    agents: Sequence[AgentConfig]


class Agents:
    """The configured agents; a changed file is read again, and a broken one is refused and the last good kept.

    Args:
        path: The file.

    Raises:
        ConfigurationInvalid: When the file cannot be used at start; says where and why.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()
        self._agents = read_agents(path)
        self.complaint = ""

    def current(self) -> tuple[AgentConfig, ...]:
        """The agents as the file has them now, or as it last had them when it is broken."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._agents, self.complaint = read_agents(self._path), ""
            except ConfigurationInvalid as wrong:
                self.complaint = wrong.message
        return self._agents

    async def check(self) -> None:
        """Return if the file can be used as it is now.

        Raises:
            ConfigurationInvalid: While it is broken and the last good agents are in use.
        """
        self.current()
        if self.complaint:
            raise ConfigurationInvalid(f"{self.complaint}; the agents read before are in use")

    def _stamp(self) -> tuple[int, int]:
        try:
            stat = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (stat.st_mtime_ns, stat.st_size)


def read_agents(path: Path) -> tuple[AgentConfig, ...]:
    """Agents of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    try:
        source = path.read_text()
        root = yaml.compose(source, Loader=yaml.SafeLoader)
        listed = from_plain(yaml.safe_load(source) or {}, AgentsFile)
    except OSError as wrong:
        raise _wrong(path, None, f"cannot be read: {wrong.strerror}") from wrong
    except yaml.MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark else None
        raise _wrong(path, line, wrong.problem or "is not YAML") from wrong
    except MalformedRequest as wrong:
        place = next(iter(wrong.metadata), "")
        raise _wrong(path, _line(root, place.split(".")), wrong.message) from wrong
    except (yaml.YAMLError, ValueError) as wrong:  # what is no text, or a date that does not exist
        raise _wrong(path, None, f"cannot be read: {wrong}") from wrong
    for index, agent in enumerate(listed.agents):
        complaint = _complaint(agent, [other.id for other in listed.agents[:index]])
        if complaint:
            raise _wrong(path, _line(root, ["agents", str(index)]), complaint)
    if not listed.agents:
        raise _wrong(path, _line(root, ["agents"]), "agents: at least one agent is needed")
    return tuple(listed.agents)


def _complaint(agent: AgentConfig, earlier: Sequence[str]) -> str:
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


def _line(node: yaml.Node | None, steps: Sequence[str]) -> int | None:
    """Line of the deepest place of `steps` that the document has, from 1."""
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        node = found
    return node.start_mark.line + 1 if node is not None else None


def _child(node: yaml.Node | None, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        chosen: yaml.Node = node.value[int(step)]
        return chosen
    return None


def _wrong(path: Path, line: int | None, reason: str) -> ConfigurationInvalid:
    place = f"{path}, line {line}" if line else str(path)
    return ConfigurationInvalid(f"{place}: {reason}", file=str(path), line=str(line or ""), problem=reason)
