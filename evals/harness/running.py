"""Ask the suite, and record its replies as they come: bounded, resumable, in order for one item."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from evals import prompts
from evals.harness.alike import Heard, before
from evals.harness.arms import Arm, Call, Case, Plan
from evals.harness.introducing import Introduce, introduction
from evals.harness.refusals import is_final, standing
from evals.harness.replies import said, texts
from evals.items import Item
from evals.records import Record
from evals.router_client import Body, Refused
from kernel.answers import AnswerType
from kernel.values import value


class Suite(Protocol):
    """A suite that can be asked."""

    async def post(self, service: str, path: str, body: Body) -> Body:
        """The reply of one of its services."""


class Writer(Protocol):
    """Where records go."""

    def add(self, record: Record) -> None:
        """Keep one."""


Checker = Callable[[Item, Mapping[str, str]], Awaitable[Mapping[str, Any]]]
"""Runs programs against an item's tests: from texts by name to what became of each."""


@value
class World:
    """What asking needs from the world.

    Attributes:
        suite: Who is asked.
        writer: Gets the records.
        check: Judges programs by running them; None where no item asks for one.
        introduce: What records keep of an item and its prompt.
    """

    suite: Suite
    writer: Writer
    check: Checker | None = None
    introduce: Introduce = introduction


def heard(record: Record) -> Heard | None:
    """With what a reply was made; None of a refusal."""
    answer = said(record)
    if answer is None:
        return None
    return Heard(arm=record["arm"], models=answer.models, digests=answer.digests, configuration=answer.configuration)


async def ask_all(plan: Plan, world: World, records: Sequence[Record], told: Callable[[], None]) -> None:
    """Ask for everything in `plan` that is not in `records` yet, and again for what was refused in passing.

    Args:
        plan: What is to be asked.
        world: Whom, and where replies go.
        records: What is recorded already.
        told: Called after each request of the plan, those that were recorded before too.

    Raises:
        RouterAway: When a service, or the model behind it, is away; what came before is recorded.
        RecordsUnusable: When a reply was made with another model, prompt or configuration than those in `records`.
    """
    desk = _Desk(plan, world, records)
    waiting = iter(plan.cases)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.concurrency):
                group.create_task(_work(desk, waiting, told))
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


async def _work(desk: "_Desk", waiting: Iterator[Case], told: Callable[[], None]) -> None:
    for case in waiting:
        await desk.serve(case, told)


def _is_done(record: Record, arms: Sequence[Arm]) -> bool:
    """Whether nothing more is to be asked for in place of `record`."""
    said = record.get("reply")
    return is_final(record) and all(
        arm.is_whole(said) for arm in arms if said is not None and arm.name == record["arm"]
    )


class _Desk:
    """Asks what was not asked yet, and records it."""

    def __init__(self, plan: Plan, world: World, records: Sequence[Record]) -> None:
        self._plan = plan
        self._world = world
        replies = [record for record in records if record["kind"] == "reply"]
        self._answered = {key: record for key, record in standing(replies).items() if _is_done(record, plan.arms)}
        self._before = before(told for record in replies if (told := heard(record)) is not None)
        self._introduced = {record["id"] for record in records if record["kind"] == "item"}

    async def serve(self, case: Case, told: Callable[[], None]) -> None:
        """Ask every arm about one case."""
        replies: dict[str, Record] = {}
        for arm in self._plan.arms:
            record = self._answered.get((case.item.id, arm.name, case.seed)) or await self._ask(case, arm, replies)
            if record is not None:
                replies[arm.name] = record.get("reply", {})
            told()

    async def _ask(self, case: Case, arm: Arm, replies: Mapping[str, Record]) -> Record | None:
        call = arm.call(case.item, case.seed, replies)
        if call is None:
            return None
        began = time.monotonic()
        try:
            outcome = await self._outcome(case, call)
        except Refused as refusal:
            outcome = {"refusal": refusal.problem}
        elapsed_ms = round((time.monotonic() - began) * 1000, 3)
        asked = {"item": case.item.id, "arm": arm.name, "seed": case.seed, "path": call.path}
        record = {"kind": "reply", **asked, "elapsed_ms": elapsed_ms, **outcome}
        self._demand_alike(record)
        if case.item.id not in self._introduced:
            self._introduced.add(case.item.id)
            self._world.writer.add(self._world.introduce(case.item, prompts.question(case.item).text))
        self._world.writer.add(record)
        return record

    def _demand_alike(self, record: Record) -> None:
        """Where the arm was recorded before, its reply must be made as it was then."""
        told = heard(record) if record["arm"] in self._before.arms else None
        if told is not None:
            self._before.demand_alike(told)

    async def _outcome(self, case: Case, call: Call) -> dict[str, Any]:
        timed = {**call.body, **_bounded(call, self._plan.timeout_ms)}
        reply = await self._world.suite.post(call.service, call.path, timed)
        if case.item.answer_type is not AnswerType.CODE or self._world.check is None:
            return {"reply": reply}
        return {"reply": reply, "checks": await self._world.check(case.item, texts(call.path, reply))}


def _bounded(call: Call, timeout_ms: int) -> Body:
    """The envelope of `call` with its time limit, where a model is called at all."""
    if call.path.endswith("/replays"):
        return {}
    if call.path.endswith("/completions"):
        own = call.body.get("metacog", {})
        return {"metacog": {**own, "envelope": {**own.get("envelope", {}), "timeout_ms": timeout_ms}}}
    return {"envelope": {**call.body.get("envelope", {}), "timeout_ms": timeout_ms}}
