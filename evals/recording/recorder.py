"""Records items one after another; each is in the file when it is done, and the next start goes on after the last."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from chassis.serving.wire import from_plain
from evals.commit import commit
from evals.errors import RecordsUnusable
from evals.harness.arms import Call
from evals.harness.item_records import content_digest
from evals.harness.manifest import SEEDING, current_time, prompt_digests
from evals.harness.recorder import run_concurrently
from evals.items import Item
from evals.recording import calls
from evals.recording.calls import DRAFT, OTHER, PROGRAM, REASONED
from evals.recording.compressed import CompressedRecords
from evals.recording.values import ItemRecord
from evals.records import Record
from evals.router_client import Body, RequestRejected
from kernel.errors import MalformedRequest
from kernel.values import value

HEADING, MADE_WITH, ITEM = "recording", "made_with", "item"
# Fields of the heading that stay the same over a recording that is continued.
FIXED = ("seed", "other", "described", "prompt_digests")
TEMPLATES = ("question", "task", "proposed")

Send = Callable[[str, str, Body], Awaitable[Body]]
"""Posts a body to a path of a service."""


@value
class RecordingPlan:
    """What is recorded, and how.

    Attributes:
        items: The items, in the order in which they are recorded.
        other: Name of the other model in the catalogue; empty: there is none.
        seed: Seed of the recording.
        described: What the suite does not report of itself: quantisation, version of the model server.
        concurrency: Items at a time [count, >= 1].
        timeout_ms: Time that one request may take [ms].
        within_s: Time after which no further item is begun [s]; None: no limit.
    """

    items: Sequence[Item]
    other: str = ""
    seed: int = 7
    described: str = ""
    concurrency: int = 1
    timeout_ms: int = 900_000
    within_s: float | None = None


@value
class Recorded:
    """How a start of the recorder ended.

    Attributes:
        items: Items that are recorded [count].
        added: Those of this start [count].
        failed: Items that a temporary error kept from being recorded; the next start asks for them again.
    """

    items: int
    added: int
    failed: Sequence[str]


async def record_items(
    plan: RecordingPlan, send: Send, file: CompressedRecords, on_progress: Callable[[], None] = lambda: None
) -> Recorded:
    """Record every item of `plan` that `file` does not hold yet.

    Raises:
        ServiceUnreachable: When a service, or the model behind it, cannot be reached; what came before is recorded.
        RecordsUnusable: When the file was made differently, or holds another question under the name of an item.
    """
    require_continuable(plan, file.records)
    file.add(heading(plan))
    known = {record["id"] for record in file.records if record["kind"] == ITEM}
    recorder = _Recorder(plan, send, file)
    began = time.monotonic()

    async def record_next(item: Item) -> None:
        in_time = plan.within_s is None or time.monotonic() - began < plan.within_s
        if in_time and item.id not in known:
            await recorder.record(item)
        on_progress()

    await run_concurrently(plan.items, record_next, plan.concurrency)
    return Recorded(items=len(known) + recorder.added, added=recorder.added, failed=tuple(recorder.failed))


def heading(plan: RecordingPlan) -> Record:
    """The record that opens a start."""
    return {
        "kind": HEADING,
        "time": current_time(),
        "commit": commit(),
        "seed": plan.seed,
        "seeding": SEEDING,
        "other": plan.other,
        "described": plan.described,
        "prompt_digests": dict(prompt_digests(TEMPLATES)),
        "sets": list(dict.fromkeys(item.dataset for item in plan.items)),
        "timeout_ms": plan.timeout_ms,
    }


def require_continuable(plan: RecordingPlan, records: Sequence[Record]) -> None:
    """Reject a file that was made differently, or that holds another question under the name of an item.

    Raises:
        RecordsUnusable: Names what differs.
    """
    opening = heading(plan)
    for before in (record for record in records if record["kind"] == HEADING):
        for name in FIXED:
            if before.get(name) != opening[name]:
                raise RecordsUnusable(
                    f"the recording there was made with {name} {before.get(name)!r}, this start has {opening[name]!r};"
                    " take another --recording"
                )
    digests = {record["id"]: record["digest"] for record in records if record["kind"] == ITEM}
    other = [item.id for item in plan.items if digests.get(item.id, content_digest(item)) != content_digest(item)]
    if other:
        raise RecordsUnusable(f"the recording there holds another question as {other[0]}; take another --recording")


def item_records(records: Sequence[Record]) -> Sequence[ItemRecord]:
    """The items of a recording, in their order.

    Raises:
        RecordsUnusable: When one of them is none.
    """
    try:
        found = [
            from_plain({name: content for name, content in record.items() if name != "kind"}, ItemRecord)
            for record in records
            if record["kind"] == ITEM
        ]
    except MalformedRequest as error:
        raise RecordsUnusable(f"an item of the recording is none: {error.message}") from error
    return list({item.id: item for item in found}.values())


class _Recorder:
    """Asks for everything that is recorded of an item, at once, and writes it."""

    def __init__(self, plan: RecordingPlan, send: Send, file: CompressedRecords) -> None:
        self._plan = plan
        self._send = send
        self._file = file
        self._made_with: dict[str, Mapping[str, Any]] = {
            record["source"]: {"models": record["models"], "digests": record["digests"]}
            for record in file.records
            if record["kind"] == MADE_WITH
        }
        self.added = 0
        self.failed: list[str] = []

    async def record(self, item: Item) -> None:
        """Record one item; a temporary error leaves it for the next start."""
        try:
            record = await self._asked(item)
        except RequestRejected as error:
            self.failed.append(f"{item.id}: {error.message}")
            return
        self._file.add({"kind": ITEM, **orjson.loads(orjson.dumps(record))})
        self.added += 1

    async def _asked(self, item: Item) -> ItemRecord:
        plan = self._plan
        votes = calls.vote_calls(item, plan.seed, plan.timeout_ms, plan.other)
        chains = [[REASONED, PROGRAM], [OTHER]] if plan.other else [[REASONED, PROGRAM]]
        async with _first_error(), asyncio.TaskGroup() as group:
            drafting = group.create_task(self._drafted(item))
            voting = [group.create_task(self._voted({name: votes[name] for name in names})) for names in chains]
        draft, check, seconds = drafting.result()
        answers = {DRAFT: [calls.recorded_draft(item, draft, seconds)]}
        for name, replies in {name: each for task in voting for name, each in task.result().items()}.items():
            for reply in replies:
                self._require_same(name, [reply["model"]], reply["prompt_digests"])
            answers[name] = [calls.recorded_vote(item, reply) for reply in replies]
        self._require_same(DRAFT, [], draft["prompt_digests"])
        return calls.item_record(item, answers, calls.recorded_checks(draft, check), draft)

    async def _drafted(self, item: Item) -> tuple[Body, Body | None, float]:
        """Return the reply with the System 1 answer, that to its check in a fresh message, and its seconds."""
        plan, began = self._plan, time.monotonic()
        draft = await self._post(calls.draft_call(item, plan.seed, plan.timeout_ms))
        seconds, text = time.monotonic() - began, calls.draft_text(draft)
        if not text.strip():
            return draft, None, seconds
        proposed = calls.proposed_answer(item, text)
        return draft, await self._post(calls.check_call(item, proposed, plan.seed, plan.timeout_ms)), seconds

    async def _voted(self, votes: Mapping[str, Sequence[Call]]) -> Mapping[str, Sequence[Body]]:
        """Return the replies to votes of one model, asked one after another: a server reads the question once."""
        return {name: [await self._post(call) for call in each] for name, each in votes.items()}

    async def _post(self, call: Call) -> Body:
        return await self._send(call.service, call.path, call.body)

    def _require_same(self, source: str, models: Sequence[str], digests: Mapping[str, str]) -> None:
        """Record what a source was made with when it first answers, and reject an answer that was made differently.

        Raises:
            RecordsUnusable: When another model or prompt answers; names it.
        """
        before = self._made_with.get(source, {"models": [], "digests": {}})
        named = [model for model in models if model]
        for name, digest in digests.items():
            known = before["digests"].get(name, digest)
            if known != digest:
                raise RecordsUnusable(
                    f"the prompt {name} of {source} is another one ({digest[:12]}); take another --recording"
                )
        if named and before["models"] and named != before["models"]:
            raise RecordsUnusable(
                f"{source} answers by {named[0]}, before by {before['models'][0]}; take another --recording"
            )
        now = {"models": named or before["models"], "digests": {**before["digests"], **digests}}
        if now != before or source not in self._made_with:
            self._made_with[source] = now
            self._file.add({"kind": MADE_WITH, "source": source, **now})


class _first_error:  # noqa: N801 - reads as a statement
    """Raises the first error of a group of tasks in place of the group."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ExceptionGroup):
            raise error.exceptions[0] from error
