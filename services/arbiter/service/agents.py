"""Who solves, criticises and arbitrates: agents, and the models that speak for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from configuration.agents import AgentConfig
from inference.spend import Spend
from inference.values import Call, Completion
from kernel.arbitration.modes import Variant
from kernel.errors import MalformedRequest, UnknownAgent
from kernel.prices import Price
from services.arbiter.service.values import ArbitrateRequest

T = TypeVar("T")

# The suite's default model, told nothing about itself: the papers' solvers are samples of one plain model.
PLAIN = AgentConfig(id="default")


class SamplingModelClient(Protocol):
    """A model that speaks for an agent."""

    model: str
    price: Price | None

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of one call."""

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """The document of one call that follows a schema."""


class SamplingModelClients(Protocol):
    """Everybody's voice."""

    def of(self, agent: AgentConfig) -> SamplingModelClient:
        """Voice of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgent:
    """One place in an arbitration."""

    agent: AgentConfig
    voice: SamplingModelClient


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgents:
    """All places in an arbitration; without a critic of its own, each solver's agent criticises it."""

    solvers: Sequence[StageAgent]
    critic: StageAgent | None
    arbiter: StageAgent

    @property
    def voices(self) -> Sequence[SamplingModelClient]:
        """The voices of all."""
        return [seat.voice for seat in (*self.solvers, self.critic, self.arbiter) if seat is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultAgents:
    """Identifiers of the agents that take part when a request names none; empty: the plain default model."""

    solvers: Sequence[str] = ()
    critic: str = ""
    arbiter: str = ""


def seats(
    ask: ArbitrateRequest, count: int, agents: Sequence[AgentConfig], voices: SamplingModelClients, usual: DefaultAgents
) -> StageAgents:
    """Who takes part.

    Args:
        ask: The request.
        count: Solvers [count].
        agents: The configured agents.
        voices: Their voices.
        usual: Who takes part when the request names nobody.

    Raises:
        UnknownAgent: For an agent that is not configured.
        MalformedRequest: For neither one solver agent nor as many as there are solvers.
    """
    known: Mapping[str, AgentConfig] = {PLAIN.id: PLAIN, **{agent.id: agent for agent in agents}}
    named = ask.solver_agents or [usual.solvers[place % len(usual.solvers)] for place in range(count) if usual.solvers]
    named = named or [PLAIN.id]
    if ask.variant is Variant.SELF_CONSISTENCY:
        named = named[:1]  # the first solver alone
    if len(named) not in (1, count):
        said = f"solver_agents: name one agent or {count}, one for each solver, not {len(named)}"
        raise MalformedRequest(said, field="solver_agents")
    everyone = list(named) * (count // len(named))

    def seat(name: str, field: str) -> StageAgent:
        if name not in known:
            said = f"{field}: {name!r} is not configured; there are {', '.join(known)}"
            raise UnknownAgent(said, field=field, agent=name)
        return StageAgent(agent=known[name], voice=voices.of(known[name]))

    critic = ask.critic_agent or usual.critic
    return StageAgents(
        solvers=[seat(name, "solver_agents") for name in everyone],
        critic=seat(critic, "critic_agent") if critic else None,
        arbiter=seat(ask.arbiter_agent or usual.arbiter or PLAIN.id, "arbiter_agent"),
    )
