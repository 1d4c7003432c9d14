"""A delegation service on a scripted or real model, over a real database, both faces."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from chassis import database as db
from chassis.ids import new_id
from chassis.serving.auth import Keyring
from chassis.serving.health import Health
from chassis.serving.rest import build_app
from configuration.agents import AgentConfig, read_agents
from inference.embeddings import Embeddings
from kernel.confidence.rules import Exploration, Rules
from kernel.envelope import Limits
from kernel.learning.drift import DriftLimits
from kernel.prices import Prices
from services.delegation.compose import CONTRACT, Options, Parts, build_server, composed, with_paths
from services.delegation.service.dimensions import Dimension, read_dimensions
from services.delegation.service.process import TaskDefaults
from services.delegation.service.recalibration import Recalibrator
from services.delegation.service.use_cases import UseCases
from tests.support.faces import RestFace, RpcFace, Running, serving
from tests.support.stack import MAX_BODY_BYTES, NO_PRICES, NOBODY, ROOT, Body, Server, voices_of

AGENTS = read_agents(ROOT / "config" / "agents.delegation.yaml")
DIMENSIONS = read_dimensions(ROOT / "config" / "dimensions.yaml")
LIMITS = Limits(max_generations=64, max_generated_tokens=16_384, timeout_ms=60_000)
RULES = Rules(exploration=Exploration.NONE)

__all__ = ["AGENTS", "CONTRACT", "DIMENSIONS", "Cast", "Delegation", "delegation_at", "new_names", "options", "who"]


@dataclass(frozen=True)
class Delegation(Running):
    """A running delegation service."""

    use: UseCases
    recalibrator: Recalibrator

    def face(self, name: str, key: str = "") -> RestFace | RpcFace:
        """The face called `name`, with a key."""
        if name == "rest":
            return RestFace(self.rest, CONTRACT, {"authorization": f"Bearer {key}"} if key else {})
        return RpcFace(self.grpc, CONTRACT, (("authorization", f"Bearer {key}"),) if key else ())


def options(
    rules: Rules = RULES,
    *,
    limits: Limits = LIMITS,
    drift: DriftLimits = DriftLimits(),  # noqa: B008 - an immutable value
    **more: Any,  # noqa: ANN401
) -> Options:
    """What ships, with exploration off, at a test's pace."""
    given: dict[str, Any] = {"recalibration_every_s": 0.05, **more}
    return Options(defaults=TaskDefaults(limits=limits, rules=rules), drift=drift, **given)


@asynccontextmanager
async def delegation_at(
    llm: Server,
    database: str,
    *,
    agents: Sequence[AgentConfig] = AGENTS,
    dimensions: Sequence[Dimension] = DIMENSIONS,
    behaviour: Options | None = None,
    keyring: Keyring | None = None,
    encoder_url: str = "",
    recalibrating: bool = False,
    prices: Prices = NO_PRICES,
) -> AsyncIterator[Delegation]:
    """A delegation service on `llm`; without an encoder it can only ask a model for dimensions."""
    keyring = keyring or Keyring()
    engine = db.build_engine(database)
    voices = voices_of(llm, prices)
    embeddings = Embeddings(encoder_url or f"http://{NOBODY}/v1")
    world = Parts(
        sessions=db.build_sessions(engine),
        voices=voices,
        embedder=embeddings,
        agents=lambda: agents,
        dimensions=dimensions,
    )
    made = composed(world, behaviour or options())
    app = build_app("delegation", health=Health({}), keyring=keyring, max_body_bytes=MAX_BODY_BYTES)
    if recalibrating:
        made.recalibrator.start()
    async with serving(with_paths(app, made.use), build_server(made.use, keyring)) as running:
        yield Delegation(rest=running.rest, grpc=running.grpc, use=made.use, recalibrator=made.recalibrator)
    await made.recalibrator.close()
    await embeddings.close()
    await voices.close()
    await engine.dispose()


def new_names(agents: Sequence[AgentConfig] = AGENTS) -> tuple[list[AgentConfig], Mapping[str, str]]:
    """The same agents under names that no other test has used, with new profiles; the new names by the old ones."""
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


def who(body: Body) -> str:
    """The agent that a request to a model speaks for; empty for nobody in particular."""
    system = body["messages"][0]
    if system["role"] != "system" or "[" not in system["content"]:
        return ""
    name: str = system["content"].rsplit("[", 1)[1].rstrip("]")
    return name


def stage_of(body: Body) -> str:
    """What a request to a model is for."""
    prompt = str(body["messages"][-1]["content"])
    if "response_format" not in body:
        return "solve"
    if "</answer>" in prompt:
        return "judge"
    if '"same"' in prompt:
        return "compare"
    return "classify" if '"abilities"' in prompt else "assess"


@dataclass
class Cast:
    """What a scripted model answers for delegation.

    Attributes:
        rated: What each agent says of itself [0..100].
        answers: What each agent answers.
        dimension: How tasks are classified.
        judge: What the judge says [0..100].
        same: Which answers say the same, as a model tells it.
    """

    rated: Mapping[str, int | str]
    answers: Mapping[str, str]
    dimension: str = "math_computation"
    judge: int = 90
    same: Sequence[int] = ()

    def __call__(self, body: Body) -> Sequence[str]:
        """The texts of the choices."""
        return [self._said(body)] * (body.get("n") or 1)

    def _said(self, body: Body) -> str:
        match stage_of(body):
            case "assess":
                level = self.rated.get(who(body), 50)
                return level if isinstance(level, str) else json.dumps({"r": [level] * 3})
            case "classify":
                return json.dumps({"abilities": [{"name": self.dimension, "sure": 90}]})
            case "judge":
                return json.dumps({"r": [self.judge]})
            case "compare":
                return json.dumps({"same": list(self.same)})
        return self.answers.get(who(body), "Final Answer: 4")
