"""A decision is kept while a conversation goes on with the same task.

The whole conversation comes with each turn, so the turn before is known by the digest of everything up to the user's
turn before this one. Decisions are held in memory, by this process alone: another replica, or this one after a restart,
assesses the turn anew, and so does everything that is in doubt.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from chassis.json_text import dumps
from inference.spend import Priced, Spend
from kernel.activation import PAPER_THRESHOLD, PAPER_WEIGHTS, Activation, ActivationWeights, Route, activation, choose
from kernel.conversation import assessable, conversation
from kernel.envelope import Limits, Usage, limits
from kernel.msv import MSV
from kernel.policy import Policy, ruling
from kernel.values import value
from services.router.core.strategies import DEFAULT_SYSTEM_TWO, Strategy, named_strategy, system_of
from services.router.core.task_change import keeps, turned
from services.router.service.answering.values import AnswerRequest
from services.router.service.assessment.assess import Assessors, milliseconds_since
from services.router.service.assessment.cost_reserve import affords_assessing, kept_for_an_answer
from services.router.service.assessment.measures import Assessment, Assessor
from services.router.service.assessment.subject import DraftAnswer, DrafterFactory, Subject
from services.router.service.assessment.values import Routed, RouteRequest, RouteResponse

CACHED = "cached"
# Reasons of decisions that rest on a measured state, and so may be kept.
MEASURED = frozenset({"activation", "policy", CACHED})

Key = tuple[str, bytes]


@value
class CachedDecision:
    """A decision and what became of it.

    Attributes:
        routed: The decision, as it was made.
        run_id: Run that it was made for.
        began: When [s, monotonic].
        first: Place of the turn that it was made for.
        turns: Turns it was kept for since [count].
    """

    routed: Routed
    run_id: str
    began: float
    first: int
    turns: int = 0


class DecisionCache:
    """The last decisions by conversation, the least recently used dropped first.

    Args:
        most_turns: Turns that a decision is kept for at most [count].
        max_age_s: Time that it is kept for at most [s].
        most: Decisions held [count].
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        *,
        most_turns: int = 4,
        max_age_s: float = 900.0,
        most: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_turns = most_turns
        self._max_age_s = max_age_s
        self._most = most
        self._clock = clock
        self._held: OrderedDict[Key, CachedDecision] = OrderedDict()

    def earlier(self, subject: Subject) -> Routed | None:
        """The decision of the turn before, as this turn's own, if the task is clearly still the same."""
        held = self._before(subject)
        if held is None or held.turns >= self._most_turns or self._clock() - held.began > self._max_age_s:
            return None
        since = subject.messages[held.first : -1]
        asked = [turn.content for turn in since if turn.role == "user"]
        answered = [turn.content for turn in since if turn.role == "assistant"]
        if not asked or not keeps(turned(subject.messages[-1].content, asked, answered), held.routed.system):
            return None
        return replace(
            held.routed,
            reason=CACHED,
            cached_from=held.run_id,
            assessor="",
            prompt_digests={},
            usage=Usage(),
            duration_ms=0.0,
        )

    def remember(self, subject: Subject, routed: Routed, run_id: str) -> None:
        """Hold what was decided for `subject`, if it rests on a measured state."""
        if not run_id or routed.reason not in MEASURED or routed.activation is None or routed.activation.value is None:
            return
        bare = replace(routed, draft="", samples=())
        held = CachedDecision(routed=bare, run_id=run_id, began=self._clock(), first=len(subject.messages) - 1)
        if routed.reason == CACHED:
            before = self._before(subject)
            if before is None:
                return
            held = replace(before, turns=before.turns + 1)
        self._held[_key(subject, len(subject.messages))] = held
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def _before(self, subject: Subject) -> CachedDecision | None:
        length = _turn_before(subject)
        if not length:
            return None
        key = _key(subject, length)
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)


def _turn_before(subject: Subject) -> int:
    """Turns of the request before this one [count]: all before the last answer; 0 when this is no next turn of text."""
    *said, last = subject.messages
    if last.role != "user" or (subject.chat and not isinstance(subject.chat[-1].get("content"), str)):
        return 0
    answers = 0
    for turn in reversed(said):
        if turn.role != "assistant":
            break
        answers += 1
    length = len(said) - answers
    return length if answers and length and said[length - 1].role == "user" else 0


def _key(subject: Subject, length: int) -> Key:
    """Name of the first `length` turns, as the client sent them, among those of one API key."""
    turns: Sequence[Any] = subject.chat or subject.messages
    return subject.key_name, sha256(dumps(list(turns[:length]))).digest()


@value
class RoutingConfig:
    """How the choice is made.

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
    """What a decision needs.

    Attributes:
        config: The configuration in force.
        assessors: Who measures a state.
        policy: The policy table; None where it is off.
        kept: Decisions of conversations that may go on; None where every turn is assessed.
    """

    config: RoutingConfig
    assessors: Assessors
    policy: Policy | None = None
    kept: DecisionCache | None = None


@value
class RoutingQuestion:
    """What is to be decided on.

    Attributes:
        subject: The conversation; None when a state is given or a strategy named.
        msv: A ready state.
        named: The strategy that is given, by the caller or by what the request needs.
        because: Why it is given.
        assessor: Name of the assessor; empty for the configured one.
        streamed: Whether the answer is streamed, so that there is no use for one that is there before it is chosen.
        run_id: Run that the decision is for; empty: none, and it is not kept for the next turn.
    """

    subject: Subject | None = None
    msv: MSV | None = None
    named: Strategy | None = None
    reason: str = "requested"
    assessor: str = ""
    streamed: bool = False
    run_id: str = ""


@value
class RoutingDecision:
    """The choice, and the System 1 answer if assessing made one."""

    routed: Routed
    drafted: DraftAnswer | None = None


def version_of(config: RoutingConfig) -> str:
    """Name of a configuration: `paper` for the paper's, else a digest of it, so that no two share a name."""
    if config == RoutingConfig():
        return "paper"
    return sha256(dumps(replace(config, version=""))).hexdigest()[:12]


async def route(
    ask: RouteRequest,
    *,
    deciding: RoutingContext,
    default: Limits,
    drafter: DrafterFactory,
    models: Sequence[Priced] = (),
    key_name: str = "",
) -> RouteResponse:
    """The choice for a question, or for a ready state.

    Raises:
        UnpricedModel: When the cost is limited, and one of `models`, which may be asked, has no price.
        UnknownStrategy: For a strategy that the router does not have.
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    named = named_strategy(ask.strategy)
    subject = None
    if ask.msv is None and not named:
        messages = conversation(ask.question, ask.messages)
        draft = drafter(AnswerRequest(messages=messages, seed=ask.seed), messages)
        subject = Subject(messages=messages, key_name=key_name, seed=ask.seed, draft=draft)
    question = RoutingQuestion(subject=subject, msv=ask.msv, named=named, assessor=ask.assessor)
    return (await decide(question, Spend(limits(ask.envelope, default), models=models), deciding)).routed


async def decide(question: RoutingQuestion, spend: Spend, deciding: RoutingContext) -> RoutingDecision:
    """The choice as named, else by the activation of the state, which is measured when missing.

    An envelope with no room for more than a plain call gets one.

    Raises:
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    began, made = time.monotonic(), Assessment(msv=question.msv, assessor="")
    assessor = deciding.assessors.chosen(question.assessor, streamed=question.streamed)
    if question.msv is None and question.named is None and not _carries(question, assessor, spend):
        question = replace(question, named=Strategy.SYSTEM_ONE, reason="envelope")
    if question.msv is None and question.named is None:
        if (kept := _kept(question, deciding)) is not None:
            return RoutingDecision(routed=kept)
        made = await _assessed(question.subject, assessor, spend)
    config = deciding.config
    level = None if made.msv is None else activation(made.msv, config.weights, config.threshold)
    chosen = _chosen(question, made.msv, level, deciding)
    routed = Routed(
        system=system_of(chosen.strategy),
        strategy=chosen.strategy,
        activation=level,
        msv=made.msv,
        reason=chosen.reason,
        policy_row=chosen.policy_row,
        config_version=config.version,
        assessor=made.assessor,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
        prompt_digests=made.prompt_digests,
        draft=made.drafted.text if made.drafted else "",
        samples=made.samples,
    )
    if made.assessor:
        _remember(question, routed, deciding)
    return RoutingDecision(routed=routed, drafted=made.drafted)


async def _assessed(subject: Subject | None, assessor: Assessor, spend: Spend) -> Assessment:
    assert subject is not None, "without a ready state or a named strategy there is a subject"
    assessable(subject.messages)
    with kept_for_an_answer(spend, subject):
        return await assessor(subject, spend)


def _carries(question: RoutingQuestion, assessor: Assessor, spend: Spend) -> bool:
    """Whether the envelope carries an assessment and an answer."""
    has_money = question.subject is None or affords_assessing(spend.ledger, question.subject)
    return assessor.fits(spend.ledger) and has_money


def _kept(question: RoutingQuestion, deciding: RoutingContext) -> Routed | None:
    """The decision of the turn before, while the task goes on; who names an assessor wants an assessment."""
    if deciding.kept is None or question.subject is None or question.assessor:
        return None
    routed = deciding.kept.earlier(question.subject)
    if routed is not None:
        _remember(question, routed, deciding)
    return routed


def _remember(question: RoutingQuestion, routed: Routed, deciding: RoutingContext) -> None:
    if deciding.kept is not None and question.subject is not None:
        deciding.kept.remember(question.subject, routed, question.run_id)


@value
class _Chosen:
    """A strategy, and why it."""

    strategy: Strategy
    reason: str
    policy_row: str = ""


def _chosen(question: RoutingQuestion, msv: MSV | None, level: Activation | None, deciding: RoutingContext) -> _Chosen:
    """The strategy as named, else by the policy table where it has a word in it, else by the activation."""
    if question.named is not None or msv is None or level is None:
        return _Chosen(strategy=question.named or DEFAULT_SYSTEM_TWO, reason=question.reason)
    choice = choose(level, undetermined=deciding.config.undetermined)
    row = ruling(deciding.policy, msv, level, choice) if deciding.policy else None
    if row is not None:
        return _Chosen(strategy=Strategy(row.strategy), reason="policy", policy_row=row.name)
    strategy = DEFAULT_SYSTEM_TWO if choice.system is Route.SYSTEM_TWO else Strategy.SYSTEM_ONE
    return _Chosen(strategy=strategy, reason=choice.reason)
