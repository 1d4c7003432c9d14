"""Simulated agents have a known competence and miscalibration; a scripted model replies for them.

An agent has its own chance to solve a task: on average its competence in the task's dimension. Its verbalized
confidence is that chance plus its bias and noise. Everything is drawn from (seed, agent, task), so that an agent
behaves the same on a task under every routing.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from grpc import aio
from metacog.delegation.v1 import delegation_pb2_grpc as pb_grpc
from metacog.delegation.v1 import tasks_pb2

from chassis.serving.wire import event, to_proto
from configuration.agents import AgentConfig
from tests.support.delegating import DIMENSIONS, Delegation, agent_of, stage_of
from tests.support.models.llm_replies import Body

NAMES = tuple(one.id for one in DIMENSIONS)
# Concentration of the Beta distribution of an agent's chances: smaller ones differ more from task to task.
CONCENTRATION = 4.0
_TASK = re.compile(r"Task (\d+) \[(\w+)\]")


@dataclass(frozen=True)
class Simulated:
    """A simulated agent has a known competence and bias.

    Attributes:
        name: Its name.
        competence: Share of tasks that it solves right, by dimension [0..1].
        bias: The bias of its verbalized confidence; positive: overconfident.
        after: The same competence from task `changes_at` on.
        changes_at: Number of that task; None: it never changes.
        skills: Its skills for the keyword baseline.
    """

    name: str
    competence: Mapping[str, float]
    bias: float = 0.0
    after: Mapping[str, float] = field(default_factory=dict)
    changes_at: int | None = None
    skills: Sequence[str] = ()

    def configured(self) -> AgentConfig:
        """Return the configuration of the agent."""
        return AgentConfig(id=self.name, system_prompt=f"You are an agent. [{self.name}]", tags=self.skills)


def specialists(count: int, mark: str, seed: int) -> list[Simulated]:
    """Return agents good in two dimensions and poor in others; overconfident, calibrated, underconfident in turn."""
    rng = np.random.default_rng(seed)
    agents = []
    for index in range(count):
        good = {NAMES[index % 5], NAMES[(index + 2) % 5]}
        competence = {name: float(rng.uniform(0.8, 0.95) if name in good else rng.uniform(0.2, 0.5)) for name in NAMES}
        bias = (0.25, 0.0, -0.15)[index % 3]
        agents.append(Simulated(f"agent{index:03}-{mark}", competence, bias, skills=[sorted(good)[0]]))
    return agents


class Simulation:
    """The scripted model replies for simulated agents.

    Args:
        agents: The agents.
        seed: Seed of all draws.
        noise: Standard deviation of verbalized confidences [0..1].
    """

    def __init__(self, agents: Sequence[Simulated], seed: int, *, noise: float = 0.1) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self._seed = seed
        self._noise = noise
        self.calls = 0

    def __call__(self, body: Body) -> Sequence[str]:
        """Return the texts of a request's choices."""
        self.calls += 1
        prompt = str(body["messages"][-1]["content"])
        found = _TASK.search(prompt)
        assert found is not None, prompt
        number, dimension = int(found[1]), found[2]
        if stage_of(body) == "classify":
            return [json.dumps({"abilities": [{"name": dimension, "sure": 95}]})]
        chance, verbalized, draw = self._draw(self.agents[agent_of(body)], number, dimension)
        if stage_of(body) == "assess":
            return [json.dumps({"r": [round(100 * min(1.0, max(0.0, verbalized)))] * 3})]
        wrong = right_answer(number) + 1 + number % 7
        return [f"Final Answer: {right_answer(number) if draw < chance else wrong}"]

    def _draw(self, agent: Simulated, number: int, dimension: str) -> tuple[float, float, float]:
        """Return an agent's chance with a task, its verbalized confidence, and the draw that decides."""
        text = f"{self._seed}/{agent.name.split('-')[0]}/{number}"
        rng = np.random.default_rng(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big"))
        has_changed = agent.changes_at is not None and number >= agent.changes_at
        mean = {**agent.competence, **(agent.after if has_changed else {})}[dimension]
        chance = float(rng.beta(CONCENTRATION * mean, CONCENTRATION * (1 - mean)))
        return chance, chance + agent.bias + float(rng.normal(0, self._noise)), float(rng.random())


def right_answer(number: int) -> int:
    """Return the right answer to a task."""
    return 1000 + number


@dataclass(frozen=True)
class RoutingRun:
    """A routing run holds the results of one way to route on some tasks.

    Attributes:
        tasks: The finished tasks, in their order.
        calls: Calls to the model [count].
    """

    tasks: Sequence[Mapping[str, Any]]
    calls: int

    @property
    def accuracy(self) -> float:
        """Return the share of right answers [0..1]."""
        return float(np.mean([bool(task["label"]["correct"]) for task in self.tasks]))

    def precision(self) -> float | None:
        """Return the share of right answers among delegated tasks [0..1]."""
        delegated = [task["label"]["correct"] for task in self.tasks if task["mode"] == "DELEGATED"]
        return float(np.mean(delegated)) if delegated else None

    def share(self, mode: str) -> float:
        """Return the share of tasks that were solved in `mode` [0..1]."""
        return float(np.mean([task["mode"] == mode for task in self.tasks]))

    def confidences(self, start: int = 0) -> tuple[list[float], list[float]]:
        """Return confidences and whether the answers were right, from task `start` on."""
        tasks = [task for task in self.tasks[start:] if task["confidence"] is not None]
        return [task["confidence"] for task in tasks], [float(bool(task["label"]["correct"])) for task in tasks]

    def ratings(self, start: int = 0) -> list[tuple[float, float, float]]:
        """Return verbalized confidences of executors, the same recalibrated, and whether the answers were right."""
        return [
            (each["verbalized_raw"], each["verbalized"], float(bool(task["label"]["correct"])))
            for task in self.tasks[start:]
            for each in task["assessments"]
            if each["agent"] == task["executor"] and each["verbalized_raw"] is not None
        ]


async def run(
    running: Delegation,
    simulation: Simulation,
    numbers: Sequence[int],
    *,
    at_once: int = 6,
    **fields: Any,  # noqa: ANN401
) -> RoutingRun:
    """Process tasks over gRPC, a few at a time; each answer is checked at once, and profiles learn."""
    before = simulation.calls
    finished: dict[int, Mapping[str, Any]] = {}
    pending = list(reversed(numbers))

    async def work(stub: "pb_grpc.DelegationServiceAsyncStub") -> None:
        while pending:
            number = pending.pop()
            dimension = NAMES[number % len(NAMES)]
            request = {
                "question": f"Task {number} [{dimension}]: which number is it?",
                "dimension": dimension,
                "expected": {"answer": str(right_answer(number)), "answer_type": "NUMBER"},
                "seed": number,
                **fields,
            }
            events = [event(reply) async for reply in stub.Process(to_proto(request, tasks_pb2.ProcessRequest))]
            finished[number] = events[-1][1]

    async with aio.insecure_channel(running.grpc) as channel, asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work(pb_grpc.DelegationServiceStub(channel)))
    return RoutingRun([finished[number] for number in numbers], simulation.calls - before)
