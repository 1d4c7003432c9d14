"""Votes on replies in the client's own format: calls of tools, JSON by schema, texts about images (papers.md 5.7).

Every vote is the client's own request, passed on as System 1 passes it on; so the winner is the model's own reply.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from metacog.arbiter.v1 import vote_pb2

from chassis.clock import milliseconds_since
from chassis.json_text import InvalidJson, dumps, loads
from chassis.serving.wire import plain, to_proto
from inference import (
    BackendModelClients,
    DeadlineExceeded,
    Reply,
    Spend,
    UnparsableOutput,
    WorkKind,
    object_of,
    objects_of,
    read_document,
    split_reasoning,
    text_of,
    tokens_of,
)
from kernel.answers import canonical, inferred_type, listed_options, rules_of
from kernel.answers.equality import number_form
from kernel.answers.units import CountedNumber, homes
from kernel.envelope import BudgetExhausted
from kernel.errors import MetacogError
from kernel.outcomes import Outcome, degraded_reasons, is_degraded
from kernel.seeds import derived_seed
from kernel.values import value
from kernel.votes.drafts import draft_answer
from kernel.votes.plans import EscalationReason, escalation_reason
from kernel.votes.replies import ToolCall, canonical_calls, canonical_json, most_majority_fields
from kernel.votes.votes import (
    DEFAULT_RULE,
    OVERDUE_TIME_SHARE,
    Vote,
    VoteGroup,
    VoteMode,
    VoteOutcome,
    VoteRule,
    VoteSource,
    VoteStop,
    grouped_by_key,
    is_comparable,
    source_name,
    source_parts,
    vote_outcome,
    vote_stop,
    votes_to_ask,
)
from services.router.metrics import count_cascade
from services.router.service.answering.promised_answers import NOT_COMPARED, withheld
from services.router.service.answering.strategy_task import StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.values import PassedThrough, RelayedEvent
from services.router.service.answering.vote_plans import PlannedVote
from services.router.service.answering.voting import CascadeCounter, kept
from services.router.service.gateway.chat_request import TOOL_FIELDS, ChatRequest
from services.router.service.gateway.passthrough import calls_of, lacking_feature
from services.router.service.gateway.whole_replies import chunks_of, first_choice
from services.router.service.runs.values import Escalation

# Account of the votes, and of the stronger model.
VOTE, ESCALATION = "vote", "escalation"
# Sampling temperature of a vote after the first where the client asks for 0: equal requests would get equal replies.
TEMPERATURE = 0.7
# Values of a reply times values of its schema that are read at most [count]: about half a second.
MOST_COMPARED = 300_000
# Answer of a reply that calls no tool, and whose text is free: the model chose to write.
A_TEXT = "a text"


@value
class ReadReply:
    """A read reply is what a reply says, as far as votes compare it.

    Attributes:
        answer: Canonical form; None where the reply is no valid vote.
        text: What the model wrote, or its calls.
        problem: Why it is no valid vote; empty where it is one.
        document: Its JSON, parsed; None where it is no JSON by request.
        is_number: Whether the answer is a number, which is compared with its unit.
    """

    answer: str | None
    text: str
    problem: str = ""
    document: Any = None
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One source answered.

    Attributes:
        source: Who was asked.
        reply: The model server's reply.
        read: What it says.
        duration_ms: Time from asking to the reply [ms, >= 0].
        cut: Whether the envelope cut it.
    """

    source: VoteSource
    reply: Mapping[str, Any]
    read: ReadReply
    duration_ms: float = 0.0
    cut: bool = False


class ReplyVotes:
    """This strategy asks models for whole replies in the client's format until enough are equal.

    Args:
        models: The models.
        chat: The chat request, which every vote is a copy of.
        count: Counts a vote with a stronger model behind it.
    """

    def __init__(self, models: BackendModelClients, chat: ChatRequest, count: CascadeCounter = count_cascade) -> None:
        self._models = models
        self._chat = chat
        self._count = count

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield every vote, then the winning reply and the result.

        Raises:
            MetacogError: The error of the first source, when no source could be asked at all.
        """
        if task.promise is not None:
            nothing = StrategyResult(text="", outcome=Outcome.ABSTAINED)
            yield kept(nothing, withheld(task.promise, NOT_COMPARED, ""))
            return
        ballot = _Ballot(self._models, self._chat, task, spend)
        async with aclosing(ballot.votes()) as votes:
            async for cast in votes:
                yield RelayedEvent(name="vote_cast", data=cast)
        account, order = ballot.account(), ballot.valid_replies()
        escalation = await self._escalated(ballot, task, spend)
        if escalation is not None:
            of = escalation.escalation
            self._count(of.model, of.reason or "", spend.ledger.usage().stages, ESCALATION)
        if escalation is not None and escalation.reply is not None:
            order = [escalation.reply]
        document = _joined([one.reply for one in order[: max(1, self._chat.samples)]])
        if document is not None:
            for piece in chunks_of(document) if self._chat.stream else [document]:
                yield PassedThrough(document=piece)
        yield _result(account, order[0] if order else None, escalation)

    async def _escalated(self, ballot: "_Ballot", task: StrategyTask, spend: Spend) -> "_Escalated | None":
        """Return what the stronger model replied; None where none is asked."""
        model = task.vote.options.escalate if task.vote is not None else ""
        reason = escalation_reason(ballot.outcome) if model else None
        if reason is None:
            return _Escalated(escalation=Escalation(model=model, reason=None)) if model else None
        escalation = Escalation(model=model, reason=EscalationReason(reason))
        try:
            source = VoteSource(model=source_name("", model), mode=VoteMode.DRAFT)
            reply = await ballot.asked(source, 0, ESCALATION)
        except MetacogError as error:
            if not ballot.valid_replies():
                raise
            return _Escalated(escalation=replace(escalation, error=f"{error.reason}: {error.message}"))
        return _Escalated(escalation=replace(escalation, answered=True), reply=reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Escalated:
    escalation: Escalation
    reply: Asked | None = None


class _Ballot:
    """The votes of one request while they are asked for."""

    def __init__(self, models: BackendModelClients, chat: ChatRequest, task: StrategyTask, spend: Spend) -> None:
        vote = task.vote or PlannedVote()
        self._models = models
        self._chat = chat
        self._task = task
        self._spend = spend
        self._rule = _rule(vote, chat.samples)
        self._order, self._left_out = self._sources(vote)
        self._asked: list[Asked] = []
        self._errors: list[MetacogError] = []
        self._groups: Sequence[VoteGroup] = ()
        self._stop: VoteStop | None = None
        self._began = time.monotonic()

    @property
    def outcome(self) -> VoteOutcome:
        """Return whether enough replies are equal."""
        return vote_outcome(self._groups, self._votes, self._rule)

    @property
    def _votes(self) -> Sequence[Vote]:
        return [Vote(source=one.source, answer=one.read.answer) for one in self._asked]

    def _sources(self, vote: PlannedVote) -> tuple[list[VoteSource], list[str]]:
        """Return who votes, and who cannot, with the reason."""
        named = [one.model for one in vote.sources(has_draft=False)]
        names = [*([""] if vote.has_draft or not named else []), *named]
        able: list[VoteSource] = []
        left_out: list[str] = []
        snapshot = self._models.current()
        for name in dict.fromkeys(names):
            lacks = lacking_feature(snapshot.named(name), self._chat.body)
            if lacks:
                left_out.append(f"{name or snapshot.default.config.name}: it is configured without {lacks}")
            else:
                able.append(VoteSource(model=source_name("", name), mode=VoteMode.DRAFT))
        return able, left_out

    async def votes(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield each vote as it comes, until no further one is asked for.

        Raises:
            MetacogError: The error of the first source, when no source could be asked at all.
        """
        draft = self._task.draft
        if draft is not None and draft.document is not None:
            yield self._cast(self._draft_vote(draft.document, cut=draft.cut))
        while self._stop is None:
            self._stop = vote_stop(self._groups, self._votes, self._rule)
            if self._stop is None:
                for one in await self._next_replies():
                    yield self._cast(one)
        if not self._asked and self._errors:
            raise self._errors[0]

    async def _next_replies(self) -> Sequence[Asked]:
        """Return the replies of the next sources, asked at once; one that fails is left out from now on."""
        if not self._order:
            self._stop = VoteStop.NO_SOURCE
            return ()
        begun = len(self._asked)
        count = max(1, votes_to_ask(self._rule, asked=begun, outstanding=0))
        sources = [self._order[(begun + place) % len(self._order)] for place in range(count)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._attempt(source, begun + place)) for place, source in enumerate(sources)]
        replies: list[Asked] = []
        for source, found in zip(sources, [task.result() for task in tasks], strict=True):
            if isinstance(found, Asked):
                replies.append(found)
                continue
            self._errors.append(found)
            if isinstance(found, BudgetExhausted) or self._spend.seconds_left() <= 0:
                self._stop = VoteStop.BUDGET_EXHAUSTED
            else:
                self._leave_out(source, found)
        return replies

    def _draft_vote(self, document: Mapping[str, Any], *, cut: bool) -> Asked:
        source = VoteSource(model=source_name("", ""), mode=VoteMode.DRAFT)
        return Asked(source=source, reply=document, read=read_reply(document, self._chat, self._task), cut=cut)

    async def _attempt(self, source: VoteSource, index: int) -> "Asked | MetacogError":
        within_s = self._spend.seconds_left() * (OVERDUE_TIME_SHARE if len(self._order) > 1 else 1.0)
        try:
            async with asyncio.timeout(within_s):
                return await self.asked(source, index, VOTE)
        except MetacogError as error:
            return error
        except TimeoutError:
            return DeadlineExceeded(f"no reply within {within_s:.3g} s, its share of the time")

    async def asked(self, source: VoteSource, index: int, stage: str) -> Asked:
        """Ask one source for a whole reply.

        Args:
            source: The source.
            index: Number of the vote, which decides its seed [>= 0].
            stage: Whose account it is.

        Raises:
            MetacogError: As a model call.
        """
        backend, began = self._models.current().named(source_parts(source.model).model), time.monotonic()
        body = {**self._chat.body, "model": backend.config.model, "stream": False}
        for name in ("stream_options", "n"):  # each vote is one whole reply
            body.pop(name, None)
        if index:
            if body.get("temperature") == 0:
                body["temperature"] = TEMPERATURE
            if "seed" in body:
                body["seed"] = derived_seed(body["seed"], VOTE, str(index))
        reply: Reply = await backend.forward(body, self._spend, stage, work=WorkKind.STAGE)
        return Asked(
            source=source,
            reply=reply.document,
            read=read_reply(reply.document, self._chat, self._task),
            duration_ms=milliseconds_since(began),
            cut=reply.cut,
        )

    def _leave_out(self, source: VoteSource, error: MetacogError) -> None:
        if source in self._order:
            self._order.remove(source)
            name = source_parts(source.model).model or self._models.current().default.config.name
            self._left_out.append(f"{name}: {error.reason}: {error.message}")

    def _cast(self, one: Asked) -> Mapping[str, Any]:
        """Count a vote and return it as the contract has it."""
        before = self._groups[0].canonical if self._groups else None
        self._asked.append(one)
        self._groups = self._grouped()
        return _cast_of(one, len(self._asked) - 1, changed=before is not None and self._groups[0].canonical != before)

    def _grouped(self) -> Sequence[VoteGroup]:
        """Return the groups, the winner first: of JSON that is undecided, that with most of the majority's fields."""
        groups = grouped_by_key(_keys([one.read for one in self._asked]), self._votes)
        by_fields = bool(self._chat.json_schema is not None and groups)
        if not by_fields or len(groups[0].votes) >= self._rule.agree:
            return groups
        valid = [index for index, one in enumerate(self._asked) if one.read.answer is not None]
        winner = valid[most_majority_fields([self._asked[index].read.document for index in valid])]
        return sorted(groups, key=lambda group: winner not in group.votes)

    def valid_replies(self) -> list[Asked]:
        """Return the valid votes: the winner first, the others as they came."""
        if not self._groups:
            return []
        winner = self._groups[0].votes[0]
        others = [one for index, one in enumerate(self._asked) if index != winner and one.read.answer is not None]
        return [self._asked[winner], *others]

    def account(self) -> Mapping[str, Any]:
        """Return the account of the vote, as REST spells it."""
        valid, ledger, outcome = self.valid_replies(), self._spend.ledger, self.outcome
        is_exhausted = self._stop is VoteStop.BUDGET_EXHAUSTED
        reasons = degraded_reasons(
            Outcome.ABSTAINED if outcome is VoteOutcome.ABSTAINED else Outcome.ANSWERED,
            ["BUDGET_EXHAUSTED: a limit ended the vote early"] if is_exhausted else [],
            of_agents=[f"SOURCE_LEFT_OUT: {one}" for one in self._left_out],
        )
        finished = {
            "outcome": outcome,
            "answer": valid[0].read.text if valid else "",
            "winner": self._groups[0].canonical if self._groups else None,
            "groups": [{"answer": one.canonical, "votes": one.votes, "log_odds": one.log_odds} for one in self._groups],
            "votes": [_cast_of(one, index) for index, one in enumerate(self._asked)],
            "stop_reason": self._stop,
            "agree": self._rule.agree,
            "most": self._rule.most,
            "asked": len(self._asked),
            "invalid": sum(one.read.answer is None for one in self._asked),
            "left_out": self._left_out,
            "usage": ledger.usage(),
            "budget_exhausted": is_exhausted or ledger.exhausted,
            "degraded": is_degraded(reasons),
            "degraded_reasons": reasons,
            "model": text_of(valid[0].reply.get("model")) if valid else "",
            "run_id": self._task.run_id,
            "duration_ms": milliseconds_since(self._began),
        }
        return plain(to_proto(finished, vote_pb2.VoteFinished))


def _rule(vote: PlannedVote, samples: int) -> VoteRule:
    """Return when asking stops; a client that wants several replies gets as many votes, all of them asked for."""
    options = vote.options
    agree = options.agree or DEFAULT_RULE.agree
    most = options.most or max(DEFAULT_RULE.most, agree)
    if samples > 1:
        return VoteRule(agree=min(agree, samples), most=samples, ahead=min(options.ahead or 1, samples), ask_all=True)
    return VoteRule(agree=min(agree, most), most=most, ahead=min(options.ahead or 1, most), ask_all=options.ask_all)


def _cast_of(one: Asked, index: int, *, changed: bool = False) -> Mapping[str, Any]:
    choice = first_choice(one.reply)
    cast = {
        "index": index,
        "mode": one.source.mode,
        "model": text_of(one.reply.get("model")),
        "text": one.read.text,
        "answer": one.read.answer,
        "invalid_reason": one.read.problem,
        "completion_tokens": tokens_of(object_of(one.reply.get("usage")).get("completion_tokens")),
        "truncated": choice.get("finish_reason") == "length",
        "changed_lead": changed,
        "duration_ms": one.duration_ms,
        "source_model": source_parts(one.source.model).model,
    }
    return plain(to_proto(cast, vote_pb2.VoteCast))


def read_reply(reply: Mapping[str, Any], chat: ChatRequest, task: StrategyTask) -> ReadReply:
    """Return what a model server's reply says.

    Args:
        reply: A chat completion.
        chat: The request, which names tools and format.
        task: The task, whose question says what a text may answer.
    """
    message = object_of(first_choice(reply).get("message"))
    calls = [object_of(one.get("function")) for one in objects_of(message.get("tool_calls"))]
    if message.get("function_call"):
        calls = [object_of(message.get("function_call"))]
    if calls:
        return _read_calls(calls, _parameters(chat.body))
    text = split_reasoning(text_of(message.get("content")))[1].strip()
    if not text:
        return ReadReply(answer=None, text=text_of(message.get("refusal")), problem="it wrote nothing")
    if chat.json_schema is not None:
        return _read_json(text, chat.json_schema)
    return _read_text(text, chat, task)


def _parameters(body: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the schema of each tool's arguments, by its name."""
    functions = [object_of(one.get("function")) for one in objects_of(body.get("tools"))]
    functions += objects_of(body.get("functions"))
    return {text_of(one.get("name")): object_of(one.get("parameters")) for one in functions}


def _read_calls(calls: Sequence[Mapping[str, Any]], parameters: Mapping[str, Mapping[str, Any]]) -> ReadReply:
    shown = "; ".join(f"{text_of(one.get('name'))}({text_of(one.get('arguments'))})" for one in calls)
    read: list[ToolCall] = []
    for call in calls:
        name, arguments = text_of(call.get("name")), text_of(call.get("arguments")) or "{}"
        if name not in parameters:
            return ReadReply(answer=None, text=shown, problem=f"it calls {name!r}, which the request does not offer")
        document, problem = _document(arguments, parameters[name])
        if problem:
            return ReadReply(answer=None, text=shown, problem=f"arguments of {name}: {problem}")
        read.append(ToolCall(name=name, arguments=document))
    return ReadReply(answer=canonical_calls(read), text=shown)


def _read_json(text: str, schema: Mapping[str, Any]) -> ReadReply:
    document, problem = _document(text, schema)
    if problem:
        return ReadReply(answer=None, text=text, problem=problem)
    return ReadReply(answer=canonical_json(document), text=text, document=document)


def _document(text: str, schema: Mapping[str, Any]) -> tuple[Any, str]:
    """Return a JSON text as a document, or why it does not follow its schema.

    How long reading takes follows from both sizes together, so that these have a bound.
    """
    if _values(text) * _values(dumps(schema).decode()) > MOST_COMPARED:
        return None, "it is too long to be read by a schema of this size"
    try:
        document = loads(text)
        found = read_document(text, schema)
    except InvalidJson as error:
        return None, f"it is no JSON: {error}"
    except UnparsableOutput as error:
        return None, error.message
    except (TypeError, ValueError, RecursionError) as error:  # a schema that is none
        return None, f"the schema cannot be read: {error}"
    outside = ", ".join(found.clamped)
    return document, f"out of its bounds: {outside}" if outside else ""


def _values(text: str) -> int:
    """Return about how many values a JSON text has [count, >= 1]."""
    return 1 + text.count(",") + text.count("{") + text.count("[")


def _read_text(text: str, chat: ChatRequest, task: StrategyTask) -> ReadReply:
    question = task.messages[-1].content if task.messages else ""
    options = listed_options(question)
    kind = task.request.answer_type or inferred_type(question, options=options).answer_type
    answer = draft_answer(text, kind, options=options)
    form = None if answer is None or not is_comparable(answer, kind) else canonical(answer, kind, options=options)
    offers_tools = any(chat.body.get(name) for name in TOOL_FIELDS)
    if offers_tools and (form is None or rules_of(kind).is_free_text):
        form = A_TEXT
    if form is None:
        return ReadReply(answer=canonical_json(text), text=text)
    return ReadReply(answer=form, text=text, is_number=rules_of(kind).is_numeric and form != A_TEXT)


def _keys(replies: Sequence[ReadReply]) -> list[str | None]:
    """Return the key of each reply: equal replies have one, an invalid one has none."""
    keys = [one.answer for one in replies]
    numbers = [(place, one.answer) for place, one in enumerate(replies) if one.is_number and one.answer is not None]
    found = homes([CountedNumber(number=number_form(form), form=form) for _, form in numbers])
    for (place, _), home in zip(numbers, found, strict=True):
        keys[place] = numbers[home][1]
    return keys


def _joined(replies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return one completion whose choices are the first choices of `replies`; None where there is none."""
    if not replies:
        return None
    choices = [{**first_choice(reply), "index": index} for index, reply in enumerate(replies)]
    return {**replies[0], "choices": choices}


def _result(account: Mapping[str, Any], winner: Asked | None, escalated: _Escalated | None) -> StrategyResult:
    escalation = escalated.escalation if escalated is not None else None
    reasons = list(account["degraded_reasons"])
    if escalation is not None and escalation.error:
        reasons.append(f"NOT_ESCALATED: {escalation.model}: {escalation.error}")
    if winner is None:
        return StrategyResult(
            text="", outcome=Outcome.ABSTAINED, deliberation=account, degraded_reasons=reasons, escalation=escalation
        )
    choice = first_choice(winner.reply)
    message = object_of(choice.get("message"))
    _, text = split_reasoning(text_of(message.get("content")))
    return StrategyResult(
        text=text,
        calls=calls_of(message),
        model=text_of(winner.reply.get("model")),
        finish_reason=text_of(choice.get("finish_reason")) or "stop",
        deliberation=account,
        degraded_reasons=reasons,
        budget_exhausted=bool(account["budget_exhausted"]) or winner.cut,
        escalation=escalation,
    )
