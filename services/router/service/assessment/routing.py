"""Routing chooses the system for a question, and caches the choice while a conversation stays on the same task.

The whole conversation comes with each turn, so the turn before is known by the digest of everything up to the user's
turn before this one. Decisions are cached in memory, by this process alone: another replica, or this one after a
restart, assesses the turn again, and so does everything that is in doubt.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from chassis.clock import milliseconds_since
from chassis.json_text import dumps
from inference import KindClassifier, QuestionKind, RunModels, Spend
from kernel.activation import PAPER_THRESHOLD, PAPER_WEIGHTS, Activation, ActivationWeights, Route, activation, choose
from kernel.answers import AnswerType
from kernel.conversation import checked_turns, conversation
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits, Usage, limits
from kernel.errors import MetacogError
from kernel.learning.gains import MINIMUM_GAIN, NO_GAINS, Gain, GainsByKind
from kernel.msv import MSV
from kernel.policy import Policy, Strategy, deciding_row
from kernel.values import value
from kernel.votes.drafts import can_vote, needs_draft
from services.router.core.decision_rules import DecisionRule, decided_system
from services.router.core.strategies import DEFAULT_SYSTEM_TWO, named_strategy, system_of
from services.router.core.task_change import decision_holds, turn_kind
from services.router.service.answering.values import AnswerRequest
from services.router.service.answering.vote_drafts import voting_draft
from services.router.service.assessment.assessors import Assessors
from services.router.service.assessment.composite_assessor import Assessment, Assessor
from services.router.service.assessment.cost_reserve import affords_assessment, answer_reserved
from services.router.service.assessment.subject import DraftAnswer, DrafterFactory, Subject
from services.router.service.assessment.values import KindGain, Routed, RouteRequest, RouteResponse

CACHED = "cached"
# Reasons of decisions that rest on a measured state, and so may be cached.
MEASURED = frozenset({"activation", "gain", "policy", CACHED})

# Rules that choose a system, whose System 2 is votes where answers can be compared.
BY_RULE = frozenset({DecisionRule.STATE, DecisionRule.GAIN, DecisionRule.ACTIVATION})

Key = tuple[str, bytes]


@value
class CachedDecision:
    """A cached decision is used for later turns of the conversation that it was made for.

    Attributes:
        routed: The decision, as it was made.
        run_id: Run that it was made for.
        began: When [s, monotonic].
        first: Place of the turn that it was made for.
        turns: Turns it was used for since [count].
    """

    routed: Routed
    run_id: str
    began: float
    first: int
    turns: int = 0


class DecisionCache:
    """The cache holds the last decisions by conversation; the least recently used is dropped first.

    Args:
        max_turns: Turns that a decision is used for at most [count].
        max_age_s: Time that it is used for at most [s].
        max_decisions: Decisions held [count].
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        *,
        max_turns: int = 4,
        max_age_s: float = 900.0,
        max_decisions: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_turns = max_turns
        self._max_age_s = max_age_s
        self._max_decisions = max_decisions
        self._clock = clock
        self._decisions: OrderedDict[Key, CachedDecision] = OrderedDict()

    def earlier(self, subject: Subject) -> Routed | None:
        """Return the decision of the turn before, as this turn's own, if the task is clearly still the same."""
        cached = self._before(subject)
        if cached is None or cached.turns >= self._max_turns or self._clock() - cached.began > self._max_age_s:
            return None
        since = subject.messages[cached.first : -1]
        questions = [turn.content for turn in since if turn.role == "user"]
        answers = [turn.content for turn in since if turn.role == "assistant"]
        if not questions:
            return None
        if not decision_holds(turn_kind(subject.messages[-1].content, questions, answers), cached.routed.system):
            return None
        return replace(
            cached.routed,
            reason=CACHED,
            cached_from=cached.run_id,
            assessor="",
            prompt_digests={},
            usage=Usage(),
            duration_ms=0.0,
        )

    def store(self, subject: Subject, routed: Routed, run_id: str) -> None:
        """Cache the decision for `subject`, if it rests on a measured state."""
        if not run_id or routed.reason not in MEASURED or routed.activation is None or routed.activation.value is None:
            return
        bare = replace(routed, draft="", samples=())
        cached = CachedDecision(routed=bare, run_id=run_id, began=self._clock(), first=len(subject.messages) - 1)
        if routed.reason == CACHED:
            before = self._before(subject)
            if before is None:
                return
            cached = replace(before, turns=before.turns + 1)
        self._decisions[_key(subject, len(subject.messages))] = cached
        if len(self._decisions) > self._max_decisions:
            self._decisions.popitem(last=False)

    def _before(self, subject: Subject) -> CachedDecision | None:
        length = _turn_before(subject)
        if not length:
            return None
        key = _key(subject, length)
        if key in self._decisions:
            self._decisions.move_to_end(key)
        return self._decisions.get(key)


def _turn_before(subject: Subject) -> int:
    """Return the turns of the request before [count]: all before the last answer; 0 if this is no next turn."""
    *before, last = subject.messages
    if last.role != "user" or (subject.chat and not isinstance(subject.chat[-1].get("content"), str)):
        return 0
    answers = 0
    for turn in reversed(before):
        if turn.role != "assistant":
            break
        answers += 1
    length = len(before) - answers
    return length if answers and length and before[length - 1].role == "user" else 0


def _key(subject: Subject, length: int) -> Key:
    """Return the key of the first `length` turns, as the client sent them, among those of one API key."""
    turns: Sequence[Any] = subject.chat or subject.messages
    return subject.key_name, sha256(dumps(list(turns[:length]))).digest()


@value
class RoutingConfig:
    """This configuration says how the system is chosen.

    Attributes:
        version: Name under which weights and threshold are recorded with each decision.
        weights: Weights of the activation.
        threshold: System 2 if and only if the activation reaches it [0..1].
        undetermined: System for a state of which too little is known.
    """

    version: str = "paper"
    weights: ActivationWeights = PAPER_WEIGHTS
    threshold: float = PAPER_THRESHOLD
    undetermined: Route = Route.SYSTEM_TWO


@value
class RoutingContext:
    """The context holds everything that a decision needs beside the question.

    Attributes:
        config: The configuration in force.
        assessors: The assessors, which measure a state.
        policy: The policy table; None where it is off.
        cache: Decisions of conversations that may continue; None where every turn is assessed.
        system_two: System 2 of a request that names no strategy: the dialectic, as in the papers, or `vote`, which is
            the dialectic still where answers cannot be compared.
        kinds: Finds the kind of a question; None where there is no encoder.
        gains: Returns the gains of System 2 by kind.
        minimum_gain: Least gain that System 2 is worth [-1..1].
    """

    config: RoutingConfig
    assessors: Assessors
    policy: Policy | None = None
    cache: DecisionCache | None = None
    system_two: Strategy = DEFAULT_SYSTEM_TWO
    kinds: KindClassifier | None = None
    gains: Callable[[], GainsByKind] = lambda: NO_GAINS
    minimum_gain: float = MINIMUM_GAIN

    def assessor(self, question: "RoutingQuestion") -> Assessor | None:
        """Return the assessor that measures the state of a question; None where it needs none.

        Raises:
            UnknownAssessor: For an assessor that the router does not have.
        """
        if question.msv is not None or question.named is not None:
            return None
        cache, subject = None if question.assessor else self.cache, question.subject
        if cache is not None and subject is not None and cache.earlier(subject) is not None:
            return None
        return self.assessors.named(question.assessor, streamed=question.streamed)

    def deliberations(self, question: "RoutingQuestion", draft: str) -> Sequence[Strategy]:
        """Return what may answer a question instead of System 1, once its System 1 answer is known."""
        rows = [Strategy(row.strategy) for row in self.policy.rows] if self.policy is not None else []
        possible = dict.fromkeys([_system_two(question, draft, self), *rows])
        return [strategy for strategy in possible if strategy is not Strategy.SYSTEM_ONE]

    async def kind(self, question: str, *, timeout_s: float) -> QuestionKind:
        """Return the kind of a question; never fails, and takes half a second at most."""
        if self.kinds is None:
            return QuestionKind(unknown_reason="NO_ENCODER: there is no encoder to find the kind by")
        return await self.kinds.kind(question, timeout_s=timeout_s)


@value
class RoutingQuestion:
    """A routing question is the input of a decision.

    Attributes:
        subject: The conversation; None when a state is given or a strategy named.
        msv: A given state.
        named: The strategy that is given, by the caller or by what the request needs.
        reason: Why it is given.
        assessor: Name of the assessor; empty for the configured one.
        answer_type: Form of the answer, where the request states it.
        has_tests: Whether the request has tests of its answer.
        streamed: Whether the answer is streamed, so that there is no use for a draft.
        run_id: Run that the decision is for; empty: none, and it is not cached for the next turn.
    """

    subject: Subject | None = None
    msv: MSV | None = None
    named: Strategy | None = None
    reason: str = "requested"
    assessor: str = ""
    answer_type: AnswerType | None = None
    has_tests: bool = False
    streamed: bool = False
    run_id: str = ""


@value
class RoutingDecision:
    """A routing decision holds the choice, and the System 1 answer if the assessment wrote one."""

    routed: Routed
    draft: DraftAnswer | None = None


def version_of(config: RoutingConfig) -> str:
    """Return the name of a configuration: `paper` for the paper's, else a digest of it, so that no two share a name."""
    if config == RoutingConfig():
        return "paper"
    return sha256(dumps(replace(config, version=""))).hexdigest()[:12]


async def route(  # noqa: PLR0913 - each is set by the composition, or by the caller's key
    request: RouteRequest,
    *,
    context: RoutingContext,
    default: Limits,
    drafter: DrafterFactory,
    models: RunModels,
    ceilings: Ceilings = DEFAULT_CEILINGS,
    key_name: str = "",
) -> RouteResponse:
    """Return the choice for a question, or for a given state.

    Raises:
        UnpricedModel: When the cost is limited, and one of `models`, which may be called, has no price.
        UnknownStrategy: For a strategy that the router does not have.
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    models.begin_run()
    named = named_strategy(request.strategy)
    subject = None
    if request.msv is None and not named:
        messages = conversation(request.question, request.messages)
        draft = drafter(AnswerRequest(messages=messages, seed=request.seed), messages)
        subject = Subject(messages=messages, key_name=key_name, seed=request.seed, draft=draft)
    question = RoutingQuestion(subject=subject, msv=request.msv, named=named, assessor=request.assessor)
    spend = Spend(limits(request.envelope, default, ceilings), models=models.of_run())
    return (await decide(question, spend, context)).routed


async def decide(question: RoutingQuestion, spend: Spend, context: RoutingContext) -> RoutingDecision:
    """Return the choice as named, else by the state, the gain on the question's kind or the activation, in this order.

    The state is measured when it is missing, and its activation recorded whichever rule decides.

    An envelope with no room for more than a single-pass call gets one.

    Raises:
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    began, assessment, kind = time.monotonic(), Assessment(msv=question.msv, assessor=""), QuestionKind()
    assessor = context.assessors.named(question.assessor, streamed=question.streamed)
    if question.msv is None and question.named is None and not _affords(question, assessor, spend):
        question = replace(question, named=Strategy.SYSTEM_ONE, reason="envelope")
    if question.msv is None and question.named is None:
        if (cached := _cached(question, context)) is not None:
            return await _for_this_turn(cached, question, spend, context)
        assert question.subject is not None, "without a given state or a named strategy there is a subject"
        checked_turns(question.subject.messages)
        kind = await context.kind(question.subject.messages[-1].content, timeout_s=spend.seconds_left())
        assessment = await _assess(replace(question.subject, kind=kind.name), assessor, spend)
    config, gain = context.config, context.gains().of(kind.name)
    level = None if assessment.msv is None else activation(assessment.msv, config.weights, config.threshold)
    choice = _choose(question, assessment, level, gain, context)
    if choice.rule in BY_RULE and assessment.draft is None:
        draft = await _draft_to_compare(question, choice.strategy, spend, context)
        if draft is not None:
            assessment = replace(assessment, draft=draft)
            choice = _choose(question, assessment, level, gain, context)
    routed = Routed(
        system=system_of(choice.strategy),
        strategy=choice.strategy,
        activation=level,
        msv=assessment.msv,
        reason=choice.reason,
        policy_row=choice.policy_row,
        config_version=config.version,
        assessor=assessment.assessor,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
        prompt_digests=assessment.prompt_digests,
        draft=assessment.draft.text if assessment.draft else "",
        samples=assessment.samples,
        kind=kind.name,
        kind_unknown_reason=kind.unknown_reason,
        decided_by=choice.rule,
        gain=_kind_gain(gain, context.minimum_gain),
    )
    if assessment.assessor:
        _store(question, routed, context)
    return RoutingDecision(routed=routed, draft=assessment.draft)


def _kind_gain(gain: Gain | None, minimum: float) -> KindGain | None:
    if gain is None or gain.system_one is None or gain.system_two is None or gain.gain is None or gain.shrunk is None:
        return None
    return KindGain(
        labels=gain.labels,
        system_one=gain.system_one,
        system_two=gain.system_two,
        gain=gain.gain,
        shrunk=gain.shrunk,
        minimum=minimum,
    )


async def _assess(subject: Subject, assessor: Assessor, spend: Spend) -> Assessment:
    if spend.ledger.cost_left is None:
        return await assessor(subject, spend)
    with answer_reserved(spend, subject):
        return await assessor(subject, spend)


def _affords(question: RoutingQuestion, assessor: Assessor, spend: Spend) -> bool:
    """Return whether the envelope has room for an assessment and an answer."""
    ledger = spend.ledger
    if (
        assessor.calls_model
        and ledger.cost_left is not None
        and question.subject is not None
        and not affords_assessment(ledger, question.subject)
    ):
        return False
    return assessor.fits(ledger)


def _cached(question: RoutingQuestion, context: RoutingContext) -> Routed | None:
    """Return the decision of the turn before, while the task continues; a named assessor always assesses."""
    if context.cache is None or question.subject is None or question.assessor:
        return None
    routed = context.cache.earlier(question.subject)
    if routed is not None:
        _store(question, routed, context)
    return routed


async def _for_this_turn(
    cached: Routed, question: RoutingQuestion, spend: Spend, context: RoutingContext
) -> RoutingDecision:
    """Return a cached decision with the System 2 of this turn: its answers may not be comparable as those before."""
    if cached.system is Route.SYSTEM_ONE or cached.policy_row:
        return RoutingDecision(routed=cached)
    strategy = _system_two(question, "", context)
    draft = await _draft_to_compare(question, strategy, spend, context)
    if draft is None:
        return RoutingDecision(routed=replace(cached, strategy=strategy))
    routed = replace(cached, strategy=_system_two(question, draft.text, context), draft=draft.text)
    return RoutingDecision(routed=routed, draft=draft)


async def _draft_to_compare(
    question: RoutingQuestion, strategy: Strategy, spend: Spend, context: RoutingContext
) -> DraftAnswer | None:
    """Return the System 1 answer where only it shows whether answers can be compared; None where it decides nothing.

    It is the first vote, or material for the dialectic, so that it is not written in vain. None too where the model
    gives none: then answers count as long.
    """
    subject = question.subject
    is_open = context.system_two is Strategy.VOTE and strategy is DEFAULT_SYSTEM_TWO
    if not is_open or subject is None or subject.draft is None:
        return None
    if not needs_draft(subject.messages[-1].content, question.answer_type):
        return None
    try:
        return (await voting_draft(subject.draft, spend, others_vote=True)).draft
    except MetacogError:  # the envelope has no room for it
        return None


def _store(question: RoutingQuestion, routed: Routed, context: RoutingContext) -> None:
    if context.cache is not None and question.subject is not None:
        context.cache.store(question.subject, routed, question.run_id)


@value
class _Choice:
    """A choice is a strategy with the reason for it, and the rule that decided."""

    strategy: Strategy
    reason: str
    rule: DecisionRule
    policy_row: str = ""


def _choose(
    question: RoutingQuestion,
    assessment: Assessment,
    level: Activation | None,
    gain: Gain | None,
    context: RoutingContext,
) -> _Choice:
    """Return the strategy as named, else by the policy table where a row of it applies, else as the rules decide."""
    msv = assessment.msv
    if question.named is not None or msv is None or level is None:
        strategy = question.named or DEFAULT_SYSTEM_TWO
        return _Choice(strategy=strategy, reason=question.reason, rule=DecisionRule.NAMED)
    undetermined = context.config.undetermined
    if context.policy is not None:
        row = deciding_row(context.policy, msv, level, choose(level, undetermined=undetermined))
        if row is not None:
            strategy = Strategy(row.strategy)
            return _Choice(strategy=strategy, reason="policy", rule=DecisionRule.POLICY, policy_row=row.name)
    decided = decided_system(
        level,
        gain,
        by_state=question.msv is not None or context.system_two is Strategy.DIALECTIC,
        minimum_gain=context.minimum_gain,
        undetermined=undetermined,
    )
    is_deliberate = decided.system is Route.SYSTEM_TWO
    draft = assessment.draft.text if assessment.draft is not None else ""
    strategy = _system_two(question, draft, context) if is_deliberate else Strategy.SYSTEM_ONE
    return _Choice(strategy=strategy, reason=decided.reason, rule=decided.rule)


def _system_two(question: RoutingQuestion, draft: str, context: RoutingContext) -> Strategy:
    """Return System 2 of a request that names no strategy: votes only where answers can be compared."""
    preferred = context.system_two
    if preferred is not Strategy.VOTE:
        return preferred
    asked = question.subject.messages[-1].content if question.subject is not None else ""
    compared = can_vote(asked, draft, answer_type=question.answer_type, has_tests=question.has_tests)
    return Strategy.VOTE if compared else DEFAULT_SYSTEM_TWO
