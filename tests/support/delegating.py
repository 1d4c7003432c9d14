"""This module runs a delegation service on a scripted or real model, over a real database, with both APIs."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from chassis import database as db
from chassis.ids import new_id
from chassis.serving.auth import Keyring
from configuration.agents import AgentConfig, read_agents
from configuration.dimensions import Dimension, read_dimensions
from inference import Embeddings
from kernel.confidence.rules import Exploration, Rules
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.learning.drift import DriftLimits
from kernel.prices import Prices
from sandbox.mathematics import InProcessCalculator, MathematicsSource
from services.delegation.compose import CONTRACT, Parts, compose
from services.delegation.service.experience.recording import ExperienceRecorder
from services.delegation.service.recalibration import Recalibrator
from services.delegation.service.use_cases import DelegationUseCases
from services.delegation.settings import Settings
from tests.support.apis import RestApi, RpcApi, Running, serving
from tests.support.assigner import NO_OTHERS, NO_PRICES, ModelServer, model_clients_of
from tests.support.stack import NO_SERVER, ROOT, Body, Server

AGENTS = read_agents(ROOT / "config" / "agents.delegation.yaml")
DIMENSIONS = read_dimensions(ROOT / "config" / "dimensions.yaml")
LIMITS = Limits(max_generations=64, max_generated_tokens=16_384, timeout_ms=60_000)
RULES = Rules(exploration=Exploration.NONE)

__all__ = [
    "AGENTS",
    "CONTRACT",
    "DIMENSIONS",
    "Delegation",
    "ScriptedAgents",
    "agent_of",
    "delegation_at",
    "delegation_settings",
    "renamed_agents",
    "stage_of",
]


@dataclass(frozen=True)
class Delegation(Running):
    """A delegation service runs at these addresses."""

    use_cases: DelegationUseCases
    recalibrator: Recalibrator
    recorder: ExperienceRecorder

    def api(self, name: str, key: str = "") -> RestApi | RpcApi:
        """Return a client of the API called `name`, with a key."""
        if name == "rest":
            return RestApi(self.rest, CONTRACT, {"authorization": f"Bearer {key}"} if key else {})
        return RpcApi(self.grpc, CONTRACT, (("authorization", f"Bearer {key}"),) if key else ())


def delegation_settings(
    rules: Rules = RULES,
    *,
    limits: Limits = LIMITS,
    drift: DriftLimits = DriftLimits(),  # noqa: B008 - an immutable value
    **more: Any,  # noqa: ANN401
) -> Settings:
    """Return the settings of a test: the defaults without exploration, with the given numbers."""
    numbers = {name: number for name, number in asdict(rules).items() if name in Settings.model_fields}
    given: dict[str, Any] = {
        **numbers,
        **asdict(limits),
        "drift_threshold": drift.threshold,
        "drift_window": drift.window,
        "config_version": "paper",
        **more,
    }
    return Settings(**{name: value for name, value in given.items() if name in Settings.model_fields})


@asynccontextmanager
async def delegation_at(
    llm: Server,
    database: str,
    *,
    agents: Sequence[AgentConfig] = AGENTS,
    dimensions: Sequence[Dimension] = DIMENSIONS,
    settings: Settings | None = None,
    keyring: Keyring | None = None,
    encoder_url: str = "",
    recalibrating: bool = False,
    recalibration_interval_s: float = 0.05,
    prices: Prices = NO_PRICES,
    others: Mapping[str, ModelServer] = NO_OTHERS,
    calculator: MathematicsSource | None = None,
    ceilings: Ceilings = DEFAULT_CEILINGS,
) -> AsyncIterator[Delegation]:
    """Run a delegation service on `llm`; without an encoder only a model can classify tasks."""
    parts = Parts(
        engine=db.build_engine(database),
        reading=db.build_engine(database, connections=db.CONNECTIONS // 2),
        model_clients=model_clients_of(llm, prices, others),
        embeddings=Embeddings(encoder_url or f"http://{NO_SERVER}/v1"),
        agents=lambda: agents,
        dimensions=dimensions,
        calculator=calculator or InProcessCalculator(),
        keyring=keyring or Keyring(),
        ceilings=ceilings,
        recalibration_interval_s=recalibration_interval_s,
    )
    service = compose(settings or delegation_settings(), parts)
    if recalibrating:
        service.start()
    async with serving(service.app, service.rpc) as running:
        yield Delegation(
            rest=running.rest,
            grpc=running.grpc,
            use_cases=service.use_cases,
            recalibrator=service.recalibrator,
            recorder=service.recorder,
        )
    await service.close()


def renamed_agents(agents: Sequence[AgentConfig] = AGENTS) -> tuple[list[AgentConfig], Mapping[str, str]]:
    """Return the agents under names that no other test uses, with new profiles, and the new names by the old ones."""
    mark = new_id()[-12:]
    renamed = {agent.id: f"{agent.id}-{mark}" for agent in agents}
    changed = [
        AgentConfig(
            id=renamed[agent.id],
            system_prompt=f"{agent.system_prompt} [{renamed[agent.id]}]",
            tags=agent.tags,
            temperature=agent.temperature,
        )
        for agent in agents
    ]
    return changed, renamed


def agent_of(body: Body) -> str:
    """Return the agent of a request to a model; empty for the model that classifies and judges."""
    system = body["messages"][0]
    if system["role"] != "system" or "[" not in system["content"]:
        return ""
    name: str = system["content"].rsplit("[", 1)[1].rstrip("]")
    return name


def stage_of(body: Body) -> str:
    """Return the stage of a request to a model."""
    prompt = str(body["messages"][-1]["content"])
    if "response_format" not in body:
        return "solve"
    if "</answer>" in prompt:
        return "judge"
    if '"same"' in prompt:
        return "compare"
    return "classify" if '"abilities"' in prompt else "assess"


@dataclass
class ScriptedAgents:
    """A scripted model replies so for agents.

    Attributes:
        rated: Self-assessment of each agent [0..100].
        answers: Answer of each agent.
        dimension: The dimension of every classification.
        judge: The rating of the judge [0..100].
        same: Which answers mean the same, as a model lists it.
        counting: Numbers of the first self-assessments of agents, one list for each attempt.
    """

    rated: Mapping[str, int | str]
    answers: Mapping[str, str]
    dimension: str = "math_computation"
    judge: int = 90
    same: Sequence[int] = ()
    counting: Mapping[str, list[list[int]]] = field(default_factory=dict)

    def __call__(self, body: Body) -> Sequence[str]:
        """Return the texts of the choices."""
        return [self._reply(body)] * (body.get("n") or 1)

    def _reply(self, body: Body) -> str:
        match stage_of(body):
            case "assess" if self.counting.get(agent_of(body)):
                return json.dumps({"r": self.counting[agent_of(body)].pop(0)})
            case "assess":
                rating = self.rated.get(agent_of(body), 50)
                return rating if isinstance(rating, str) else json.dumps({"r": [rating] * 3})
            case "classify":
                return json.dumps({"abilities": [{"name": self.dimension, "sure": 90}]})
            case "judge":
                return json.dumps({"r": [self.judge]})
            case "compare":
                return json.dumps({"same": list(self.same)})
        return self.answers.get(agent_of(body), "Final Answer: 4")
