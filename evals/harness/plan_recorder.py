"""Records a plan: every arm on every item with every seed, in order for one item."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from evals.harness.arms import Arm, Call, Case, Plan
from evals.harness.failures import is_final, replies_in_force
from evals.harness.item_records import Introduce, introduction
from evals.harness.provenance import Provenance
from evals.harness.recorder import RecordingContext, RecordSink, ReplyRecorder, Request, run_concurrently
from evals.harness.replies import read_answer, texts
from evals.items import Item
from evals.records import Record
from evals.router_client import Body
from kernel.values import value


class Suite(Protocol):
    """A suite that answers requests."""

    async def post(self, service: str, path: str, body: Body) -> Body:
        """Return the reply of one of its services."""


Checker = Callable[[Item, Mapping[str, str]], Awaitable[Mapping[str, Any]]]
"""Runs programs against an item's tests: from texts by name to the result of each."""


@value
class PlanContext:
    """The context of recording a plan.

    Attributes:
        suite: The suite that is asked.
        sink: The place that takes the records.
        check: Runs programs against their tests; None where no item asks for one.
        introduce: What records hold of an item and its prompt.
    """

    suite: Suite
    sink: RecordSink
    check: Checker | None = None
    introduce: Introduce = introduction


async def record_plan(
    plan: Plan, context: PlanContext, records: Sequence[Record], on_progress: Callable[[], None]
) -> None:
    """Record everything in `plan` that is not in `records` yet, and ask again where an error was transient.

    Args:
        plan: What is asked.
        context: What recording works with.
        records: What is recorded already.
        on_progress: Called after each request of the plan, those that were recorded before too.

    Raises:
        ServiceUnreachable: When a service, or the model behind it, cannot be reached; what came before is recorded.
        RecordsUnusable: When a reply was made with another model, prompt or configuration than those in `records`.
    """
    recorder = ReplyRecorder(
        RecordingContext(
            send=partial(_send, plan, context),
            sink=context.sink,
            provenance=provenance,
            introduce=context.introduce,
        ),
        records,
    )
    replies = [record for record in records if record["kind"] == "reply"]
    answered = {key: record for key, record in replies_in_force(replies).items() if _is_done(record, plan.arms)}

    async def record_case(case: Case) -> None:
        known: dict[str, Record] = {}
        for arm in plan.arms:
            record = answered.get((case.item.id, arm.name, case.seed))
            if record is None and (call := arm.call(case.item, case.seed, known)) is not None:
                record = await recorder.record(_request(case, arm, call))
            if record is not None:
                known[arm.name] = record.get("reply", {})
            on_progress()

    await run_concurrently(plan.cases, record_case, plan.concurrency)


def provenance(record: Record) -> Provenance | None:
    """Return what a record reports of how its reply was made; None of an error."""
    answer = read_answer(record)
    if answer is None:
        return None
    return Provenance(
        arm=record["arm"], models=answer.models, digests=answer.digests, configuration=answer.configuration
    )


def _is_done(record: Record, arms: Sequence[Arm]) -> bool:
    """Return whether nothing more is asked for in place of `record`."""
    reply = record.get("reply")
    return is_final(record) and all(
        arm.is_whole(reply) for arm in arms if reply is not None and arm.name == record["arm"]
    )


def _request(case: Case, arm: Arm, call: Call) -> Request:
    names = {"item": case.item.id, "arm": arm.name, "seed": case.seed, "path": call.path}
    return Request(item=case.item, arm=arm.name, call=call, names=names)


async def _send(plan: Plan, context: PlanContext, request: Request) -> Mapping[str, Any]:
    call = request.call
    reply = await context.suite.post(call.service, call.path, {**call.body, **_time_limit(call, plan.timeout_ms)})
    return await checked_reply(request.item, call.path, reply, context.check)


async def checked_reply(item: Item, path: str, reply: Body, check: Checker | None) -> Record:
    """Return what is recorded of a reply: the reply, and for a program the result of its tests."""
    if not item.is_program or check is None:
        return {"reply": reply}
    return {"reply": reply, "checks": await check(item, texts(path, reply))}


def _time_limit(call: Call, timeout_ms: int) -> Body:
    """The envelope of `call` with its time limit, where a model is called at all."""
    if call.path.endswith("/replays"):
        return {}
    if call.path.endswith("/completions"):
        own = call.body.get("metacog", {})
        return {"metacog": {**own, "envelope": {**own.get("envelope", {}), "timeout_ms": timeout_ms}}}
    return {"envelope": {**call.body.get("envelope", {}), "timeout_ms": timeout_ms}}
