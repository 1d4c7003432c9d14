"""The arms behind the tables of delegation. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evals import prompts
from evals.harness.arms import Arm, Call, Replies
from evals.items import Item
from evals.program_checks import program_tests
from evals.records import Record
from evals.strategies import WIDE, limited, named
from kernel.seeds import derived_seed

ASSESS, SOLVE, SKILL, LIVE, AUTOGEN = "assess", "solve", "skill-fixed", "live", "autogen"
# The service by its own defaults, not by the paper's rules.
PRODUCT = "product"
SAME_CALLS = "self-consistency"
# Of the rule by keywords only its choice is used; what it would answer is taken from the recorded answers.
SHORTEST_ANSWER = 8
# Why a rating is unknown where the agent replied, and its reply could not be read.
UNREADABLE = "unparseable"
# The failure, in the service's words, of an agent that replied without text: a wrong answer like any unreadable
# one. Any other failure is one of the backend, and not of the agent.
NO_TEXT = "the model returned no text"


def arms(
    agents: Sequence[str] = (),
    *,
    max_tokens: int = 0,
    live: bool = False,
    equal_compute: bool = True,
    product: bool = False,
) -> Sequence[Arm]:
    """Every agent's self-assessment and answer, the rule by keywords, and the control with as many calls.

    Args:
        agents: The agents that take part; empty: all.
        max_tokens: Tokens of an answer [count]; 0: the service's default.
        live: Whether the service also processes each task by itself, and learns from it.
        equal_compute: Whether self-consistency with as many generations is sampled beside it; not of programs, which
            no vote can compare.
        product: Whether the service also processes each task by its own defaults, and learns from it.
    """
    settings = {"agents": ",".join(agents) or "all", "max_tokens": max_tokens or "default"}
    made = [
        Arm(name=ASSESS, call=partial(_assess, agents), settings=settings, is_whole=all_have_rated),
        Arm(
            name=SOLVE,
            call=partial(_solve, agents, max_tokens),
            settings={**settings, "baseline": "MAJORITY_VOTE"},
            is_whole=all_have_answered,
        ),
        Arm(name=SKILL, call=partial(_skill, agents), settings={**settings, "baseline": "SKILL_FIXED"}),
    ]
    control = limited(named(SAME_CALLS), max_tokens).settings
    same = Arm(
        name=SAME_CALLS,
        call=partial(_same_calls, max_tokens),
        settings={**control, "samples": "the most calls of Algorithm 1"},
    )
    learning = {**settings, "learns": True}
    living = Arm(name=LIVE, call=partial(_live, agents, max_tokens), settings=learning)
    usual = Arm(
        name=PRODUCT,
        call=partial(_product, agents, max_tokens),
        settings={**learning, "rules": "the service's defaults"},
    )
    asked = [(same, equal_compute), (living, live), (usual, product)]
    return [*made, *(arm for arm, is_asked in asked if is_asked)]


def all_have_rated(rated: Record) -> bool:
    """Return whether every agent could rate itself, even where its rating cannot be read."""
    return all((each.get("unknown_reason") or UNREADABLE) == UNREADABLE for each in rated["assessments"])


def all_have_answered(solved: Record) -> bool:
    """Return whether every agent could answer, be it with nothing."""
    return all((each.get("failure") or NO_TEXT) == NO_TEXT for each in solved["votes"])


def calls_of(assessment: Record) -> int:
    """Calls that one agent's self-assessment took [count]; one where the reply does not report them."""
    return int(assessment.get("attempts", 1))


def most_calls(rated: Record | None) -> int:
    """The most calls that Algorithm 1 can make on a task: every agent rates itself, and every agent answers [count].

    Args:
        rated: The reply with every agent's self-assessment; None, or empty, where the request failed.
    """
    assessments = (rated or {}).get("assessments") or ()
    return sum(calls_of(each) for each in assessments) + len(assessments)


def _same_calls(max_tokens: int, item: Item, seed: int, replies: Replies) -> Call | None:
    """Self-consistency; nothing for programs, and where no replay will have the task."""
    most = most_calls(replies.get(ASSESS)) if replies.get(SOLVE) else 0
    if item.is_program or not most:
        return None
    return limited(named(SAME_CALLS, samples=most), max_tokens).call(item, seed, replies)


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
    """The paper's procedure by the service, which learns."""
    numbers = {"recalibrate": False, "exploration": "NONE", "hand_over_rule": "PAPER"}
    body = {**_task(agents, item, seed, LIVE), **_answer(item, max_tokens), **_taught(item), "parameters": numbers}
    return Call(service="delegation", path="/v1/tasks", body=body)


def _product(agents: Sequence[str], max_tokens: int, item: Item, seed: int, _: Replies) -> Call:
    """The procedure that every client gets that states no parameters; the service learns."""
    body = {**_task(agents, item, seed, PRODUCT), **_answer(item, max_tokens), **_taught(item)}
    return Call(service="delegation", path="/v1/tasks", body=body)


def _taught(item: Item) -> Mapping[str, Any]:
    """The right answer, which the service gets with the task, so that its profiles learn."""
    return {"unit_tests": {"code": program_tests(item)}} if item.is_program else {"expected": _expected(item)}


def _task(agents: Sequence[str], item: Item, seed: int, name: str) -> Mapping[str, Any]:
    return {
        "question": prompts.task(item).text,
        "dimensions": list(item.takes),
        "agents": list(agents),
        "seed": derived_seed(seed, "eval", name, item.id),
        "envelope": dict(WIDE),
    }


def _answer(item: Item, max_tokens: int) -> Mapping[str, Any]:
    limit = {"answer_max_tokens": max_tokens} if max_tokens else {}
    return {"answer_type": item.answer_type.value, **limit}


def _expected(item: Item) -> Mapping[str, Any]:
    return {"answer": item.answer, "answer_type": item.answer_type.value, "aliases": list(item.aliases or ())}
