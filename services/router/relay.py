"""The relay calls the other services of the suite: deadline, cancellation, trace, key and errors are passed on."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from google.protobuf.message import Message
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc, vote_pb2
from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc
from metacog.delegation.v1 import categories_pb2, delegation_pb2_grpc, experience_pb2, tasks_pb2

from chassis.errors import PeerError, PeerUnavailable
from chassis.serving.peer import NOT_SENT, REPLIES, Peer
from chassis.serving.wire import event, from_plain, plain, to_proto
from inference import Encoder, KindVectors, Spend
from kernel.answers import listed_options
from kernel.envelope import LARGEST_LIMIT, Envelope, StageUsage, Usage
from kernel.errors import Code, MetacogError
from kernel.learning.kinds import unit_vectors
from kernel.ledger import Reservation
from kernel.outcomes import Outcome
from kernel.prices import amount_of, units_of
from kernel.roles import FINAL_STAGE
from kernel.votes.drafts import draft_type
from kernel.votes.states import ProbabilityState
from kernel.votes.votes import VoteOutcome, VoteSource, default_agree, source_parts
from services.router.core.partial_accounts import spent_by, with_spent
from services.router.service.answering.run_in_progress import given_options
from services.router.service.answering.stop_texts import until_stop
from services.router.service.answering.strategy_task import StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.values import (
    AnswerToken,
    ArbitrationOptions,
    DelegationOptions,
    DialecticOptions,
    RelayedEvent,
)
from services.router.service.answering.vote_plans import PlannedVote
from services.router.service.assessment.cost_reserve import fallback_cost
from services.router.service.assessment.kinds import WITHIN_S
from services.router.service.assessment.subject import DraftAnswer

# What is reserved for a fallback to System 1: one sample, this many tokens, this share of the time.
RESERVED_GENERATIONS = 1
RESERVED_TOKENS = 512
RESERVED_TIME_SHARE = 0.2
# The share of the time that is reserved for a stronger model.
ESCALATION_TIME_SHARE = 0.4
# The service's deadline is before ours, so that its best answer so far still arrives: by this share of the time [0..1],
# within these bounds [s].
HEAD_START_SHARE = 0.05
LEAST_HEAD_START_S, MOST_HEAD_START_S = 0.3, 2.0

# Time that the delegation service may take to learn [s].
FEEDBACK_S = 10.0

# Time in which delegation returns the agents' experience [s], and its share of the time left at most [0..1].
EXPERIENCE_S = 1.0
EXPERIENCE_TIME_SHARE = 0.1

# An error of these codes, before the first event, spent nothing.
UNSPENT_CODES = frozenset({Code.UNAVAILABLE, Code.UNIMPLEMENTED, Code.UNAUTHENTICATED, Code.INVALID_ARGUMENT})

TokenOfEvent = Callable[[str, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedCall:
    """A relayed call says how one service is called.

    Attributes:
        method: Streaming method of its stub.
        request: Builds the request.
        finished: Name of the event that ends a stream.
        own: Events in whose place the router has its own.
        token: Returns the text of the answer in an event; empty for none.
        result: Reads the result from the last event.
        prepare: Completes a task in the time it gets [s], before the request is built; never raises a `MetacogError`.
        options: Field of our request with the options of the service; empty: there is none.
        option_fields: Fields of the service's request that come from there.
    """

    method: Any
    request: Callable[[StrategyTask, Envelope], Message]
    finished: str
    own: frozenset[str]
    token: TokenOfEvent
    result: Callable[[Mapping[str, Any]], StrategyResult]
    prepare: Callable[[StrategyTask, float], Awaitable[StrategyTask]] | None = None
    options: str = ""
    option_fields: frozenset[str] = frozenset()


class Relay:
    """A relay is a strategy that another service carries out, inside a part of the request's envelope."""

    def __init__(self, peer: Peer, call: RelayedCall) -> None:
        self._peer = peer
        self._call = call

    def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield the service's events, then its result, its answer cut at the caller's stop texts."""
        events = self._events(task, spend)
        return until_stop(events, task.request.stop) if task.request.stop else events

    async def _events(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield the service's events, then its result.

        Raises:
            BudgetExhausted: When the envelope has no room.
            PeerUnavailable: When the service cannot be reached.
            PeerError: When it returns an error.
        """
        if self._call.prepare is not None:
            task = await self._call.prepare(task, spend.seconds_left())
        timeout_s = spend.seconds_left() * (1 - _reserved_time_share(task))
        reservation = _reserved(spend, task)
        envelope = Envelope(
            max_generations=reservation.generations,
            max_generated_tokens=reservation.tokens,
            timeout_ms=max(1, int((timeout_s - head_start_s(timeout_s)) * 1000)),
            max_cost=None if reservation.cost is None else amount_of(reservation.cost),
        )
        known: Mapping[str, StageUsage] = {}
        try:
            async with aclosing(self._relayed(task, envelope, timeout_s)) as items:
                async for item in items:
                    if isinstance(item, Mapping):
                        _settle(reservation, item, spend)
                        yield self._call.result(item)
                    else:
                        if isinstance(item, RelayedEvent):
                            known = with_spent(known, spent_by(item.name, item.data))
                        yield item
        except (PeerUnavailable, PeerError) as error:
            replies = error.metadata.get(REPLIES)
            if replies == NOT_SENT or (replies == "0" and error.code in UNSPENT_CODES):
                reservation.release()
            _place_in_options(error, self._call)
            raise
        finally:
            reservation.forfeit(known)

    async def _relayed(
        self, task: StrategyTask, envelope: Envelope, timeout_s: float
    ) -> AsyncGenerator[AnswerToken | RelayedEvent | Mapping[str, Any], None]:
        """Yield the service's events; the last one as plain data."""
        call = self._call
        finished: Mapping[str, Any] | None = None
        stream = self._peer.stream(call.method, call.request(task, envelope), timeout_s=timeout_s)
        async with aclosing(stream) as replies:
            async for reply in replies:
                name, data = event(reply)
                if name == call.finished:
                    finished = data
                elif name not in call.own:
                    yield RelayedEvent(name=name, data=data)
                if text := call.token(name, data):
                    yield AnswerToken(text=text)
        if finished is None:
            raise PeerError(f"{self._peer.name} ended without an answer", Code.INTERNAL, "INTERNAL")
        yield finished


def head_start_s(timeout_s: float) -> float:
    """Return how long before our deadline that of the service is, which has `timeout_s` [s].

    Example:
        >>> [head_start_s(timeout_s) for timeout_s in (1.0, 20.0, 300.0)]
        [0.3, 1.0, 2.0]
    """
    return min(MOST_HEAD_START_S, max(LEAST_HEAD_START_S, timeout_s * HEAD_START_SHARE))


def _place_in_options(error: MetacogError, call: RelayedCall) -> None:
    """Have an error name the fields of our request where it names those of the service."""
    if error.code is not Code.INVALID_ARGUMENT:
        return

    def ours(field: str) -> str:
        return f"{call.options}.{field}" if field.partition(".")[0] in call.option_fields else field

    if field := error.metadata.get("field"):
        error.metadata["field"] = ours(field)
    error.violations = {ours(field): text for field, text in error.violations.items()}


def _is_escalated(task: StrategyTask) -> bool:
    """Return whether a stronger model may answer after the service; under a promise only one that is proved."""
    may_answer = task.promise is None or task.promise.escalated.last is not None
    return task.vote is not None and bool(task.vote.options.escalate) and may_answer


def _may_fall_back(task: StrategyTask) -> bool:
    """Return whether a single-pass call may answer, or writes the answer in another form, after the service."""
    return task.has_last_call or (task.request.fallback and task.promise is None)


def _reserved_time_share(task: StrategyTask) -> float:
    """Return the share of the time that is kept back for a single-pass call after the service [0..1]."""
    if _is_escalated(task):
        return ESCALATION_TIME_SHARE
    return RESERVED_TIME_SHARE if _may_fall_back(task) else 0.0


def _reserved(spend: Spend, task: StrategyTask) -> Reservation:
    """Reserve all that is left of the envelope, less what a single-pass call after the service would need.

    That is a fallback, or the answer of a stronger model; never both.

    Raises:
        BudgetExhausted: When that is nothing.
    """
    ledger, escalated = spend.ledger, _is_escalated(task)
    fallback = _may_fall_back(task) or escalated
    if fallback and ledger.generations_left <= RESERVED_GENERATIONS:
        ledger.reserve("system2", RESERVED_GENERATIONS + 1, 0)  # which raises
    fallback_tokens = min(RESERVED_TOKENS, ledger.unspent_tokens // 4) if fallback else 0
    if escalated:
        fallback_tokens = min(task.request.max_tokens or task.answer_tokens, ledger.unspent_tokens // 2)
    generations = ledger.generations_left - (RESERVED_GENERATIONS if fallback else 0)
    cost = ledger.cost_left
    if cost is not None:
        kept = fallback_cost(ledger, task.messages, fallback_tokens) if fallback else 0
        # What cannot pay for the stronger model pays for the votes.
        cost = max(1, cost - (0 if escalated and kept > cost // 2 else kept))
    return ledger.reserve("system2", max(1, generations), max(1, ledger.unspent_tokens - fallback_tokens), cost)


def _settle(reservation: Reservation, finished: Mapping[str, Any], spend: Spend) -> None:
    usage = from_plain(finished["usage"], Usage)
    reservation.settle(usage.stages)
    unknown = None if usage.unknown_cost is None else units_of(usage.unknown_cost)
    spend.ledger.count_as_spent(usage.unknown_generations, usage.unknown_tokens, unknown)


def dialectic(peer: Peer, delegation: Peer, *, experience_timeout_s: float = EXPERIENCE_S) -> Relay:
    """Return the five-role dialectic of the assigner; the agents' experience with the question is passed to it.

    Args:
        peer: The assigner.
        delegation: The delegation service, which has the agents' experience.
        experience_timeout_s: Time that its reply may take, inside the request's own [s, > 0].
    """
    stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
    return Relay(
        peer,
        RelayedCall(
            method=stub.Deliberate,
            request=_deliberate_request,
            finished="deliberation_finished",
            own=frozenset({"deliberation_started"}),
            token=lambda name, data: data["text"] if name == "stage_token" and data["stage"] == FINAL_STAGE else "",
            result=_dialectic_result,
            prepare=partial(_with_experience, delegation=delegation, timeout_s=experience_timeout_s),
            options="dialectic",
            option_fields=_names(DialecticOptions),
        ),
    )


def _names(options: type[Any]) -> frozenset[str]:
    return frozenset(one.name for one in fields(options))


async def _with_experience(task: StrategyTask, left_s: float, *, delegation: Peer, timeout_s: float) -> StrategyTask:
    """Return the task with each agent's experience; unknown, with the reason, where delegation does not return it."""
    stub = delegation_pb2_grpc.DelegationServiceStub(delegation.channel)
    request = to_proto({"messages": task.messages}, experience_pb2.MatchExperienceRequest)
    within_s = max(0.001, min(timeout_s, left_s * EXPERIENCE_TIME_SHARE))
    try:
        reply = await delegation.call(stub.MatchExperience, request, timeout_s=within_s)
    except MetacogError as error:
        return replace(task, experience={"agents": [], "unknown_reason": f"{error.reason}: {error.message}"})
    unknown = f"{delegation.name} has no agent of this name"
    return replace(task, experience={"agents": plain(reply)["agents"], "unknown_reason": unknown})


def _deliberate_request(task: StrategyTask, envelope: Envelope) -> Message:
    request = task.request
    return to_proto(
        {
            "messages": task.messages,
            "msv": task.route.msv,
            "answer_type": request.answer_type,
            "assignment_kind": request.assignment_kind,
            "assignment_seed": request.assignment_seed,
            "fixed_assignment": request.fixed_assignment,
            "envelope": envelope,
            "seed": request.seed,
            "stage_max_tokens": request.stage_max_tokens,
            "answer_max_tokens": request.max_tokens,
            "run_id": task.run_id,
            "draft": task.route.draft,
            "experience": task.experience,
            **given_options(request.dialectic),
        },
        assigner_pb2.DeliberateRequest,
    )


def _dialectic_result(data: Mapping[str, Any]) -> StrategyResult:
    last = data["stages"][-1] if data["stages"] else {}
    correctness = {m["stage"]: m["msv"]["correctness"] for m in data["measurements"] if m["msv"]}
    confidence = correctness.get(FINAL_STAGE)
    return StrategyResult(
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
    """Return the arbiter's solve, critique, arbitrate."""
    stub = arbiter_pb2_grpc.ArbiterServiceStub(peer.channel)
    return Relay(
        peer,
        RelayedCall(
            method=stub.Arbitrate,
            request=_arbitrate_request,
            finished="arbitration_finished",
            own=frozenset({"arbitration_started"}),
            token=lambda _name, _data: "",
            result=_arbitration_result,
            options="arbitration",
            option_fields=_names(ArbitrationOptions),
        ),
    )


def _arbitrate_request(task: StrategyTask, envelope: Envelope) -> Message:
    request = task.request
    return to_proto(
        {
            # The answer is one of the samples, the solvers' or the arbiter's.
            "solver_max_tokens": request.max_tokens,
            "arbitration_max_tokens": request.max_tokens,
            "solver_temperature": request.temperature,
            "arbitration_temperature": request.temperature,
            **given_options(request.arbitration),
            "messages": task.messages,
            "answer_type": request.answer_type,
            # The run holds every sample.
            "return_samples": True,
            "envelope": envelope,
            "seed": request.seed,
            "run_id": task.run_id,
        },
        arbiter_pb2.ArbitrateRequest,
    )


def _arbitration_result(data: Mapping[str, Any]) -> StrategyResult:
    solvers = [solver["model"] for solver in data["solver_results"]]
    # The calibration of a share among the arbiter's samples does not hold for one among the solvers'.
    result = _common_result("arbiter" if data["answer_source"] == "ARBITER" else "solvers", data)
    alike = [sample["truncated"] for sample in data["samples"] if sample["text"].strip() == result.text.strip()]
    return replace(
        result,
        model=data["arbiter_model"] or next(iter(solvers), ""),
        finish_reason="length" if alike and all(alike) else "stop",
    )


def votes(peer: Peer, competences: Callable[[], Sequence[VoteSource]] = tuple) -> Relay:
    """Return the arbiter's vote; `competences` returns what is recorded of the sources."""
    stub = arbiter_pb2_grpc.ArbiterServiceStub(peer.channel)
    return Relay(
        peer,
        RelayedCall(
            method=stub.Vote,
            request=lambda task, envelope: _vote_request(task, envelope, competences()),
            finished="vote_finished",
            own=frozenset({"vote_started"}),
            token=lambda _name, _data: "",
            result=_vote_result,
        ),
    )


def _vote_request(task: StrategyTask, envelope: Envelope, competences: Sequence[VoteSource]) -> Message:
    request, vote, draft = task.request, task.vote or PlannedVote(), task.draft
    options = vote.options
    question = "\n".join(turn.content for turn in task.messages)
    answer_type = request.answer_type
    if answer_type is None and draft is not None:
        answer_type = draft_type(question, draft.text, options=listed_options(question)).answer_type
    return to_proto(
        {
            "messages": task.messages,
            "answer_type": answer_type,
            "draft": None if draft is None else _draft(draft),
            "ask_draft": draft is None and vote.has_draft,
            "sources": vote.sources(has_draft=draft is not None),
            "keep_order": vote.keep_order,
            "competences": [_source(one) for one in competences],
            "agree": options.agree or default_agree(task.route.msv),
            "most": options.most,
            "ahead": options.ahead,
            **_asked_on(task),
            "tests": options.tests,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "envelope": envelope,
            "seed": request.seed,
            "run_id": task.run_id,
        },
        vote_pb2.VoteRequest,
    )


def _asked_on(task: StrategyTask) -> Mapping[str, Any]:
    """Return whether all votes are asked for, and the agreement at which asking stops all the same."""
    asks_all = task.vote is not None and task.vote.options.ask_all
    levels = task.promise
    if asks_all or levels is None or levels.went_on.last is None:  # nothing that more votes could prove
        return {"ask_all": asks_all}
    enough = levels.first.last
    stop = None if enough is None else {"agreeing": enough.agreeing, "against": enough.against}
    return {"ask_all": True, "enough": stop}


def _draft(draft: DraftAnswer) -> Mapping[str, Any]:
    return {"text": draft.text, "model": draft.model, "completion_tokens": min(draft.tokens, LARGEST_LIMIT)}


def _source(recorded: VoteSource) -> Mapping[str, Any]:
    named = source_parts(recorded.model)
    return {"agent": named.agent, "model": named.model, "mode": recorded.mode, "competence": recorded.competence}


def _vote_result(data: Mapping[str, Any]) -> StrategyResult:
    shown = next((vote for vote in data["votes"] if vote["text"] and vote["text"] == data["answer"]), None)
    return StrategyResult(
        text=data["answer"],
        outcome=Outcome.ABSTAINED if data["outcome"] == VoteOutcome.ABSTAINED else Outcome.ANSWERED,
        model=data["model"],
        finish_reason="length" if shown is not None and shown["truncated"] else "stop",
        deliberation=data,
        degraded_reasons=data["degraded_reasons"],
        budget_exhausted=data["budget_exhausted"],
    )


def delegation(peer: Peer) -> Relay:
    """Return the delegation service's assess, execute, hand over or vote."""
    stub = delegation_pb2_grpc.DelegationServiceStub(peer.channel)
    return Relay(
        peer,
        RelayedCall(
            method=stub.Process,
            request=_process_request,
            finished="task_finished",
            own=frozenset({"task_started", "answer_token"}),
            token=lambda name, data: data["text"] if name == "answer_token" else "",
            result=_delegation_result,
            options="delegation",
            option_fields=_names(DelegationOptions),
        ),
    )


def _process_request(task: StrategyTask, envelope: Envelope) -> Message:
    request = task.request
    return to_proto(
        {
            "messages": task.messages,
            "answer_type": request.answer_type,
            "envelope": envelope,
            "seed": request.seed,
            "run_id": task.run_id,
            "temperature": request.temperature,
            "answer_max_tokens": request.max_tokens,
            **given_options(request.delegation),
        },
        tasks_pb2.ProcessRequest,
    )


def _delegation_result(data: Mapping[str, Any]) -> StrategyResult:
    shown = next((vote for vote in data["votes"] if vote["text"] and vote["text"] == data["answer_text"]), None)
    result = _common_result("delegation", data)
    if shown is None:
        return result
    return replace(result, model=shown["model"], finish_reason="length" if shown["truncated"] else "stop")


def kinds(peer: Peer) -> Callable[[], Awaitable[KindVectors]]:
    """Return a reader of the kinds that the delegation service has, with the vectors of their prototypes."""
    stub = delegation_pb2_grpc.DelegationServiceStub(peer.channel)

    async def read() -> KindVectors:
        reply = await peer.call(stub.ListDimensions, categories_pb2.ListDimensionsRequest(), timeout_s=WITHIN_S)
        by_kind = {
            each.dimension: unit_vectors([list(prototype.vector) for prototype in each.prototypes])
            for each in reply.dimensions
            if each.prototypes
        }
        lengths = {vectors.shape[1] for vectors in by_kind.values()}
        encoder = Encoder(name=reply.encoder, dimension=lengths.pop()) if len(lengths) == 1 else None
        return KindVectors(encoder=encoder, by_kind=by_kind)

    return read


def delegation_feedback(peer: Peer) -> Callable[[Mapping[str, Any]], Awaitable[None]]:
    """Return a receiver that submits labels of its tasks to the delegation service."""
    stub = delegation_pb2_grpc.DelegationServiceStub(peer.channel)

    async def submit(label: Mapping[str, Any]) -> None:
        request = to_proto(label, tasks_pb2.SubmitFeedbackRequest)
        await peer.call(stub.SubmitFeedback, request, timeout_s=FEEDBACK_S)

    return submit


def _common_result(source: str, data: Mapping[str, Any]) -> StrategyResult:
    """Return what arbitrations and tasks report alike."""
    confidence = data.get("confidence")
    return StrategyResult(
        text=data.get("answer_text") or data["answer"],
        outcome=Outcome(data["outcome"]),
        confidence=confidence,
        confidence_source="" if confidence is None else source,
        unmapped_state=ProbabilityState(data.get("confidence_state") or ProbabilityState.UNCALIBRATED),
        deliberation=data,
        degraded_reasons=data.get("degraded_reasons") or (),
        budget_exhausted=bool(data.get("budget_exhausted")),
    )
