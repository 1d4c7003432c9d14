"""The requests of the router's evaluation: its choice on every item by every assessor, recorded as replies arrive.

One request at a time unless asked otherwise: the milliseconds are part of what is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from evals import prompts
from evals.errors import ServiceUnreachable
from evals.harness.arms import Call, RequestLimits
from evals.harness.failures import is_final
from evals.harness.manifest import SEEDING, current_time, prompt_digests
from evals.harness.provenance import Provenance
from evals.harness.recorder import RecordingContext, RecordSink, ReplyRecorder, Request, run_concurrently
from evals.items import Item
from evals.records import Record
from evals.router_client import Body
from evals.suite import configuration_in_force
from kernel.msv.assessors import AssessorName
from kernel.policy import Strategy
from kernel.seeds import derived_seed
from kernel.values import value

# Those that are measured unless others are named. `answers` knows of a question its kind and its importance alone.
# `default`: the router decides as for a client that names none: by its own assessor, policy and labels.
DEFAULT = "default"
KNOWN_ASSESSORS = (*(name.value for name in AssessorName), DEFAULT)
ASSESSORS = tuple(name for name in KNOWN_ASSESSORS if name != AssessorName.ANSWERS)
DRAFT = AssessorName.DRAFT.value
# The System 1 answer by itself; recorded under the name of its strategy.
SINGLE_PASS = Strategy.SYSTEM_ONE.value
# What stays the same over a run that is resumed.
FIXED = ("seed", "seeding", "timeout_ms", "config_version", "threshold", "weights", "prompt_digests", "precision")

_NO_MODEL = ("BACKEND_UNAVAILABLE", "BACKEND_REPLY_INVALID")


class Router(Protocol):
    """A router that answers requests."""

    async def post(self, path: str, body: Body) -> Body:
        """Return its reply."""


@value
class Plan(RequestLimits):
    """A plan for the router; each request has generous time, or a slow machine is measured instead.

    Attributes:
        items: The items, in order.
        assessors: Names of the assessors.
        seed: Seed that each item derives its own from; all requests of an item have the same, so that drafts are alike.
        single_pass: Items of each set whose System 1 answer is also asked for by itself [count], which shows what
            System 1 alone takes. Without the assessor `draft` that is every item.
        concurrency: Requests at a time [count, >= 1].
        precision: Precision of the model's weights; empty: not stated.
    """

    items: Sequence[Item]
    assessors: Sequence[str] = ASSESSORS
    seed: int = 7
    single_pass: int = 3
    precision: str = ""


@value
class AssessorRequest:
    """One request: an item, and the assessor that judges it (or `system1`)."""

    item: Item
    asked: str


def asks(plan: Plan) -> Sequence[AssessorRequest]:
    """Every request of `plan`, in order.

    The assessor that comes first changes from item to item, so that none always finds the prompt in the backend's
    cache.
    """
    seen: dict[str, int] = {}
    requests: list[AssessorRequest] = []
    for place, item in enumerate(plan.items):
        seen[item.dataset] = seen.get(item.dataset, 0) + 1
        is_timed = DRAFT not in plan.assessors or seen[item.dataset] <= plan.single_pass
        names = [*plan.assessors, *([SINGLE_PASS] if is_timed else ())]
        first = place % len(names)
        requests.extend(AssessorRequest(item=item, asked=name) for name in [*names[first:], *names[:first]])
    return requests


def answered(records: Sequence[Record]) -> frozenset[tuple[str, str]]:
    """Item and assessor of every request that is recorded and not asked again; a transient error is asked again."""
    replies = (record for record in records if record["kind"] == "reply")
    return frozenset((record["item"], record["asked"]) for record in replies if is_final(record))


def provenance(record: Record) -> Provenance | None:
    """Return what a record reports of how its reply was made; None of an error."""
    reply = record.get("reply")
    if reply is None:
        return None
    models = (reply["model"],) if reply.get("model") else ()
    return Provenance(arm=record["asked"], models=models, digests=reply.get("prompt_digests") or {})


async def heading(router: Router, plan: Plan, about: Record) -> Record:
    """The record that opens a run: what it is made with.

    Args:
        router: Reports the configuration in force, by a decision that needs no model.
        plan: What is asked.
        about: What the caller knows: commit, data sets.

    Raises:
        ServiceUnreachable: When the router cannot be reached.
    """
    return {
        "kind": "run",
        "time": current_time(),
        **about,
        "seed": plan.seed,
        "seeding": SEEDING,
        "assessors": list(plan.assessors),
        "single_pass": plan.single_pass,
        "concurrency": plan.concurrency,
        "timeout_ms": plan.timeout_ms,
        "precision": plan.precision or None,
        **await configuration_in_force(router.post),
        "prompt_digests": prompt_digests(("question",)),
    }


async def record_plan(
    router: Router, plan: Plan, records: Sequence[Record], sink: RecordSink, on_progress: Callable[[], None]
) -> None:
    """Record everything in `plan` that is not in `records` yet, and ask again where an error was transient.

    Args:
        router: The router that is asked.
        plan: What is asked.
        records: What is recorded already.
        sink: The place that takes the replies.
        on_progress: Called after each request of the plan.

    Raises:
        ServiceUnreachable: When the router, or the model behind it, cannot be reached; what came before is recorded.
        RecordsUnusable: When a reply was made with another model or prompt than those in `records`.
    """
    context = RecordingContext(send=partial(_send, router), sink=sink, provenance=provenance)
    requests = _RoutingRequests(ReplyRecorder(context, records), plan, records)

    async def record_next(ask: AssessorRequest) -> None:
        await requests.record(ask)
        on_progress()

    await run_concurrently(asks(plan), record_next, plan.concurrency)


class _RoutingRequests:
    """Records every request that is not recorded yet."""

    def __init__(self, recorder: ReplyRecorder, plan: Plan, records: Sequence[Record]) -> None:
        self._recorder = recorder
        self._plan = plan
        self._answered = set(answered(records))
        replies = [record for record in records if record["kind"] == "reply"]
        self._without_draft = {record["item"] for record in replies if is_final(record) and _lacks_draft(record)}

    async def record(self, ask: AssessorRequest) -> None:
        """Record one request, and the System 1 answer by itself where a draft is missing."""
        if (ask.item.id, ask.asked) not in self._answered:
            await self._record(ask)
        missing = ask.asked == DRAFT and ask.item.id in self._without_draft
        if missing and (ask.item.id, SINGLE_PASS) not in self._answered:
            await self._record(AssessorRequest(item=ask.item, asked=SINGLE_PASS))

    async def _record(self, ask: AssessorRequest) -> None:
        self._answered.add((ask.item.id, ask.asked))
        names = {"item": ask.item.id, "asked": ask.asked}
        request = Request(item=ask.item, arm=ask.asked, call=_call(ask, self._plan), names=names)
        if _lacks_draft(await self._recorder.record(request)):
            self._without_draft.add(ask.item.id)


def _call(ask: AssessorRequest, plan: Plan) -> Call:
    common = {
        "messages": [{"role": "user", "content": prompts.question(ask.item).text}],
        "seed": derived_seed(plan.seed, "eval", ask.item.id),
        "envelope": {"timeout_ms": plan.timeout_ms},
    }
    if ask.asked == SINGLE_PASS:
        body = {**common, "strategy": SINGLE_PASS, "fallback": False}
        return Call(service="router", path="/v1/answers", body=body)
    assessor = "" if ask.asked == DEFAULT else ask.asked
    return Call(service="router", path="/v1/route", body={**common, "assessor": assessor})


async def _send(router: Router, request: Request) -> Mapping[str, Any]:
    reply = _without_conversation(await router.post(request.call.path, request.call.body))
    _require_a_model(reply)
    return {"reply": reply}


def _without_conversation(reply: Body) -> Body:
    """`reply` without the conversation, which is the item."""
    run = reply.get("run", reply)
    return {name: content for name, content in run.items() if name != "messages"}


def _lacks_draft(record: Record) -> bool:
    return record["asked"] == DRAFT and not record.get("reply", {}).get("draft")


def _require_a_model(reply: Body) -> None:
    """Raise where a reply reports only that the model is unavailable: it is no measurement."""
    msv: dict[str, Any] = reply.get("msv") or {}
    for reason in (msv.get("unknown_reasons") or {}).values():
        if reason.startswith(_NO_MODEL):
            raise ServiceUnreachable(f"the router's model is away: {reason}")
