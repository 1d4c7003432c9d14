"""The console as the process that `make up` starts, and a model whose part in every service is known.

scripted.answer = Mind()
async with console_at(router.rest, delegation.rest) as console:
    ...                                            # console.url
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support import arbiter, stack
from tests.support.stack import ROOT, Body, Process, environment

ANSWERS: Mapping[str, str] = {
    "thesis": "91 looks prime: it is odd, does not end in 5, and its digits sum to 10, so 3 does not divide it.",
    "antithesis": "Small primes beyond 5 were not tried. 7 x 13 = 91, so the claim does not hold.",
    "resolution": "The objection stands: one factorisation settles it, and the tests named were too few.",
    "synthesis": "No. 91 = 7 x 13, so it is not a prime number.",
    "note": "Where such checks guard keys, a proven test should be used rather than trial by hand.",
    "system1": "Blue, for the most part: short waves scatter more than long ones.",
}
# By stage: how right and how much in conflict a text is judged, so that one rises and the other falls.
JUDGED: Mapping[str, tuple[int, int]] = {
    ANSWERS["thesis"]: (35, 70),
    ANSWERS["antithesis"]: (55, 60),
    ANSWERS["resolution"]: (75, 35),
    ANSWERS["synthesis"]: (92, 10),
}
# How the agents that ship see a question: how right they would be, how much in conflict, and what hangs on it.
SELVES: Mapping[str, tuple[int, int, int]] = {
    "Ada": (82, 20, 70),
    "Ben": (40, 85, 70),
    "Cleo": (70, 55, 75),
    "Dan": (76, 30, 65),
    "Eve": (55, 45, 90),
}


@dataclass
class ModelReplies:
    """The replies of a scripted model to all services.

    Attributes:
        rated: Rating of a question by the router's assessor.
        texts: Texts by stage: `system1`, the four stages and `note`.
        solves: Answers of the arbiter's solvers, in turn.
        arbitrates: Answers of the arbiter, in turn.
        critique: Text of every critique.
        abilities: Self-assessments of the delegation agents Alpha, Beta and Gamma [0..100].
        votes: Their answers.
    """

    rated: str = stack.TROUBLED
    texts: Mapping[str, str] = field(default_factory=lambda: ANSWERS)
    solves: Sequence[str] = ("4", "4", "5", "4", "5")
    arbitrates: Sequence[str] = ("4", "4", "4", "5", "4")
    critique: str = "The second step does not follow."
    abilities: Mapping[str, int] = field(default_factory=lambda: {"Alpha": 30, "Beta": 88, "Gamma": 25})
    votes: Mapping[str, str] = field(default_factory=dict)
    calls: int = 0

    def __call__(self, body: Body) -> Sequence[str]:
        """Return the texts of the choices."""
        self.calls += 1
        prompt, count = str(body["messages"][-1].get("content")), body.get("n") or 1
        if "response_format" in body:
            return [self._rating(body, prompt)] * count
        stage = arbiter.stage_of(body)
        if stage == "critique":
            return [self.critique] * count
        if "Do the task above" in prompt:
            return [self.votes.get(_agent(body), "Four times ten.\nFinal Answer: 40")] * count
        if "Final Answer:" in prompt:
            given = self.arbitrates if stage == "arbitrate" else self.solves
            return [arbiter.sample_text(given[(self.calls + place) % len(given)]) for place in range(count)]
        return [self.texts[stack.stage_of(body)]] * count

    def _rating(self, body: Body, prompt: str) -> str:
        if '"abilities"' in prompt:
            return json.dumps({"abilities": [{"name": "math_computation", "sure": 90}]})
        if "does it lie in your field" in prompt:
            return json.dumps({"r": [self.abilities.get(_agent(body), 50)] * 3})
        match stack.stage_of(body):
            case "assess":
                return self.rated
            case "measure":
                right, conflict = next((v for text, v in JUDGED.items() if _judged(prompt) == text), (60, 40))
                return stack.rating(right, right, right, conflict, 40, 30, 30)
        system = str(body["messages"][0]["content"])
        right, conflict, weight = next((v for name, v in SELVES.items() if f"You are {name}" in system), (60, 40, 40))
        return stack.rating(right, right, right, conflict, weight, weight, weight)


def _agent(body: Body) -> str:
    """Return the delegation agent of a request."""
    system = str(body["messages"][0]["content"])
    return next((name for name in ("Alpha", "Beta", "Gamma") if f"You are {name}" in system), "")


def _judged(prompt: str) -> str:
    """Return the text to judge in a prompt."""
    return prompt.partition("<text_to_judge>")[2].partition("</text_to_judge>")[0].strip()


@dataclass(frozen=True)
class Console:
    """A running console."""

    url: str
    process: Process


@asynccontextmanager
async def console_at(router: str, delegation: str, **settings: object) -> AsyncIterator[Console]:
    """Run `python -m console` on a free port, and kill it at the end if it still runs."""
    given = {"METACOG_CONSOLE_PORT": 0, "METACOG_ROUTER_URL": router, "METACOG_DELEGATION_URL": delegation, **settings}
    inner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "console",
        cwd=ROOT,
        env=environment(**given),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    started = Process(inner)
    try:
        serving = await started.until_said("serving")
        yield Console(url=f"http://127.0.0.1:{serving['port']}", process=started)
    finally:
        if inner.returncode is None:
            inner.kill()
        await started.ended()
