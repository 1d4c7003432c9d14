"""A handful of items, and records of a router's replies about them."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.items import Item
from evals.records import Record
from kernel.answers import AnswerType

WEIGHTS = {"correctness": 0.3, "conflict": 0.25, "importance": 0.25, "experience": 0.2}
HEADING: Record = {
    "kind": "run",
    "time": "2026-01-01T00:00:00+00:00",
    "commit": "0123456789ab",
    "data": "questions",
    "sets": ["sums"],
    "items": 4,
    "seed": 7,
    "assessors": ["draft"],
    "concurrency": 1,
    "timeout_ms": 600_000,
    "seeding": "by item",
    "config_version": "paper",
    "threshold": 0.45,
    "weights": WEIGHTS,
    "prompt_digests": {"question": "ab" * 32},
    "precision": None,
}


def an_item(number: int, dataset: str = "sums") -> Item:
    """The question what `number` and `number` are."""
    return Item(
        id=f"{dataset}-{number}",
        dataset=dataset,
        question=f"What is {number} + {number}?",
        answer=str(2 * number),
        answer_type=AnswerType.NUMBER,
    )


def introduced(item: str, *, dataset: str = "sums", answer: str = "4", characters: int = 100) -> Record:
    """The record of an item whose answer is `answer`."""
    return {
        "kind": "item",
        "id": item,
        "dataset": dataset,
        "dimension": "math_computation",
        "difficulty": "easy",
        "answer": answer,
        "answer_type": "NUMBER",
        "aliases": [],
        "choices": [],
        "prompt_characters": characters,
    }


def usage(stage: str, prompt: int, completion: int, generations: int = 1) -> Mapping[str, Any]:
    """What one stage spent."""
    return {"stages": {stage: {"generations": generations, "prompt_tokens": prompt, "completion_tokens": completion}}}


def routed(
    item: str,
    asked: str,
    components: Mapping[str, float],
    *,
    value: float | None = None,
    draft: str = "",
    parts: Mapping[str, float] | None = None,
    reasons: Mapping[str, str] | None = None,
    duration_ms: float = 10.0,
) -> Record:
    """The router's choice for `item`, with the activation that the weights give unless `value` replaces it."""
    pressure = {
        name: 1 - level if name in ("correctness", "experience") else level for name, level in components.items()
    }
    total = sum(WEIGHTS[name] for name in components)
    level = value if value is not None else sum(WEIGHTS[n] * p for n, p in pressure.items()) / total if total else None
    reply = {
        "system": "SYSTEM_TWO" if level is None or level >= 0.45 else "SYSTEM_ONE",
        "activation": {"value": level, "threshold": 0.45, "weights": WEIGHTS},
        "msv": {**components, "unknown_reasons": reasons or {}, "parts": parts or {}},
        "usage": usage("assess", 50, 10, 5),
        "duration_ms": duration_ms,
        "draft": draft,
        "prompt_digests": {"rating": "cd" * 32},
    }
    return {"kind": "reply", "item": item, "asked": asked, "elapsed_ms": duration_ms + 1, "reply": reply}


def answered(item: str, text: str, *, duration_ms: float = 6.0) -> Record:
    """The System 1 answer to `item`, asked for by itself."""
    run = {"answer": text, "model": "scripted", "usage": usage("system1", 20, 8), "duration_ms": duration_ms}
    return {"kind": "reply", "item": item, "asked": "system1", "elapsed_ms": duration_ms, "reply": run}


class Router:
    """A router with scripted replies that remembers its requests."""

    def __init__(self, replies: Sequence[Any] = ()) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._replies = list(replies)

    async def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the next reply; once they are used up, a usual one."""
        self.asked.append((path, body))
        reply = self._replies.pop(0) if self._replies else None
        if isinstance(reply, Exception):
            raise reply
        return reply or self._usual(path, body)

    def _usual(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if path == "/v1/answers":
            return {"run": {**answered("", "Final Answer: 2")["reply"], "messages": body["messages"]}}
        if "msv" in body:
            return {"config_version": "paper", "activation": {"threshold": 0.45, "weights": WEIGHTS}}
        draft = "Final Answer: 2" if body["assessor"] == "draft" else ""
        reply: Mapping[str, Any] = routed("", body["assessor"], {"correctness": 0.9, "conflict": 0.1}, draft=draft)[
            "reply"
        ]
        return reply


class MemorySink:
    """A sink that holds records in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        """Store one."""
        self.records.append(record)
