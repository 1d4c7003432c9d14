"""Agents are configured in `agents.yaml`, which is checked with line numbers and read again when it changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from chassis.errors import ConfigurationInvalid
from configuration.yaml_file import WatchedFile, YamlFile
from kernel.values import value

DEFAULT_AGENTS_FILE = Path(__file__).parents[1] / "config" / "agents.yaml"


@value
class AgentConfig:
    """An agent is a model with a prompt of its own.

    Attributes:
        id: Identifier, unique in the file: letters, digits, `-` and `_`.
        model: Name of the model in `models.yaml`; empty: the default model.
        system_prompt: Prompt that each call of the agent begins with.
        capacity: Roles it may hold at once [count, >= 1]; None: the service decides.
        tags: Free labels.
        thinking: Whether a thinking model may think in the stages; None: as the model does by default.
        temperature: Sampling temperature of its texts [0..2].
    """

    id: str
    model: str = ""
    system_prompt: str = ""
    capacity: int | None = None
    tags: Sequence[str] = ()
    thinking: bool | None = None
    temperature: float = 0.7


@value
class AgentsFile:
    """The agents file lists the agents."""

    agents: Sequence[AgentConfig]


class Agents(WatchedFile[tuple[AgentConfig, ...]]):
    """The agents are read again when their file changes; while it is invalid, the last valid ones stay in use.

    Args:
        path: The file.

    Raises:
        ConfigurationInvalid: When the file cannot be used at start; names the line and the reason.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_agents, "agents")


def read_agents(path: Path) -> tuple[AgentConfig, ...]:
    """Return the agents of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    try:
        file = YamlFile(path, AgentsFile)
    except ConfigurationInvalid as error:
        raise _with_hint(error) from error
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
    return ""


# Fields of the first version, and what stands in `models.yaml` instead.
_MOVED: Mapping[str, str] = {
    "base_url": "endpoints: [{url: ...}]",
    "api_key_env": "endpoints: [{url: ..., api_key_env: ...}]",
}


def _with_hint(wrong: ConfigurationInvalid) -> ConfigurationInvalid:
    """Return the error with the line to write instead, for a field that is now in `models.yaml`."""
    problem = wrong.metadata.get("problem", "")
    moved = next((name for name in _MOVED if f".{name}:" in f".{problem}"), None)
    if moved is None:
        return wrong
    hint = f"; write `model: NAME` here, and in models.yaml (METACOG_MODELS_FILE) `- {{name: NAME, {_MOVED[moved]}}}`"
    return ConfigurationInvalid(wrong.message + hint, **{**wrong.metadata, "problem": problem + hint})
