"""These agents solve, criticise and arbitrate, through the clients of their models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configuration.agents import AgentConfig
from inference import ModelClient, ModelClients
from kernel.agents import check_agent
from kernel.arbitration.modes import Variant
from kernel.errors import MalformedRequest
from services.arbiter.service.values import ArbitrateRequest

# The suite's default model without a system prompt: the papers' solvers are samples of one such model.
DEFAULT_AGENT = AgentConfig(id="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgent:
    """A stage agent is an agent with its model client."""

    config: AgentConfig
    client: ModelClient


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgents:
    """These agents take part in one arbitration; without a critic, each solver's agent criticises its own trace."""

    solvers: Sequence[StageAgent]
    critic: StageAgent | None
    arbiter: StageAgent

    @property
    def clients(self) -> Sequence[ModelClient]:
        """Return the model clients of all agents."""
        return [each.client for each in (*self.solvers, self.critic, self.arbiter) if each is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultAgents:
    """Agents with these identifiers take part when a request names none; empty: the default model alone."""

    solvers: Sequence[str] = ()
    critic: str = ""
    arbiter: str = ""


def choose_agents(
    request: ArbitrateRequest,
    count: int,
    agents: Sequence[AgentConfig],
    model_clients: ModelClients,
    defaults: DefaultAgents,
) -> StageAgents:
    """Choose the agents that take part.

    Args:
        request: The request.
        count: Solvers [count].
        agents: The configured agents.
        model_clients: Their model clients.
        defaults: The agents that take part when the request names none.

    Raises:
        UnknownAgent: For an agent that is not configured.
        MalformedRequest: For neither one solver agent nor as many as there are solvers.
    """
    known: Mapping[str, AgentConfig] = {DEFAULT_AGENT.id: DEFAULT_AGENT, **{agent.id: agent for agent in agents}}
    by_default = [defaults.solvers[place % len(defaults.solvers)] for place in range(count) if defaults.solvers]
    named = request.solver_agents or by_default or [DEFAULT_AGENT.id]
    if request.variant is Variant.SELF_CONSISTENCY:
        named = named[:1]  # the first solver alone
    if len(named) not in (1, count):
        message = f"solver_agents: name one agent or {count}, one for each solver, not {len(named)}"
        raise MalformedRequest(message, field="solver_agents")
    solvers = list(named) * (count // len(named))

    def agent(name: str, field: str) -> StageAgent:
        check_agent(name, known, field=field)
        return StageAgent(config=known[name], client=model_clients.of(known[name]))

    critic = request.critic_agent or defaults.critic
    return StageAgents(
        solvers=[agent(name, "solver_agents") for name in solvers],
        critic=agent(critic, "critic_agent") if critic else None,
        arbiter=agent(request.arbiter_agent or defaults.arbiter or DEFAULT_AGENT.id, "arbiter_agent"),
    )
