"""The arms of an exam: who answers its tasks. They are models, agents of delegation, and strategies of the router."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from metacog.delegation.v1.monitoring_pb2 import AgentStatus
from metacog.delegation.v1.profiles_pb2 import CapabilityProfile

from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from cli.terminal.served_models import served_models
from kernel.policy import Strategy
from kernel.prices import Price
from kernel.values import value

AUTO = "auto"
SYSTEM_ONE = Strategy.SYSTEM_ONE.value
STRATEGY_PREFIX = "metacog-"
AGENT_PAGE = 1000


class ArmKind(StrEnum):
    """An arm is of this kind."""

    MODEL = "model"
    AGENT = "agent"
    STRATEGY = "strategy"


GROUPS = {f"{kind}s" if kind is not ArmKind.STRATEGY else "strategies": kind for kind in ArmKind}


@value
class ExamArm:
    """An arm answers the tasks of an exam.

    Attributes:
        kind: What it is.
        name: Name of the model, identifier of the agent, or name of the strategy.
    """

    kind: ArmKind
    name: str

    @property
    def label(self) -> str:
        """The name by which `--arms` and the report name it.

        Example:
            >>> ExamArm(kind=ArmKind.AGENT, name="ada").label
            'agent:ada'
        """
        return f"{self.kind}:{self.name}"

    @property
    def model(self) -> str:
        """The model by whose name the router is asked for it; empty for an agent."""
        if self.kind is ArmKind.STRATEGY:
            return "metacog" if self.name == AUTO else f"{STRATEGY_PREFIX}{self.name}"
        return self.name if self.kind is ArmKind.MODEL else ""


@value
class Offered:
    """This value holds what a suite offers.

    Attributes:
        prices: Price of each model; None where it is unknown.
        strategies: Names of the strategies.
        agents: Model of each agent.
        dimensions: Dimensions that delegation knows; empty where no agent is asked.
    """

    prices: Mapping[str, Price | None]
    strategies: Sequence[str]
    agents: Mapping[str, str]
    dimensions: frozenset[str] = frozenset()

    def of(self, kind: ArmKind) -> Sequence[str]:
        """Return the names of a kind."""
        return {
            ArmKind.MODEL: tuple(self.prices),
            ArmKind.AGENT: tuple(self.agents),
            ArmKind.STRATEGY: (*self.strategies, AUTO),
        }[kind]

    def price_of(self, arm: ExamArm) -> Price | None:
        """Return the price of the one model that an arm calls; None where it is unknown, or there are several."""
        return self.prices.get(self.agents.get(arm.name, "") if arm.kind is ArmKind.AGENT else arm.model)


def asks_agents(wanted: Sequence[str]) -> bool:
    """Return whether `--arms` names agents.

    Example:
        >>> asks_agents(["models", "agent:ada"]), asks_agents(["strategies"])
        (True, False)
    """
    return any(one == "agents" or one.startswith(f"{ArmKind.AGENT}:") for one in wanted)


def offered(router: Service, delegation: Service | None) -> Offered:
    """Return what the services offer; delegation is asked only where agents take part.

    Raises:
        Unreachable: A service cannot be reached.
        ServiceError: A service returned an error.
    """
    models = served_models(router)
    prices = {model.id: model.metacog.price for model in models if model.metacog.kind == "model"}
    names = [model.id for model in models if model.metacog.kind == "strategy"]
    strategies = [name.removeprefix(STRATEGY_PREFIX) for name in names if name.startswith(STRATEGY_PREFIX)]
    if delegation is None:
        return Offered(prices=prices, strategies=strategies, agents={})
    statuses = delegation.pages("/v1/agents", "agents", AgentStatus, page_size=AGENT_PAGE)
    agents = [status.message.configuration for status in statuses]
    profiles = delegation.pages("/v1/profiles", "profiles", CapabilityProfile, page_size=AGENT_PAGE)
    return Offered(
        prices=prices,
        strategies=strategies,
        agents={agent.id: agent.model for agent in agents},
        dimensions=frozenset(profile.message.dimension for profile in profiles),
    )


def resolved(wanted: Sequence[str], suite: Offered) -> Sequence[ExamArm]:
    """Return the arms that `--arms` names, each once.

    Args:
        wanted: Groups (`models`, `agents`, `strategies`) and single arms such as `model:NAME`.
        suite: What the suite offers.

    Raises:
        UnusableInput: One does not exist; the message lists what there is.

    Example:
        >>> suite = Offered(prices={"small": None}, strategies=["system1", "vote"], agents={})
        >>> [arm.label for arm in resolved(["models", "strategy:vote"], suite)]
        ['model:small', 'strategy:vote']
    """
    arms = [arm for one in wanted for arm in _resolved_one(one, suite)]
    if not arms:
        raise UnusableInput("--arms names no arm; give models, agents, strategies, or single ones such as model:NAME")
    return tuple(dict.fromkeys(arms))


def _resolved_one(wanted: str, suite: Offered) -> Sequence[ExamArm]:
    if wanted in GROUPS:
        kind = GROUPS[wanted]
        names = [name for name in suite.of(kind) if name != AUTO]
        if not names:
            raise UnusableInput(f"--arms {wanted}: the suite has none")
        return [ExamArm(kind=kind, name=name) for name in names]
    prefix, _, name = wanted.partition(":")
    if prefix not in list(ArmKind):
        raise UnusableInput(f"--arms {wanted}: it must be {', '.join(GROUPS)}, or one of them such as model:NAME")
    kind = ArmKind(prefix)
    if name not in suite.of(kind):
        raise UnusableInput(f"--arms {wanted}: there is no such {kind}; there are {', '.join(suite.of(kind))}")
    return [ExamArm(kind=kind, name=name)]
