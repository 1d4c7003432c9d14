"""The strategies that can be compared: each an arm that calls one public API of the suite. Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from evals import prompts
from evals.harness.arms import Arm, Call, Replies
from evals.items import Item
from evals.router_client import Body
from kernel.arbitration.defaults import SOLVER_TEMPERATURE
from kernel.policy import Strategy
from kernel.seeds import derived_seed
from kernel.values import value

# Limits that no strategy reaches: what it spends is measured, not cut.
WIDE = {"max_generations": 4096, "max_generated_tokens": 1 << 20}
CHAT_MODELS = (Strategy.SYSTEM_ONE.value, "auto", *(each.value for each in Strategy if each is not Strategy.SYSTEM_ONE))
ROLES = {"roles-optimal": "OPTIMAL", "roles-greedy": "GREEDY", "roles-random": "RANDOM"}
VARIANTS = {"majority": "MAJORITY_VOTE", "mc-mas": "FULL", "self-consistency": "SELF_CONSISTENCY"}
ROUTE = "route"
# The fields that limit the tokens of a text, by path.
LIMITS: Mapping[str, Sequence[str]] = {
    "/v1/chat/completions": ("max_tokens",),
    "/v1/deliberations": ("stage_max_tokens",),
    "/v1/tasks": ("answer_max_tokens",),
    "/v1/arbitrations": ("solver_max_tokens", "critique_max_tokens", "arbitration_max_tokens"),
}
AGENT = "agent:"


def named(
    name: str, *, like: str = "", samples: int = 10, assessor: str = "", agents: Sequence[str] = (), also: str = ""
) -> Arm:
    """The strategy called `name`.

    Args:
        name: One of `CHAT_MODELS`, `ROLES`, `VARIANTS`, `route`, or `agent:ID` for one delegation agent by itself.
        like: With `self-consistency`, the arm whose generations it gets, item by item.
        samples: With `self-consistency` and no such arm, its generations [count, >= 1].
        assessor: With `route`, the assessor; empty: the router's default.
        agents: With roles, the agents that deliberate; with arbitration and its variants, those that solve. Each fixes
            a model; empty: those of the service.
        also: What the arm is called beside its strategy, where there are several of it.

    Raises:
        KeyError: When there is none of that name.
    """
    if name in CHAT_MODELS:
        model = "metacog" if name == "auto" else f"metacog/{name}"
        return Arm(name=name, call=partial(_chat, model), settings={"model": model})
    if name in ROLES:
        kind = ROLES[name]
        made_with = {"assignment_kind": kind, **_listed("agents", agents)}
        return Arm(name=name, call=partial(_deliberation, kind, False, tuple(agents)), settings=made_with)
    if name.startswith(AGENT):
        agent = name.removeprefix(AGENT)
        return Arm(name=name, call=partial(_alone, agent), settings={"baseline": "SINGLE_AGENT", "agent": agent})
    if name == ROUTE:
        return Arm(name=name, call=partial(_route, assessor), settings={"assessor": assessor or "default"})
    settings = {
        "variant": VARIANTS[name],
        "samples": (like and f"those of {like}") or samples,
        "solver_temperature": SOLVER_TEMPERATURE,
        **_listed("solver_agents", agents),
    }
    drawn = _Drawn(name=name, like=like, samples=samples, agents=tuple(agents))
    return Arm(name=f"{name}{also and ':'}{also}", call=partial(_arbitration, drawn), settings=settings)


def route_by(assessor: str) -> Arm:
    """The router's choice by one assessor, under the assessor's name."""
    return Arm(name=assessor, call=partial(_route, assessor), settings={"assessor": assessor})


def measured_dialectic(kind: str = "OPTIMAL", agents: Sequence[str] = ()) -> Arm:
    """The dialectic with a measured state after every stage, by `agents` or by all of the service."""
    settings = {"assignment_kind": kind, "measure_stages": True, **_listed("agents", agents)}
    return Arm(name="dialectic-stages", call=partial(_deliberation, kind, True, tuple(agents)), settings=settings)


def limited(arm: Arm, max_tokens: int) -> Arm:
    """`arm` with a limit to the tokens of each text [count]; as it is with 0, where the services' own limits hold."""
    if not max_tokens:
        return arm
    return Arm(
        name=arm.name,
        call=partial(_limited, arm.call, max_tokens),
        settings={**arm.settings, "max_tokens": max_tokens},
    )


def known_names() -> tuple[str, ...]:
    """Names that `named` takes."""
    return (*CHAT_MODELS, *ROLES, *VARIANTS, ROUTE, f"{AGENT}ID")


def _limited(
    call: Callable[[Item, int, Replies], Call | None], max_tokens: int, item: Item, seed: int, replies: Replies
) -> Call | None:
    limited_call = call(item, seed, replies)
    if limited_call is None:
        return None
    limits = dict.fromkeys(LIMITS.get(limited_call.path, ()), max_tokens)
    return Call(service=limited_call.service, path=limited_call.path, body={**limited_call.body, **limits})


def _chat(model: str, item: Item, seed: int, _: Replies) -> Call:
    own: dict[str, Any] = {"fallback": False, "envelope": dict(WIDE)}
    if not item.is_program:
        own["answer_type"] = item.answer_type.value
    messages = [{"role": "user", "content": prompts.question(item).text}]
    body = {"model": model, "messages": messages, "seed": _seed(seed, model, item), "metacog": own}
    return Call(service="router", path="/v1/chat/completions", body=body)


def _route(assessor: str, item: Item, seed: int, _: Replies) -> Call:
    messages = [{"role": "user", "content": prompts.question(item).text}]
    body: Body = {"messages": messages, "seed": _seed(seed, ROUTE, item), "assessor": assessor}
    return Call(service="router", path="/v1/route", body=body)


def _listed(name: str, agents: Sequence[str]) -> Mapping[str, str]:
    """The setting that names agents; none where the service's own take part, as in older records."""
    return {name: ",".join(agents)} if agents else {}


def _deliberation(kind: str, measured: bool, agents: Sequence[str], item: Item, seed: int, _: Replies) -> Call:
    body = {
        "agents": list(agents),
        "question": prompts.task(item).text,
        "answer_type": item.answer_type.value,
        "assignment_kind": kind,
        "assignment_seed": derived_seed(seed, "eval", "roles", item.id),
        "seed": _seed(seed, "dialectic", item),
        "measure_stages": measured,
        "envelope": dict(WIDE),
    }
    return Call(service="assigner", path="/v1/deliberations", body=body)


def _alone(agent: str, item: Item, seed: int, _: Replies) -> Call:
    body = {
        "question": prompts.task(item).text,
        "answer_type": item.answer_type.value,
        "baseline": "SINGLE_AGENT",
        "first_agent": agent,
        "seed": _seed(seed, agent, item),
        "envelope": dict(WIDE),
    }
    return Call(service="delegation", path="/v1/tasks", body=body)


@value
class _Drawn:
    """The samples of an arbitration.

    Attributes:
        name: Its variant, one of `VARIANTS`.
        like: The arm whose generations it gets; empty: `samples`.
        samples: Its generations without such an arm [count].
        agents: Agents that solve; empty: those of the service.
    """

    name: str
    like: str
    samples: int
    agents: tuple[str, ...]


def _arbitration(drawn: _Drawn, item: Item, seed: int, replies: Replies) -> Call | None:
    name, like = drawn.name, drawn.like
    if like and not generations(replies.get(like)):
        return None
    body = {
        "question": prompts.task(item).text,
        "answer_type": item.answer_type.value,
        "mode": "PAPER",
        "variant": VARIANTS[name],
        "solver_agents": list(drawn.agents),
        "adaptive": {"stop": "NONE"},
        "self_consistency_samples": (generations(replies[like]) if like else drawn.samples),
        "solver_temperature": SOLVER_TEMPERATURE,
        "embedding_measures": False,
        "return_samples": True,
        "seed": _seed(seed, name, item),
        "envelope": dict(WIDE),
    }
    return Call(service="arbiter", path="/v1/arbitrations", body=body)


def generations(reply: Mapping[str, Any] | None) -> int:
    """Generations that a reply reports [count]; 0 without a reply."""
    usage = ((reply or {}).get("metacog") or reply or {}).get("usage") or {}
    return int(usage.get("generations") or 0)


def _seed(seed: int, name: str, item: Item) -> int:
    return derived_seed(seed, "eval", name, item.id)
