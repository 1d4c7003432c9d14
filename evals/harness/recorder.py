"""The recorder of every evaluation: it sends requests and writes their replies as they arrive."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from evals import prompts
from evals.harness.arms import Call
from evals.harness.item_records import Introduce, introduction
from evals.harness.provenance import Provenance, recorded_provenance
from evals.items import Item
from evals.records import Record
from evals.router_client import RequestRejected
from kernel.values import value

Job = TypeVar("Job")


@value
class Request:
    """One request of an evaluation.

    Attributes:
        item: The item that it is about.
        arm: The arm that answers it.
        call: What is sent.
        names: The fields that name it in its record.
    """

    item: Item
    arm: str
    call: Call
    names: Record


class RecordSink(Protocol):
    """A place that takes records."""

    def add(self, record: Record) -> None:
        """Store one."""


Send = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Sends a request; returns its `reply`, and what else is recorded of it."""


@value
class RecordingContext:
    """The context of recording.

    Attributes:
        send: Sends one request.
        sink: The place that takes the records.
        provenance: What a record reports of how its reply was made; None of an error.
        introduce: What records hold of an item and its prompt.
    """

    send: Send
    sink: RecordSink
    provenance: Callable[[Record], Provenance | None]
    introduce: Introduce = introduction


class ReplyRecorder:
    """Sends requests and records their replies; the first reply about an item follows the record of the item itself.

    Args:
        context: What recording works with.
        records: What is recorded already.
    """

    def __init__(self, context: RecordingContext, records: Sequence[Record]) -> None:
        self._context = context
        replies = (record for record in records if record["kind"] == "reply")
        known = (context.provenance(record) for record in replies)
        self._before = recorded_provenance(each for each in known if each is not None)
        self._introduced = {record["id"] for record in records if record["kind"] == "item"}

    async def record(self, request: Request) -> Record:
        """Send one request; its record is written when this returns.

        Raises:
            ServiceUnreachable: When a service, or the model behind it, cannot be reached.
            RecordsUnusable: When the reply was made with another model, prompt or configuration than earlier ones.
        """
        began = time.monotonic()
        try:
            outcome = await self._context.send(request)
        except RequestRejected as error:
            outcome = {"error": error.problem}
        elapsed_ms = round((time.monotonic() - began) * 1000, 3)
        record = reply_record(request.names, outcome, elapsed_ms)
        provenance = self._context.provenance(record) if request.arm in self._before.arms else None
        if provenance is not None:
            self._before.require_same(provenance)
        self._introduce(request.item)
        self._context.sink.add(record)
        return record

    def _introduce(self, item: Item) -> None:
        if item.id not in self._introduced:
            self._introduced.add(item.id)
            self._context.sink.add(self._context.introduce(item, prompts.question(item).text))


def reply_record(names: Record, outcome: Record, elapsed_ms: float | None) -> Record:
    """Return the record of a reply.

    Args:
        names: The fields that name its request.
        outcome: The `reply`, and what else is recorded of it; or the `error`.
        elapsed_ms: Time from request to reply [ms, >= 0]; None where it is unknown.

    Example:
        >>> reply_record({"item": "a"}, {"error": {"status": 400}}, 3.0)
        {'kind': 'reply', 'item': 'a', 'elapsed_ms': 3.0, 'error': {'status': 400}}
    """
    time_taken = {} if elapsed_ms is None else {"elapsed_ms": elapsed_ms}
    return {"kind": "reply", **names, **time_taken, **outcome}


async def run_concurrently(jobs: Iterable[Job], work: Callable[[Job], Awaitable[None]], concurrency: int) -> None:
    """Do `work` on every job in order, `concurrency` [count, >= 1] of them at a time; the first error ends all."""
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            await work(job)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
