"""System 2 strategies: other services of the suite, relayed event by event."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import Message
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc
from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc
from metacog.delegation.v1 import delegation_pb2_grpc, tasks_pb2

from chassis.errors import PeerRefused, PeerUnavailable
from chassis.peer import NOT_SENT, REPLIES, Peer
from chassis.spend import Spend
from chassis.wire import event, from_plain, to_proto
from kernel.answers import Outcome
from kernel.envelope import Envelope, Usage
from kernel.errors import Code
from kernel.ledger import Reservation
from kernel.prices import amount_of, units_of
from services.router.service.answer import Answered, Made, Task
from services.router.service.asking import chosen
from services.router.service.plain_money import fallback_cost
from services.router.service.stopping import until_stop
from services.router.service.values import AnswerToken, Relayed

# What a fallback to System 1 is left with: one sample, this many tokens, this share of the time.
KEPT_GENERATIONS = 1
KEPT_TOKENS = 512
KEPT_TIME = 0.2
# The service is told to be done this much before we hang up, so that its best answer so far still arrives [s].
HEAD_START_S = 0.3

# Time that the delegation service may take to learn [s].
FEEDBACK_S = 10.0

# A refusal of this kind, before the first event, spent nothing.
NOTHING_DONE = frozenset({Code.UNAVAILABLE, Code.UNIMPLEMENTED, Code.UNAUTHENTICATED, Code.INVALID_ARGUMENT})

ContractEvents = Callable[[str, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """How one service is spoken to.

    Attributes:
        method: Streaming method of its stub.
        request: Makes the request, but for the envelope.
        finished: Name of the event that ends a stream.
        silent: Events that the router tells in its own way.
        token: Text of the answer that an event carries; empty for none.
        answered: What the last event says.
    """

    method: Any
    request: Callable[[Task, Envelope], Message]
    finished: str
    silent: frozenset[str]
    token: ContractEvents
    answered: Callable[[Mapping[str, Any]], Answered]


class Relay:
    """A strategy that another service carries out, inside a part of the request's envelope."""

    def __init__(self, peer: Peer, dialogue: Dialogue) -> None:
        self._peer = peer
        self._dialogue = dialogue

    def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[Made, None]:
        """The service's events, then what it arrived at, its answer cut where the caller wants it to end."""
        made = self._made(task, spend)
        return until_stop(made, task.ask.stop) if task.ask.stop else made

    async def _made(self, task: Task, spend: Spend) -> AsyncGenerator[Made, None]:
        """The service's events, then what it arrived at.

        Raises:
            BudgetExhausted: When the envelope has no room.
            PeerUnavailable: When the service cannot be reached.
            PeerRefused: When it refuses.
        """
        timeout_s = spend.seconds_left() * (1 - KEPT_TIME if task.ask.fallback else 1)
        part = _part(spend, task)
        envelope = Envelope(
            max_generations=part.generations,
            max_generated_tokens=part.tokens,
            timeout_ms=max(1, int((timeout_s - HEAD_START_S) * 1000)),
            max_cost=None if part.cost is None else amount_of(part.cost),
        )
        try:
            async with aclosing(self._relayed(task, envelope, timeout_s)) as items:
                async for item in items:
                    if isinstance(item, Mapping):
                        _settle(part, item, spend)
                        yield self._dialogue.answered(item)
                    else:
                        yield item
        except (PeerUnavailable, PeerRefused) as refusal:
            came = refusal.metadata.get(REPLIES)
            if came == NOT_SENT or (came == "0" and refusal.code in NOTHING_DONE):
                part.release()
            raise
        finally:
            part.forfeit()

    async def _relayed(
        self, task: Task, envelope: Envelope, timeout_s: float
    ) -> AsyncGenerator[AnswerToken | Relayed | Mapping[str, Any], None]:
        """The service's events; the last one as plain data."""
        talk = self._dialogue
        finished: Mapping[str, Any] | None = None
        stream = self._peer.stream(talk.method, talk.request(task, envelope), timeout_s=timeout_s)
        async with aclosing(stream) as replies:
            async for reply in replies:
                name, data = event(reply)
                if name == talk.finished:
                    finished = data
                elif name not in talk.silent:
                    yield Relayed(name=name, data=data)
                if text := talk.token(name, data):
                    yield AnswerToken(text=text)
        if finished is None:
            raise PeerRefused(f"{self._peer.name} ended without an answer", Code.INTERNAL, "INTERNAL")
        yield finished


def _part(spend: Spend, task: Task) -> Reservation:
    """All that is left of the envelope, less what a fallback would need.

    Raises:
        BudgetExhausted: When that is nothing.
    """
    ledger, fallback = spend.ledger, task.ask.fallback
    if fallback and ledger.generations_left <= KEPT_GENERATIONS:
        ledger.reserve("system2", KEPT_GENERATIONS + 1, 0)  # which is refused
    kept = min(KEPT_TOKENS, ledger.unspent_tokens // 4) if fallback else 0
    generations = ledger.generations_left - (KEPT_GENERATIONS if fallback else 0)
    cost = ledger.cost_left
    if cost is not None:
        cost = max(1, cost - (fallback_cost(ledger, task.messages, kept) if fallback else 0))
    return ledger.reserve("system2", max(1, generations), max(1, ledger.unspent_tokens - kept), cost)


def _settle(part: Reservation, finished: Mapping[str, Any], spend: Spend) -> None:
    usage = from_plain(finished["usage"], Usage)
    part.settle(usage.stages)
    unknown = None if usage.unknown_cost is None else units_of(usage.unknown_cost)
    spend.ledger.lose(usage.unknown_generations, usage.unknown_tokens, unknown)


def dialectic(peer: Peer) -> Relay:
    """The five-role dialectic of the assigner."""
    stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
    return Relay(
        peer,
        Dialogue(
            method=stub.Deliberate,
            request=_deliberate_request,
            finished="deliberation_finished",
            silent=frozenset({"deliberation_started"}),
            token=lambda name, data: data["text"] if name == "stage_token" and data["stage"] == "SYNTHESIS" else "",
            answered=_deliberated,
        ),
    )


def _deliberate_request(task: Task, envelope: Envelope) -> Message:
    ask = task.ask
    return to_proto(
        {
            "messages": task.messages,
            "msv": task.route.msv,
            "answer_type": ask.answer_type,
            "assignment_kind": ask.assignment_kind,
            "assignment_seed": ask.assignment_seed,
            "fixed_assignment": ask.fixed_assignment,
            "envelope": envelope,
            "seed": ask.seed,
            "stage_max_tokens": ask.stage_max_tokens,
            "answer_max_tokens": ask.max_tokens,
            "run_id": task.run_id,
            "draft": task.route.draft,
        },
        assigner_pb2.DeliberateRequest,
    )


def _deliberated(data: Mapping[str, Any]) -> Answered:
    last = data["stages"][-1] if data["stages"] else {}
    judged = {m["stage"]: m["msv"]["correctness"] for m in data["measurements"] if m["msv"]}
    confidence = judged.get("SYNTHESIS")
    return Answered(
        text=data["answer"],
        outcome=Outcome(data["outcome"]),
        model=last.get("model", ""),
        finish_reason="length" if last.get("truncated") else "stop",
        confidence=confidence,
        confidence_source="" if confidence is None else "assessment",
        deliberation=data,
        degraded_reasons=data["degraded_reasons"],
        budget_exhausted=data["budget_exhausted"],
    )


def arbitration(peer: Peer) -> Relay:
    """The arbiter's solve, critique, arbitrate."""
    stub = arbiter_pb2_grpc.ArbiterServiceStub(peer.channel)
    return Relay(
        peer,
        Dialogue(
            method=stub.Arbitrate,
            request=_arbitrate_request,
            finished="arbitration_finished",
            silent=frozenset({"arbitration_started"}),
            token=lambda _name, _data: "",
            answered=_arbitrated,
        ),
    )


def _arbitrate_request(task: Task, envelope: Envelope) -> Message:
    ask = task.ask
    return to_proto(
        {
            # What is shown in the end is one of the samples, the solvers' or the arbiter's.
            "solver_max_tokens": ask.max_tokens,
            "arbitration_max_tokens": ask.max_tokens,
            "solver_temperature": ask.temperature,
            "arbitration_temperature": ask.temperature,
            **chosen(ask.arbitration),
            "messages": task.messages,
            "answer_type": ask.answer_type,
            # The run holds every sample.
            "return_samples": True,
            "envelope": envelope,
            "seed": ask.seed,
            "run_id": task.run_id,
        },
        arbiter_pb2.ArbitrateRequest,
    )


def _arbitrated(data: Mapping[str, Any]) -> Answered:
    solvers = [solver["model"] for solver in data["solver_results"]]
    # How well a share among the arbiter's samples is calibrated says nothing of one among the solvers'.
    settled = _settled("arbiter" if data["answer_source"] == "ARBITER" else "solvers")(data)
    alike = [sample["truncated"] for sample in data["samples"] if sample["text"].strip() == settled.text.strip()]
    return replace(
        settled,
        model=data["arbiter_model"] or next(iter(solvers), ""),
        finish_reason="length" if alike and all(alike) else "stop",
    )


def delegation(peer: Peer) -> Relay:
    """The delegation service's assess, execute, hand over or vote."""
    stub = delegation_pb2_grpc.DelegationServiceStub(peer.channel)
    return Relay(
        peer,
        Dialogue(
            method=stub.Process,
            request=_process_request,
            finished="task_finished",
            silent=frozenset({"task_started", "answer_token"}),
            token=lambda name, data: data["text"] if name == "answer_token" else "",
            answered=_processed,
        ),
    )


def _process_request(task: Task, envelope: Envelope) -> Message:
    ask = task.ask
    return to_proto(
        {
            "messages": task.messages,
            "answer_type": ask.answer_type,
            "envelope": envelope,
            "seed": ask.seed,
            "run_id": task.run_id,
            "temperature": ask.temperature,
            "answer_max_tokens": ask.max_tokens,
        },
        tasks_pb2.ProcessRequest,
    )


def _processed(data: Mapping[str, Any]) -> Answered:
    shown = next((vote for vote in data["votes"] if vote["text"] and vote["text"] == data["answer_text"]), None)
    settled = _settled("delegation")(data)
    if shown is None:
        return settled
    return replace(settled, model=shown["model"], finish_reason="length" if shown["truncated"] else "stop")


def delegation_feedback(peer: Peer) -> Callable[[Mapping[str, Any]], Awaitable[None]]:
    """Tells the delegation service of verdicts on its tasks."""
    stub = delegation_pb2_grpc.DelegationServiceStub(peer.channel)

    async def tell(verdict: Mapping[str, Any]) -> None:
        request = to_proto(verdict, tasks_pb2.SubmitFeedbackRequest)
        await peer.call(stub.SubmitFeedback, request, timeout_s=FEEDBACK_S)

    return tell


def _settled(source: str) -> Callable[[Mapping[str, Any]], Answered]:
    def read(data: Mapping[str, Any]) -> Answered:
        confidence = data.get("confidence")
        return Answered(
            text=data.get("answer_text") or data["answer"],
            outcome=Outcome(data["outcome"]),
            confidence=confidence,
            confidence_source="" if confidence is None else source,
            deliberation=data,
            degraded_reasons=data.get("degraded_reasons") or (),
            budget_exhausted=bool(data.get("budget_exhausted")),
        )

    return read
