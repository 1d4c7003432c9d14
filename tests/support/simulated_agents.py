"""Agents of known competence and known miscalibration, behind a scripted model; they drive the real service.

Of every task an agent has its own chance to be right: on average its competence in the task's dimension, now more, now
less. What it says of itself is that chance, moved by its bias and blurred. Everything is drawn from (seed, agent,
task), so that the same task finds the same agents under every way to route it.
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
from tests.support.delegating import DIMENSIONS, Delegation, stage_of, who
from tests.support.llm_replies import Body

NAMES = tuple(one.id for one in DIMENSIONS)
# Of the Beta distribution that an agent's chances follow: smaller ones differ more from task to task.
CONCENTRATION = 4.0
_TASK = re.compile(r"Task (\d+) \[(\w+)\]")


@dataclass(frozen=True)
class Simulated:
    """An agent.

    Attributes:
        name: Its name.
        competence: Share of tasks that it does right, by dimension [0..1].
        bias: What it adds to its chance when it speaks of itself; positive: overconfident.
        after: The same competence from task `turns_at` on.
        turns_at: Number of that task; None: it never changes.
        skills: Dimensions that the keyword baseline believes it to be good at.
    """

    name: str
    competence: Mapping[str, float]
    bias: float = 0.0
    after: Mapping[str, float] = field(default_factory=dict)
    turns_at: int | None = None
    skills: Sequence[str] = ()

    def configured(self) -> AgentConfig:
        """The agent as the service knows it."""
        return AgentConfig(id=self.name, system_prompt=f"You are an agent. [{self.name}]", tags=self.skills)


def specialists(count: int, mark: str, seed: int) -> list[Simulated]:
    """Agents good in two dimensions and poor in the others; overconfident, truthful and underconfident in turn."""
    rng = np.random.default_rng(seed)
    made = []
    for place in range(count):
        good = {NAMES[place % 5], NAMES[(place + 2) % 5]}
        competence = {name: float(rng.uniform(0.8, 0.95) if name in good else rng.uniform(0.2, 0.5)) for name in NAMES}
        bias = (0.25, 0.0, -0.15)[place % 3]
        made.append(Simulated(f"agent{place:03}-{mark}", competence, bias, skills=[sorted(good)[0]]))
    return made


class Simulation:
    """What the scripted model says for the agents.

    Args:
        agents: The agents.
        seed: Of all chance.
        noise: Standard deviation of what agents say of themselves [0..1].
    """

    def __init__(self, agents: Sequence[Simulated], seed: int, *, noise: float = 0.1) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self._seed = seed
        self._noise = noise
        self.calls = 0

    def __call__(self, body: Body) -> Sequence[str]:
        """The texts of a request's choices."""
        self.calls += 1
        prompt = str(body["messages"][-1]["content"])
        found = _TASK.search(prompt)
        assert found is not None, prompt
        number, dimension = int(found[1]), found[2]
        if stage_of(body) == "classify":
            return [json.dumps({"abilities": [{"name": dimension, "sure": 95}]})]
        chance, spoken, luck = self._drawn(self.agents[who(body)], number, dimension)
        if stage_of(body) == "assess":
            return [json.dumps({"r": [round(100 * min(1.0, max(0.0, spoken)))] * 3})]
        wrong = truth(number) + 1 + number % 7
        return [f"Final Answer: {truth(number) if luck < chance else wrong}"]

    def _drawn(self, agent: Simulated, number: int, dimension: str) -> tuple[float, float, float]:
        """An agent's chance with a task, what it says of it, and the luck that decides."""
        text = f"{self._seed}/{agent.name.split('-')[0]}/{number}"
        rng = np.random.default_rng(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big"))
        turned = agent.turns_at is not None and number >= agent.turns_at
        mean = {**agent.competence, **(agent.after if turned else {})}[dimension]
        chance = float(rng.beta(CONCENTRATION * mean, CONCENTRATION * (1 - mean)))
        return chance, chance + agent.bias + float(rng.normal(0, self._noise)), float(rng.random())


def truth(number: int) -> int:
    """The right answer to a task."""
    return 1000 + number


@dataclass(frozen=True)
class Ran:
    """How one way to route did on some tasks.

    Attributes:
        tasks: The finished tasks, in their order.
        calls: Calls to the model [count].
    """

    tasks: Sequence[Mapping[str, Any]]
    calls: int

    @property
    def accuracy(self) -> float:
        """Share of right answers [0..1]."""
        return float(np.mean([bool(task["label"]["correct"]) for task in self.tasks]))

    def precision(self) -> float | None:
        """Share of right answers among tasks that were handed over [0..1]."""
        handed = [task["label"]["correct"] for task in self.tasks if task["mode"] == "DELEGATED"]
        return float(np.mean(handed)) if handed else None

    def share(self, mode: str) -> float:
        """Share of tasks that were solved so [0..1]."""
        return float(np.mean([task["mode"] == mode for task in self.tasks]))

    def beliefs(self, start: int = 0) -> tuple[list[float], list[float]]:
        """Confidences and whether the answers were right, from task `start` on."""
        told = [task for task in self.tasks[start:] if task["confidence"] is not None]
        return [task["confidence"] for task in told], [float(bool(task["label"]["correct"])) for task in told]

    def ratings(self, start: int = 0) -> list[tuple[float, float, float]]:
        """What executors said of themselves, the same as recalibrated, and whether they were right."""
        return [
            (made["verbalized_raw"], made["verbalized"], float(bool(task["label"]["correct"])))
            for task in self.tasks[start:]
            for made in task["assessments"]
            if made["agent"] == task["executor"] and made["verbalized_raw"] is not None
        ]


async def run(
    running: Delegation,
    simulation: Simulation,
    numbers: Sequence[int],
    *,
    at_once: int = 6,
    **ask: Any,  # noqa: ANN401
) -> Ran:
    """Process tasks over gRPC, a few at a time; the answer is checked at once, and profiles learn."""
    before = simulation.calls
    done: dict[int, Mapping[str, Any]] = {}
    waiting = list(reversed(numbers))

    async def work(stub: "pb_grpc.DelegationServiceAsyncStub") -> None:
        while waiting:
            number = waiting.pop()
            dimension = NAMES[number % len(NAMES)]
            asked = {
                "question": f"Task {number} [{dimension}]: which number is it?",
                "dimension": dimension,
                "expected": {"answer": str(truth(number)), "answer_type": "NUMBER"},
                "seed": number,
                **ask,
            }
            events = [event(reply) async for reply in stub.Process(to_proto(asked, tasks_pb2.ProcessRequest))]
            done[number] = events[-1][1]

    async with aio.insecure_channel(running.grpc) as channel, asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work(pb_grpc.DelegationServiceStub(channel)))
    return Ran([done[number] for number in numbers], simulation.calls - before)
