"""Replies as the suite's APIs spell them, and records that hold them, for evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.records import Record
from evals.router_client import Body
from tests.support.evaluation_records import introduced

RIGHT, WRONG = "Final Answer: 4", "Final Answer: 5"


def run_record(command: str, *arms: str, **more: Any) -> Record:  # noqa: ANN401
    """The heading of a recorded evaluation."""
    return {
        "kind": "run",
        "command": command,
        "time": "2026-01-01T00:00:00+00:00",
        "commit": "0123456789ab",
        "data": {"typed": f"metacog eval {command} --data questions", "sets": ["sums"]},
        "items": 4,
        "seeds": [7],
        "arms": {arm: {} for arm in arms},
        "concurrency": 1,
        "timeout_ms": 600_000,
        "prompt_digests": {"question": "ab" * 32},
        "suite": {},
        **more,
    }


def spent(generations: int = 1, prompt: int = 20, completion: int = 10) -> Body:
    """An account of what was spent."""
    return {
        "generations": generations,
        "http_calls": 1,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "estimated": False,
    }


def chat(text: str, *, confidence: float | None = None, usage: Body | None = None) -> Body:
    """A chat completion of the router."""
    metacog: Body = {
        "outcome": "ANSWERED",
        "stages": [],
        "confidence": confidence,
        "usage": usage or spent(),
        "duration_ms": 5.0,
        "degraded": False,
    }
    return {"model": "scripted", "choices": [{"message": {"content": text}}], "metacog": metacog}


def decision(activation: float | None, *, threshold: float = 0.45) -> Body:
    """The router's choice."""
    sent = activation is None or activation >= threshold
    return {
        "system": "SYSTEM_TWO" if sent else "SYSTEM_ONE",
        "activation": {"value": activation, "threshold": threshold},
        "usage": spent(),
        "duration_ms": 2.0,
    }


def sample(answer: str | None, solver: int | None = None, tokens: int = 10) -> Body:
    """One sample of a solver, or of the arbiter."""
    text = "I cannot tell." if answer is None else f"Final Answer: {answer}"
    return {"solver": solver, "text": text, "answer": answer, "completion_tokens": tokens, "truncated": False}


def arbitration(answer: str, samples: Sequence[Body] = (), **more: Any) -> Body:  # noqa: ANN401
    """A finished arbitration."""
    return {
        "answer": answer,
        "answer_text": f"Final Answer: {answer}" if answer else "",
        "outcome": "ANSWERED" if answer else "ABSTAINED",
        "confidence": 0.8,
        "usage": spent(10),
        "duration_ms": 9.0,
        "solver_results": [{"model": "scripted"}],
        "arbiter_model": "scripted",
        "prompt_digests": {"solve": "cd" * 32},
        "degraded": False,
        "samples": list(samples),
        "critiques": [],
        "measures": {},
        **more,
    }


def vote(agent: str, text: str, weight: float = 0.5, answer: str | None = None) -> Body:
    """What one agent answered."""
    return {
        "agent": agent,
        "model": "scripted",
        "answer": answer,
        "weight": weight,
        "text": text,
        "won": True,
        "usage": spent(),
        "duration_ms": 3.0,
        "truncated": False,
        "failure": "",
    }


def task(text: str, votes: Sequence[Body] = (), **more: Any) -> Body:  # noqa: ANN401
    """A finished task of delegation."""
    return {
        "answer_text": text,
        "outcome": "ANSWERED" if text else "ABSTAINED",
        "confidence": None,
        "usage": spent(max(1, len(votes))),
        "duration_ms": 4.0,
        "votes": list(votes),
        "prompt_digests": {},
        "degraded": False,
        **more,
    }


PATHS = {"system1": "/v1/chat/completions", "route": "/v1/route", "mc-mas": "/v1/arbitrations"}


def reply(item: str, arm: str, content: Body, *, seed: int = 7, path: str = "") -> Record:
    """The record of one reply."""
    asked = {"item": item, "arm": arm, "seed": seed, "path": path or PATHS.get(arm, "/v1/chat/completions")}
    return {"kind": "reply", **asked, "elapsed_ms": 6.0, "reply": content}


def items(count: int, dataset: str = "sums") -> list[Record]:
    """Introductions of items whose answer is 4."""
    return [introduced(f"{dataset}-{number}", dataset=dataset, characters=100 + number) for number in range(count)]


class ScriptedSuite:
    """A suite with scripted replies that remembers its requests.

    Args:
        replies: By path the reply, or a function of the body that returns it; an error is raised.
    """

    def __init__(self, replies: Mapping[str, Any]) -> None:
        self.asked: list[tuple[str, str, Body]] = []
        self._replies = replies

    async def post(self, service: str, path: str, body: Body) -> Body:
        """The reply for `path`."""
        self.asked.append((service, path, body))
        scripted = self._replies[path]
        outcome: Any = scripted(body) if callable(scripted) else scripted
        if isinstance(outcome, Exception):
            raise outcome
        reply: Body = outcome
        return reply
