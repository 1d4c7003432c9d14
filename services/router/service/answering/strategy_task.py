"""What a strategy is given to answer, and what it returns."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from inference import Spend
from kernel.conversation import Turn
from kernel.outcomes import Outcome
from kernel.policy import VOTING, Strategy
from kernel.values import value
from kernel.votes.promise import MOST_ERROR, PromiseLevels, promise_levels
from kernel.votes.states import ProbabilityState
from services.router.service.answering.values import (
    AnswerRequest,
    AnswerToken,
    PassedThrough,
    RelayedEvent,
)
from services.router.service.answering.vote_plans import PlannedVote
from services.router.service.assessment.subject import DraftAnswer
from services.router.service.assessment.values import Routed
from services.router.service.runs.values import (
    Escalation,
    PromiseOutcome,
    RunAgreement,
)

# Strategies that ask for votes.
VOTED = frozenset(VOTING)


@value
class StrategyResult:
    """A strategy result holds the answer of a strategy, with the confidence in it.

    Attributes:
        text: The answer.
        outcome: Whether there is one.
        model: Model that wrote it.
        finish_reason: Why it ended: `stop`, `length`, `tool_calls`, `content_filter`.
        confidence: Belief that it is right [0..1]; None without a source.
        confidence_source: Source of the confidence.
        deliberation: The strategy's own account, as REST spells it.
        degraded_reasons: Reasons why it is less than what was asked for, as `CODE: message`.
        budget_exhausted: Whether a limit was reached.
        state: What the confidence is, where it is a probability already; None where a map may make it one.
        labels: Labels that this probability was fitted on [count].
        unmapped_state: What the confidence is while no map is in force, where a map may make it a probability.
        escalation: The stronger model that a vote may be escalated to; None where there is none.
        agreement: Agreement of the votes; None without a valid vote.
        promise: What became of a promise; None where there was none.
        calls: The calls of tools in the answer, by the name of their field in a message of a chat.
    """

    text: str
    outcome: Outcome = Outcome.ANSWERED
    model: str = ""
    finish_reason: str = "stop"
    confidence: float | None = None
    confidence_source: str = ""
    deliberation: Mapping[str, Any] | None = None
    degraded_reasons: Sequence[str] = ()
    budget_exhausted: bool = False
    state: ProbabilityState | None = None
    labels: int = 0
    unmapped_state: ProbabilityState = ProbabilityState.UNCALIBRATED
    escalation: Escalation | None = None
    agreement: RunAgreement | None = None
    promise: PromiseOutcome | None = None
    calls: Mapping[str, Any] = field(default_factory=dict)


async def unknown_kind() -> str:
    """Return no kind."""
    return ""


async def no_levels(version: str) -> PromiseLevels:
    """Return that nothing is proved."""
    return promise_levels([], MOST_ERROR)


@value
class StrategyTask:
    """A strategy task is the input of a strategy.

    Attributes:
        request: The request.
        messages: The conversation.
        route: The decision.
        run_id: Name of the run.
        draft: The System 1 answer, where there is one already.
        vote: Who votes; None where the strategy asks for no votes.
        promise: The levels of agreement at which an answer is given; None: at every one.
        levels_of: Returns the same for another version of the votes, whose sources were left out.
        answer_tokens: Tokens of an answer whose request states none [count].
        experience: The agents' experience with the question, as the assigner takes it; None where it was not asked for.
        kind: Returns the kind of the question, which may still be looked for; empty: unknown.
        has_last_call: Whether a single-pass call follows the strategy, and what it needs is kept back for it.
    """

    request: AnswerRequest
    messages: Sequence[Turn]
    route: Routed
    run_id: str
    draft: DraftAnswer | None = None
    vote: PlannedVote | None = None
    promise: PromiseLevels | None = None
    levels_of: Callable[[str], Awaitable[PromiseLevels]] = no_levels
    answer_tokens: int = 1024
    experience: Mapping[str, Any] | None = None
    kind: Callable[[], Awaitable[str]] = unknown_kind
    has_last_call: bool = False


StrategyEvent = AnswerToken | PassedThrough | RelayedEvent | StrategyResult


class AnswerStrategy(Protocol):
    """An answer strategy is a way to answer."""

    def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield events while it works, then its result."""


NO_OTHERS: Mapping[Strategy, AnswerStrategy] = {}
