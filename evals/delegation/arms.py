"""What is asked for the tables of delegation. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evals import prompts
from evals.checking import program_tests
from evals.harness.arms import Arm, Call, Replies
from evals.items import Item
from evals.strategies import WIDE
from kernel.answers import AnswerType
from kernel.seeds import derived_seed

ASSESS, SOLVE, SKILL, LIVE, AUTOGEN = "assess", "solve", "skill-fixed", "live", "autogen"
# Of the rule by keywords only its choice is used; what it would answer is taken from the recorded answers.
SHORTEST_ANSWER = 8


def arms(agents: Sequence[str] = (), *, max_tokens: int = 0, live: bool = False) -> Sequence[Arm]:
    """Everybody's self-assessment, everybody's answer, and the rule by keywords.

    Args:
        agents: Who takes part; empty: everybody.
        max_tokens: Tokens of an answer [count]; 0: the service's default.
        live: Whether the service also processes each task by itself, and learns from it.
    """
    asked = {"agents": ",".join(agents) or "all", "max_tokens": max_tokens or "default"}
    made = [
        Arm(name=ASSESS, call=partial(_assess, agents), settings=asked),
        Arm(name=SOLVE, call=partial(_solve, agents, max_tokens), settings={**asked, "baseline": "MAJORITY_VOTE"}),
        Arm(name=SKILL, call=partial(_skill, agents), settings={**asked, "baseline": "SKILL_FIXED"}),
    ]
    living = Arm(name=LIVE, call=partial(_live, agents, max_tokens), settings={**asked, "learns": True})
    return [*made, living] if live else made


def _assess(agents: Sequence[str], item: Item, seed: int, _: Replies) -> Call:
    body = {**_task(agents, item, seed, ASSESS), "parameters": {"recalibrate": False}}
    return Call(service="delegation", path="/v1/self-assessments", body=body)


def _solve(agents: Sequence[str], max_tokens: int, item: Item, seed: int, _: Replies) -> Call:
    body = {
        **_task(agents, item, seed, SOLVE),
        **_answer(item, max_tokens),
        "baseline": "MAJORITY_VOTE",
    }
    return Call(service="delegation", path="/v1/tasks", body=body)


def _skill(agents: Sequence[str], item: Item, seed: int, _: Replies) -> Call:
    body = {**_task(agents, item, seed, SKILL), **_answer(item, SHORTEST_ANSWER), "baseline": "SKILL_FIXED"}
    return Call(service="delegation", path="/v1/tasks", body={k: v for k, v in body.items() if k != "dimensions"})


def _live(agents: Sequence[str], max_tokens: int, item: Item, seed: int, _: Replies) -> Call:
    """The real procedure; the service is told the right answer after the fact, so that its profiles learn."""
    taught = (
        {"unit_tests": {"code": program_tests(item)}}
        if item.answer_type is AnswerType.CODE
        else {"expected": _expected(item)}
    )
    numbers = {"recalibrate": False, "exploration": "NONE", "hand_over_rule": "PAPER"}
    body = {**_task(agents, item, seed, LIVE), **_answer(item, max_tokens), **taught, "parameters": numbers}
    return Call(service="delegation", path="/v1/tasks", body=body)


def _task(agents: Sequence[str], item: Item, seed: int, name: str) -> Mapping[str, Any]:
    return {
        "task": prompts.task(item).text,
        "dimensions": list(item.takes),
        "agents": list(agents),
        "seed": derived_seed(seed, "eval", name),
        "envelope": dict(WIDE),
    }


def _answer(item: Item, max_tokens: int) -> Mapping[str, Any]:
    limit = {"answer_max_tokens": max_tokens} if max_tokens else {}
    return {"answer_type": item.answer_type.value, **limit}


def _expected(item: Item) -> Mapping[str, Any]:
    return {"answer": item.answer, "answer_type": item.answer_type.value, "aliases": list(item.aliases or ())}
