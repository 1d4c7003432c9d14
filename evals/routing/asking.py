"""Ask a running router for its choice on every item by every assessor, and record its replies as they come.

One request at a time unless asked otherwise: the milliseconds are part of what is measured.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from chassis.prompts import template
from evals import prompts
from evals.errors import RecordsUnusable, RouterAway
from evals.harness.alike import Heard, before
from evals.harness.commands import ROUTING, command_of
from evals.harness.introducing import introduction
from evals.harness.refusals import is_final
from evals.items import Item
from evals.records import Record
from evals.router_client import Body, Refused
from kernel.values import value

ASSESSORS = ("verbalized", "probe", "hybrid", "draft")
DRAFT = "draft"
# The System 1 answer by itself; recorded under the name of its strategy.
PLAIN = "system1"
# What stays the same over a run that is resumed.
FIXED = ("seed", "timeout_ms", "config_version", "threshold", "weights", "prompt_digests")

_BACKEND_AWAY = "BACKEND_UNAVAILABLE"


class Router(Protocol):
    """A router that can be asked."""

    async def post(self, path: str, body: Body) -> Body:
        """Its reply."""


class Writer(Protocol):
    """Where records go."""

    def add(self, record: Record) -> None:
        """Keep one."""


@value
class Plan:
    """What is to be asked.

    Attributes:
        items: The items, in order.
        assessors: Names of the assessors.
        seed: Seed of every request.
        plain: Items of each set whose System 1 answer is also asked for by itself [count]: it tells what System 1
            alone takes. Without the assessor `draft` that is every item.
        concurrency: Requests at a time [count, >= 1].
        timeout_ms: Time that each request may take [ms]: generous, or a slow machine is measured instead.
    """

    items: Sequence[Item]
    assessors: Sequence[str] = ASSESSORS
    seed: int = 7
    plain: int = 3
    concurrency: int = 1
    timeout_ms: int = 600_000


@value
class Ask:
    """One request: an item, and by whom it is assessed (or `system1`)."""

    item: Item
    asked: str


def asks(plan: Plan) -> Sequence[Ask]:
    """Every request of `plan`, in order.

    Who is asked first changes from item to item, so that no assessor always finds the prompt in the backend's cache.
    """
    seen: dict[str, int] = {}
    made: list[Ask] = []
    for place, item in enumerate(plan.items):
        seen[item.dataset] = seen.get(item.dataset, 0) + 1
        plain = DRAFT not in plan.assessors or seen[item.dataset] <= plan.plain
        names = [*plan.assessors, *([PLAIN] if plain else ())]
        first = place % len(names)
        made.extend(Ask(item=item, asked=name) for name in [*names[first:], *names[:first]])
    return made


def answered(records: Sequence[Record]) -> frozenset[tuple[str, str]]:
    """Item and assessor of every request that is recorded and not asked again: what was refused in passing is."""
    replies = (record for record in records if record["kind"] == "reply")
    return frozenset((record["item"], record["asked"]) for record in replies if is_final(record))


def heard(record: Record) -> Heard:
    """With what the reply in `record` was made."""
    told = record["reply"]
    models = (told["model"],) if told.get("model") else ()
    return Heard(arm=record["asked"], models=models, digests=told.get("prompt_digests") or {})


async def heading(router: Router, plan: Plan, about: Record) -> Record:
    """The record that opens a run: what it is made with.

    Args:
        router: Asked for the configuration in force, by a decision that needs no model.
        plan: What is to be asked.
        about: What the caller knows: commit, data sets.

    Raises:
        RouterAway: When it cannot be asked.
    """
    state = {"correctness": 0.5, "experience": 0.5, "conflict": 0.5, "importance": 0.5}
    told = await router.post("/v1/route", {"msv": state})
    activation = told["activation"]
    return {
        "kind": "run",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
        "seed": plan.seed,
        "assessors": list(plan.assessors),
        "plain": plan.plain,
        "concurrency": plan.concurrency,
        "timeout_ms": plan.timeout_ms,
        "config_version": told["config_version"],
        "threshold": activation["threshold"],
        "weights": activation["weights"],
        "prompt_digests": {"question": template(prompts.__name__, "question")[1]},
    }


def resumable(heading: Record, records: Sequence[Record]) -> None:
    """Refuse to go on with records that were made otherwise.

    Raises:
        RecordsUnusable: When what must stay the same does not; names it.
    """
    before = next((record for record in records if record["kind"] == "run"), None)
    if before is None:
        return
    made = {**before, "command": command_of(before)}
    for name, now in {"command": ROUTING, **{name: heading[name] for name in FIXED}}.items():
        if made.get(name) != now:
            said = f"the records there were made with {name} {made.get(name)}, this run has {now}"
            raise RecordsUnusable(f"{said}; take another --out")


async def ask_all(
    router: Router, plan: Plan, records: Sequence[Record], writer: Writer, told: Callable[[], None]
) -> None:
    """Ask for everything in `plan` that is not in `records` yet, and again for what was refused in passing.

    Args:
        router: Who is asked.
        plan: What is to be asked.
        records: What is recorded already.
        writer: Gets the replies.
        told: Called after each request of the plan.

    Raises:
        RouterAway: When the router, or the model behind it, is away; what came before is recorded.
        RecordsUnusable: When a reply was made with another model or prompt than those in `records`.
    """
    desk = _Desk(router, plan, writer, records)
    waiting = iter(asks(plan))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.concurrency):
                group.create_task(_work(desk, waiting, told))
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


async def _work(desk: "_Desk", waiting: Iterator[Ask], told: Callable[[], None]) -> None:
    for ask in waiting:
        await desk.serve(ask)
        told()


class _Desk:
    """Asks what was not asked yet, and records it."""

    def __init__(self, router: Router, plan: Plan, writer: Writer, records: Sequence[Record]) -> None:
        self._router = router
        self._plan = plan
        self._writer = writer
        self._answered = set(answered(records))
        self._introduced = {record["id"] for record in records if record["kind"] == "item"}
        replies = [record for record in records if record["kind"] == "reply"]
        self._undrafted = {record["item"] for record in replies if is_final(record) and _lacks_draft(record)}
        self._before = before(heard(record) for record in replies if "reply" in record)

    async def serve(self, ask: Ask) -> None:
        """Ask once; and for the System 1 answer by itself where a draft is missing."""
        if (ask.item.id, ask.asked) not in self._answered:
            await self._ask(ask)
        if ask.asked == DRAFT and ask.item.id in self._undrafted and (ask.item.id, PLAIN) not in self._answered:
            await self._ask(Ask(item=ask.item, asked=PLAIN))

    async def _ask(self, ask: Ask) -> None:
        prompt = prompts.question(ask.item)
        path, body = _request(ask.asked, prompt.text, self._plan)
        self._answered.add((ask.item.id, ask.asked))
        began = time.monotonic()
        try:
            outcome = {"reply": _kept(await self._router.post(path, body))}
        except Refused as refusal:
            outcome = {"refusal": refusal.problem}
        elapsed_ms = round((time.monotonic() - began) * 1000, 3)
        _demand_a_model(outcome)
        record = {"kind": "reply", "item": ask.item.id, "asked": ask.asked, "elapsed_ms": elapsed_ms, **outcome}
        if "reply" in record and ask.asked in self._before.arms:
            self._before.demand_alike(heard(record))
        if ask.item.id not in self._introduced:
            self._introduced.add(ask.item.id)
            self._writer.add(introduction(ask.item, prompt.text))
        if _lacks_draft(record):
            self._undrafted.add(ask.item.id)
        self._writer.add(record)


def _request(asked: str, prompt: str, plan: Plan) -> tuple[str, Body]:
    common = {
        "messages": [{"role": "user", "content": prompt}],
        "seed": plan.seed,
        "envelope": {"timeout_ms": plan.timeout_ms},
    }
    if asked == PLAIN:
        return "/v1/answers", {**common, "strategy": PLAIN, "fallback": False}
    return "/v1/route", {**common, "assessor": asked}


def _kept(reply: Body) -> Body:
    """`reply` without the conversation, which is the item."""
    run = reply.get("run", reply)
    return {name: told for name, told in run.items() if name != "messages"}


def _lacks_draft(record: Record) -> bool:
    return record["asked"] == DRAFT and not record.get("reply", {}).get("draft")


def _demand_a_model(outcome: Record) -> None:
    """A reply that only says that the model is away is no measurement."""
    msv: dict[str, Any] = outcome.get("reply", {}).get("msv") or {}
    for reason in (msv.get("unknown_reasons") or {}).values():
        if reason.startswith(_BACKEND_AWAY):
            raise RouterAway(f"the router's model is away: {reason}")
