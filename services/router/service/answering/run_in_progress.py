"""A run in progress: from what a request asks, over its decision, draft and votes, to the record of it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from random import SystemRandom
from typing import Any, Protocol

from chassis.clock import milliseconds_since
from chassis.errors import ClientGone
from chassis.ids import new_id
from chassis.json_text import dumps
from inference import QuestionKind, RunModels, Spend
from kernel.conversation import ChatMessage, Turn
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits, limits
from kernel.errors import MetacogError
from kernel.learning.kind_shares import KindShares
from kernel.msv import MSV
from kernel.outcomes import Outcome, degraded_reasons, is_degraded
from kernel.policy import Strategy
from kernel.values import value
from kernel.votes.promise import PromiseLevels
from kernel.votes.votes import default_agree
from services.router import metrics
from services.router.core.cost_guard import least_tokens, most_tokens
from services.router.core.fallback import attempts
from services.router.core.partial_accounts import FINISHED, partial_account
from services.router.core.shadow import agreement
from services.router.service.answering.admission import Admission
from services.router.service.answering.default_limits import widened_limits
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.answering.measured_state import (
    AskedQuestion,
    EarlierWinners,
    VotedAnswer,
    state_after_vote,
    winner_digest,
)
from services.router.service.answering.promised_answers import (
    WITHOUT_LABELS,
    PromiseOfRun,
    PromisesInForce,
)
from services.router.service.answering.recording import RunRecorder
from services.router.service.answering.run_confidence import ConfidenceInAnswer, run_confidence
from services.router.service.answering.strategy_task import (
    NO_OTHERS,
    VOTED,
    AnswerStrategy,
    StrategyResult,
    StrategyTask,
    no_levels,
)
from services.router.service.answering.values import (
    AnswerRequest,
    AnswerToken,
    ArbitrationOptions,
    CostGuard,
    DelegationOptions,
    DialecticOptions,
    Event,
    PassedThrough,
    RelayedEvent,
    ServedAnswer,
)
from services.router.service.answering.vote_drafts import voting_draft
from services.router.service.answering.vote_plans import PlannedVote, VotePlans
from services.router.service.assessment.assessors import only_the_prior
from services.router.service.assessment.routing import RoutingContext, RoutingQuestion, decide
from services.router.service.assessment.subject import DRAFT_STAGE, DraftAnswer, DrafterFactory, Subject
from services.router.service.assessment.values import Routed
from services.router.service.calibration.recalibration import Recalibration, without_map
from services.router.service.runs.accounts import whole_account
from services.router.service.runs.values import (
    ACCOUNT_FIELDS,
    CallKind,
    Citation,
    CostGuardOutcome,
    FellBack,
    Idempotency,
    PromiseOutcome,
    Run,
    Shadow,
)

# Samples of an assessment from which it costs more than one rating [count].
SAMPLING = 2


def given_options(options: ArbitrationOptions | DialecticOptions | DelegationOptions | None) -> Mapping[str, Any]:
    """Return the options that the caller gave, by name."""
    if options is None:
        return {}
    every = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: value for name, value in every.items() if value not in (None, "", ())}


def request_digest(request: AnswerRequest, client_request: bytes) -> str:
    """Return the digest of the whole request [sha256, hexadecimal]: a repetition has the same.

    Args:
        request: The request.
        client_request: The client's own request, which contains more; empty: there is none.
    """
    content = client_request or dumps(replace(request, request_id="") if request.request_id else request)
    return sha256(content).hexdigest()


def messages_digest(messages: Sequence[Turn]) -> str:
    """Return the digest of a conversation [sha256, hexadecimal]."""
    return sha256(dumps(list(messages))).hexdigest()


# What is kept of a conversation for its continuation at most [bytes].
MOST_KEPT_BYTES = 4 * 1024 * 1024


# Strategies whose labels say what System 2 is worth on a kind of question.
TAUGHT_BY_KIND = frozenset({Strategy.VOTE, Strategy.CASCADE, Strategy.DIALECTIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The context holds everything that answering needs beside the request.

    Attributes:
        routing: How the system is chosen.
        strategies: The strategies.
        drafter: Writes the System 1 answer for assessors that judge it.
        limits: Default envelope by strategy; `None` is for requests that leave the strategy to the router.
        answer_tokens: Tokens of a System 1 answer whose request states none [count].
        ceilings: The most that the envelope of a request may have.
        models: Models that assessors and System 1 call.
        vote_plans: Who votes.
        recorder: Where runs are recorded.
        idempotency: Finds answers to repeated requests.
        admission: Bounds how much is in flight.
        recalibrated: Maps the confidence of a strategy to the one that is served.
        shares: Returns the shares of right System 1 answers, which the assessor `answers` gives as confidence.
        shadows: Gets every answered request whose strategy the router chose; None where no run gets a shadow.
        earlier: Looks up the winning answers of earlier runs of a question; None: they are not looked up.
        promises: The operator's promise, and the levels of agreement that keep any promise.
        label_share: Share of the served runs that are drawn at random to be labelled [0..1].
        draw: Draws a number at random [0..1).
        now: Wall clock.
    """

    routing: RoutingContext
    strategies: Mapping[Strategy, AnswerStrategy]
    drafter: DrafterFactory
    limits: Mapping[Strategy | None, Limits]
    recorder: RunRecorder
    idempotency: IdempotentAnswers
    models: RunModels
    vote_plans: VotePlans
    answer_tokens: int = 1024
    ceilings: Ceilings = DEFAULT_CEILINGS
    admission: Admission = field(default_factory=Admission)
    recalibrated: Recalibration = without_map
    shares: Callable[[], KindShares] = only_the_prior
    earlier: EarlierWinners | None = None
    shadows: "ShadowQueue | None" = None
    promises: PromisesInForce = WITHOUT_LABELS
    label_share: float = 0.0
    draw: Callable[[], float] = SystemRandom().random
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def with_system_one(
        self, strategy: AnswerStrategy, drafter: DrafterFactory, others: Mapping[Strategy, AnswerStrategy] = NO_OTHERS
    ) -> "AnswerContext":
        """Return a copy with another System 1; by field, since `replace` is slow and every chat request does this.

        Args:
            strategy: System 1.
            drafter: Writes its answers.
            others: What else answers in a way of its own.
        """
        own = {Strategy.SYSTEM_ONE: strategy, **others}
        return AnswerContext(
            routing=self.routing,
            strategies={**self.strategies, **own},
            drafter=drafter,
            limits=self.limits,
            answer_tokens=self.answer_tokens,
            ceilings=self.ceilings,
            models=self.models,
            vote_plans=self.vote_plans,
            recorder=self.recorder,
            idempotency=self.idempotency,
            admission=self.admission,
            recalibrated=self.recalibrated,
            shares=self.shares,
            earlier=self.earlier,
            shadows=self.shadows,
            promises=self.promises,
            label_share=self.label_share,
            draw=self.draw,
            now=self.now,
        )


@value
class RequestOrigin:
    """This context is what an API knows of a request beyond the request itself.

    Attributes:
        key_name: Name of the API key of the request.
        reason: Why its strategy is named, if it is.
        samples: Answers that the client asks of a single-pass call [count, >= 1].
        client_request: The client's own request, by which a repetition is recognised; empty: ours.
        chat: The conversation as the client sent it, with what is not text; empty: as the request has it.
        streamed: Whether the answer is streamed to the client.
        keeps_format: Whether the answer needs more than one text, such as a call of a tool.
        served: The answer that was served for this request already, where the run is its shadow; None for served runs.
        call: What the client called.
        kept_from: Place of the first message of `chat` that is kept for a continuation; None: none is.
        kept_request: What is kept of the client's request beside it, as JSON.
        citations: Passages that the answer can use; None where none were asked for, or they are unknown.
        citations_unknown_reason: Why they are unknown, as `CODE: message`; empty otherwise.
    """

    key_name: str = ""
    reason: str = "requested"
    samples: int = 1
    client_request: bytes = b""
    chat: Sequence[ChatMessage] = ()
    streamed: bool = False
    keeps_format: bool = False
    served: ServedAnswer | None = None
    call: CallKind = CallKind.ANSWER
    kept_from: int | None = None
    kept_request: str = ""
    citations: Sequence[Citation] | None = None
    citations_unknown_reason: str = ""


UNKNOWN_ORIGIN = RequestOrigin()


class ShadowQueue(Protocol):
    """This queue holds answered requests that may be answered again, by another policy."""

    def offer(self, request: AnswerRequest, origin: RequestOrigin, run: Run) -> None:
        """Take an answered request, or leave it; never waits, and never fails."""


async def _written(draft: DraftAnswer, _spend: Spend) -> DraftAnswer:
    """Return a System 1 answer that is written already."""
    return draft


class RunInProgress:
    """A run is in progress until `record` or `record_failure` puts it into the journal."""

    # Why the model gave no System 1 answer; empty while it was not asked, or gave one.
    _draft_problem = ""

    def __init__(
        self,
        context: AnswerContext,
        request: AnswerRequest,
        messages: Sequence[Turn],
        named: Strategy | None,
        origin: RequestOrigin,
        promise: PromiseOfRun | None = None,
    ) -> None:
        self.promise = promise
        self.run_id = new_id()
        self.request = request
        self.messages = messages
        self.route: Routed | None = None
        self.draft: DraftAnswer | None = None
        self.vote: PlannedVote | None = None
        self.strategy: Strategy | None = named
        self.idempotency: Idempotency | None = None
        self.state: MSV | None = None
        self.levels: PromiseLevels | None = None
        self.result = StrategyResult(text="", outcome=Outcome.ABSTAINED, finish_reason="")
        self._context = context
        self._drafter = context.drafter(request, messages)
        self.origin = origin
        self.digest = request_digest(request, origin.client_request)
        self._created_at = context.now()
        self._began = time.monotonic()
        self._first_token_ms: float | None = None
        self._fallbacks: list[FellBack] = []
        self._guard: CostGuardOutcome | None = None
        self._finished: list[tuple[str, Mapping[str, Any]]] = []
        self._left_out: Sequence[str] = ()
        self._kind: asyncio.Task[QuestionKind] | None = None
        self._limits, self.spend = self._spend(named)

    def _spend(self, named: Strategy | None) -> tuple[Limits, Spend]:
        """Return the limits of the run, and what it may spend inside them."""
        context, request = self._context, self.request
        default = widened_limits(
            context.limits[named], request, self.origin.samples, named, answer_tokens=context.answer_tokens
        )
        found = limits(request.envelope, default, context.ceilings)
        names = [request.model] if request.model else []
        if found.max_cost is not None:
            names += context.vote_plans.models_of(named, request, promised=self.is_promised)
        return found, Spend(found, models=context.models.of_run(*names))

    @property
    def is_promised(self) -> bool:
        """Return whether an answer is given only if labels prove that it keeps a promise."""
        return self.promise is not None and self.promise.applies

    @property
    def is_shadow(self) -> bool:
        """Return whether the request was served already, by another run."""
        return self.origin.served is not None

    async def decided(self, named: Strategy | None) -> Routed:
        """Decide how the request is answered, and return the decision; raises as `decide`."""
        question = await self._kept_to_guard_first(self.routing_question(named))
        decision = await decide(question, self.spend, self._context.routing)
        route = decision.routed
        self.route, self.draft = route, decision.draft or self.draft
        self.look_for_kind()
        if not self.is_shadow:
            metrics.count_route(route.system, route.strategy, route.reason, route.decided_by or "", route.activation)
        return route

    def routing_question(self, named: Strategy | None) -> RoutingQuestion:
        """Return what is to be decided on."""
        subject = Subject(
            messages=self.messages,
            chat=self.origin.chat,
            key_name=self.origin.key_name,
            seed=self.request.seed,
            draft=self._drafter,
        )
        return RoutingQuestion(
            subject=subject,
            msv=self.request.msv,
            named=named,
            reason=self.origin.reason,
            assessor=self.request.assessor,
            answer_type=self.request.answer_type,
            has_tests=self.request.vote is not None and bool(self.request.vote.tests),
            streamed=self.origin.streamed,
            run_id=self.run_id,
        )

    def look_for_kind(self) -> None:
        """Begin to look for the kind of the question, beside the answer, where only the labels of the run need it."""
        route = self.route
        if route is None or route.kind or route.kind_unknown_reason or route.strategy not in TAUGHT_BY_KIND:
            return
        question = self.messages[-1].content if self.messages else ""
        looking = self._context.routing.kind(question, timeout_s=self.spend.seconds_left())
        self._kind = asyncio.create_task(looking)

    async def kind(self) -> str:
        """Return the kind of the question once it is found; empty: unknown."""
        if self._kind is not None and self.route is not None:
            found, self._kind = await self._kind, None
            self.route = replace(self.route, kind=found.name, kind_unknown_reason=found.unknown_reason)
        return self.route.kind if self.route is not None else ""

    def task(self, route: Routed) -> StrategyTask:
        """Return the input of a strategy; another model of the policy table has written no draft."""
        model = self._context.vote_plans.model_of(route.policy_row) if self.strategy is Strategy.SYSTEM_ONE else ""
        by_policy = bool(model) and route.strategy == Strategy.SYSTEM_ONE
        return StrategyTask(
            request=replace(self.request, model=model) if by_policy else self.request,
            messages=self.messages,
            route=route,
            run_id=self.run_id,
            draft=None if by_policy else self.draft,
            vote=self.vote,
            promise=self.levels,
            levels_of=self._levels_of,
            answer_tokens=self._context.answer_tokens,
            kind=self.kind,
        )

    async def _kept_to_guard_first(self, question: RoutingQuestion) -> RoutingQuestion:
        """Return a question that is still to be decided, or that System 1 answers, since the guard allows nothing else.

        An assessment that draws samples costs more than what it may avoid: so the System 1 answer is written before it,
        and it is left out where no deliberation fits after it. One rating fits beside any answer.
        """
        guard, assessor = self.request.at_most, self._context.routing.assessor(question)
        if guard is None or assessor is None or assessor.generations < SAMPLING or question.subject is None:
            return question
        await self._write_draft(others_vote=False)
        draft = self.draft
        if draft is None:
            return replace(question, subject=replace(question.subject, draft=None))
        outcome = self._guarded(guard, draft)
        spent = self._limits.max_generated_tokens - self.spend.ledger.unspent_tokens
        left = outcome.max_generated_tokens - spent - assessor.tokens
        needed = {
            strategy: least_tokens(strategy, outcome.draft_tokens, self.request.max_tokens)
            for strategy in self._context.routing.deliberations(question, draft.text)
        }
        if needed and min(needed.values()) > left:
            strategy = min(needed, key=needed.__getitem__)
            reason = f"{strategy} needs {needed[strategy]} tokens at least, and {max(0, left)} would be left"
            reason += f" of {outcome.max_generated_tokens} after an assessment"
            self._guard = replace(outcome, not_started=strategy, reason=reason)
            return replace(question, named=Strategy.SYSTEM_ONE, reason="envelope")
        return replace(question, subject=replace(question.subject, draft=partial(_written, draft)))

    def _guarded(self, guard: CostGuard, draft: DraftAnswer) -> CostGuardOutcome:
        """Return what a guard allows, given the System 1 answer."""
        tokens = draft.tokens or self.spend.ledger.usage([DRAFT_STAGE]).completion_tokens or None
        most = min(most_tokens(guard.times_system1, tokens), self._limits.max_generated_tokens)
        return CostGuardOutcome(times_system1=guard.times_system1, max_generated_tokens=most, draft_tokens=tokens)

    async def kept_to_guard(self, chosen: Strategy, policy_row: str) -> Strategy:
        """Return the strategy, or System 1 where the cost guard leaves too little for it; the guard holds from here on.

        The System 1 answer, by which the guard is measured, is written first; where the model gives none, there is no
        guard. Under a promise the strategy is started all the same: only it can prove an answer.
        """
        guard = self.request.at_most
        if guard is None or chosen is Strategy.SYSTEM_ONE:
            return chosen
        if self.draft is None and not self._draft_problem:
            await self._write_draft(others_vote=self._others_vote(chosen, policy_row))
        if self.draft is None:
            return chosen
        self._guard = self._guarded(guard, self.draft)
        self.spend.ledger.lower_tokens(self._guard.max_generated_tokens)
        return chosen if self.fits_guard(chosen) else Strategy.SYSTEM_ONE

    def _order(self, chosen: Strategy) -> Sequence[tuple[Strategy, Strategy | None]]:
        fallback = self.request.fallback and not self.is_promised
        return attempts(chosen, fallback=fallback, keeps_format=self.origin.keeps_format)

    def _others_vote(self, strategy: Strategy, policy_row: str) -> bool:
        """Return whether others than the draft vote; a vote that cannot be planned fails when it is started."""
        if strategy not in VOTED:
            return False
        try:
            vote = self._context.vote_plans.planned(strategy, self.request, policy_row, promised=self.is_promised)
        except MetacogError:
            return False
        return bool(vote.options.sources)

    async def _write_draft(self, *, others_vote: bool) -> None:
        """Write the System 1 answer, or note why the model gives none; it is not asked a second time."""
        found = await voting_draft(self._drafter, self.spend, others_vote=others_vote)
        self.draft, self._draft_problem = found.draft, found.problem

    def attempts(self, chosen: Strategy) -> Iterator[tuple[Strategy, Strategy | None]]:
        """Yield the strategies to try, each with the next, without those for which the cost guard leaves too little."""
        for strategy, following in self._order(chosen):
            if self.fits_guard(strategy):
                yield strategy, following

    def fits_guard(self, strategy: Strategy) -> bool:
        """Return whether the cost guard leaves enough for the smallest useful run of a strategy; notes it otherwise."""
        if self._guard is None or self.is_promised:
            return True
        left, most = self.spend.ledger.unspent_tokens, self._guard.max_generated_tokens
        needed = least_tokens(strategy, self._guard.draft_tokens, self.request.max_tokens)
        if needed > left:
            reason = f"{strategy} needs {needed} tokens at least, and {left} are left of {most}"
            self._guard = replace(self._guard, not_started=strategy, reason=reason)
        return needed <= left

    async def plan_vote(self, strategy: Strategy, policy_row: str) -> None:
        """Decide who votes, and write the System 1 answer where it votes; a fallback gives it without another call.

        With votes ahead the arbiter asks for it, so that neither waits for the other (papers.md 5.1). Where the default
        model gives none, the others vote without it.

        Raises:
            NoCascade: When the models leave open what a cascade would be.
            BudgetExhausted, DeadlineExceeded: When the envelope has no room for it.
        """
        plans = self._context.vote_plans
        self.vote = plans.planned(strategy, self.request, policy_row, promised=self.is_promised)
        if self.draft is None and self.vote.has_draft:
            if not self._draft_problem and not self.vote.asks_ahead:
                await self._write_draft(others_vote=bool(self.vote.options.sources))
            if self._draft_problem:
                self.vote = replace(self.vote, has_draft=False)
                self._left_out = [self._draft_problem]
        msv = self.route.msv if self.route is not None and not self.is_promised else None
        self.vote = plans.agreed(self.vote, default_agree(msv))
        if self.is_promised:
            self.levels = await self._levels_of(self.vote.version)

    async def _levels_of(self, version: str) -> PromiseLevels:
        """Return the levels that keep the promise with votes of a version."""
        if self.promise is None or self.vote is None:
            return await no_levels(version)
        return await self._context.promises.levels(
            self.origin.key_name,
            version,
            await self.kind(),
            self.vote.options.escalate,
            self.promise.error_at_most,
        )

    def note(self, event: Event | PassedThrough) -> None:
        """Note what is finished, and when the first text of the answer came."""
        if isinstance(event, RelayedEvent) and event.name in FINISHED:
            self._finished.append((event.name, event.data))
        if self._first_token_ms is None and isinstance(event, AnswerToken | PassedThrough):
            self._first_token_ms = milliseconds_since(self._began)

    def fall_back(self, failed: Strategy, following: Strategy, error: MetacogError) -> FellBack:
        """Note that another strategy is tried, and return the event."""
        following = following if self.fits_guard(following) else Strategy.SYSTEM_ONE
        event = FellBack(from_strategy=failed, to_strategy=following, reason=error.reason, message=error.message)
        self._fallbacks.append(event)
        self._finished.clear()
        self._first_token_ms = None
        if not self.is_shadow:
            metrics.count_fallback(failed, following, error.reason)
        return event

    async def measure_state(self) -> None:
        """Measure the state that the votes show, where votes were asked for."""
        account = self.result.deliberation or {}
        if self.route is None or self.strategy not in VOTED or "votes" not in account:
            return
        escalation = self.result.escalation
        voted = VotedAnswer(
            account=account,
            confidence=self.result.confidence,
            is_escalated=escalation is not None and escalation.answered,
            has_evidence=account.get("evidence") is not None,
        )
        asked = AskedQuestion(
            key_name=self.origin.key_name,
            messages_digest=messages_digest(self.messages),
            config_version=self.route.config_version,
        )
        self.state = await state_after_vote(
            voted,
            asked,
            before=self.route.msv,
            earlier=self._context.earlier,
            seconds_left=self.spend.seconds_left(),
        )

    def record(self) -> Run:
        """Record the run as it ended, and return it."""
        return self._record(error_reason="")

    def record_failure(self, error: MetacogError) -> Run:
        """Record the run that ended without an answer, with what was finished, and return it."""
        self.result = replace(self.result, deliberation=self.result.deliberation or self._account_so_far())
        return self._record(error_reason=error.reason)

    def record_cancellation(self) -> Run:
        """Record the run whose client went away, and return it."""
        self.result = replace(self.result, outcome=Outcome.CANCELLED)
        return self.record_failure(ClientGone("the client went away"))

    def _account_so_far(self) -> Mapping[str, Any] | None:
        """Return the account of what the strategy had finished; None where nothing is."""
        found, field = partial_account(self._finished), ACCOUNT_FIELDS.get(self.strategy or "")
        return whole_account(field, found, self.spend.ledger.usage()) if found and field else None

    def _confidence(self, result: StrategyResult, error_reason: str) -> Mapping[str, Any]:
        """Return the fields about the confidence."""
        chosen = self._context.vote_plans.model_of(self.route.policy_row) if self.route is not None else ""
        found = ConfidenceInAnswer(
            strategy=self.strategy or "",
            outcome=result.outcome,
            error_reason=error_reason,
            level=result.confidence,
            source=result.confidence_source,
            state=result.state,
            labels=result.labels,
            unmapped=result.unmapped_state,
            kind=self.route.kind if self.route is not None else "",
            is_escalated=result.escalation is not None and result.escalation.answered,
            is_default_model=not (chosen or self.request.model),
        )
        return run_confidence(found, self._context.recalibrated, self._context.shares())

    def _shadow(self, text: str) -> Shadow | None:
        """Return which served run this one shadows, and whether its answer agrees; None for a served run."""
        served = self.origin.served
        if served is None:
            return None
        found = agreement(self.messages[-1].content, served.text, text, self.request.answer_type)
        return Shadow(
            shadow_of=served.run_id, policy=served.policy, agrees=found.agrees, not_compared=found.not_compared
        )

    def _promise_outcome(self, error_reason: str) -> PromiseOutcome | None:
        """Return what became of the promise; None where there was none."""
        if self.promise is None or self.result.promise is not None:
            return self.result.promise
        return self.promise.unkept(self.strategy or "", f"there is no answer: {error_reason}")

    def _catalogue_name(self, result: StrategyResult) -> str:
        """Return the name in the catalogue of the one model that gave the answer; empty where there is none."""
        if result.escalation is not None and result.escalation.answered:
            return result.escalation.model
        if self.strategy is not Strategy.SYSTEM_ONE or not result.model:
            return ""
        chosen = self._context.vote_plans.model_of(self.route.policy_row) if self.route is not None else ""
        return self._context.vote_plans.catalogue_name(chosen or self.request.model)

    def _continuation(self, result: StrategyResult) -> str:
        """Return the conversation with its answer, by which it can be continued; empty where it is not kept."""
        if self.origin.kept_from is None:
            return ""
        answered = {"role": "assistant", "content": result.text or (None if result.calls else ""), **result.calls}
        kept = dumps([*self.origin.chat[self.origin.kept_from :], answered])
        size = len(kept) + len(self.origin.kept_request)
        return kept.decode() if size <= MOST_KEPT_BYTES else ""

    def _record(self, *, error_reason: str) -> Run:
        result = self.result
        if self._kind is not None:
            self._kind.cancel()
        fallbacks = [f"{one.from_strategy}: {one.reason}: {one.message}" for one in self._fallbacks]
        # A run that ended in an error has no answer that could be degraded: `error_reason` states why.
        outcome = Outcome.ANSWERED if error_reason else result.outcome
        reasons = degraded_reasons(outcome, fallbacks, result.degraded_reasons, of_agents=self._left_out)
        digest = messages_digest(self.messages)
        continuation = "" if error_reason else self._continuation(result)
        run = Run(
            run_id=self.run_id,
            created_at=self._created_at,
            request_id=self.request.request_id,
            key_name=self.origin.key_name,
            messages=self.messages,
            messages_digest=digest,
            request_digest=self.digest,
            route=self.route,
            strategy=self.strategy or "",
            answer=result.text,
            outcome=result.outcome,
            **self._confidence(result, error_reason),
            deliberation=result.deliberation,
            usage=self.spend.ledger.usage(),
            envelope=self._limits.envelope,
            degraded=is_degraded(reasons),
            degraded_reasons=reasons,
            fallbacks=self._fallbacks,
            budget_exhausted=result.budget_exhausted or self.spend.ledger.exhausted,
            finish_reason=result.finish_reason,
            error_reason=error_reason,
            duration_ms=milliseconds_since(self._began),
            first_token_ms=self._first_token_ms,
            config_version=self.route.config_version if self.route else "",
            model=result.model,
            catalogue_name=self._catalogue_name(result),
            idempotency=self.idempotency,
            escalation=result.escalation,
            agreement=result.agreement,
            promise=self._promise_outcome(error_reason),
            sampled=not error_reason and not self.is_shadow and self._context.draw() < self._context.label_share,
            state=self.state,
            winner_digest="" if self.state is None else winner_digest(result.deliberation or {}, digest),
            cost_guard=self._guard,
            shadow=self._shadow(result.text if not error_reason else ""),
            call=self.origin.call,
            continuation=continuation,
            response_request=self.origin.kept_request if continuation else "",
            citations=self.origin.citations,
            citations_unknown_reason=self.origin.citations_unknown_reason,
        )
        if run.shadow is None:
            metrics.count_run(run.strategy, run.outcome, error_reason, run.duration_ms, run.usage)
            metrics.count_promise(run.promise.state if run.promise else "", run.promise.stage if run.promise else None)
            metrics.count_unknown_kind(self.route.kind_unknown_reason if self.route else "")
        else:
            metrics.count_shadow(run.strategy, run.outcome, error_reason, run.shadow.agrees, run.usage.cost)
        self._context.recorder.record(run)
        return run
