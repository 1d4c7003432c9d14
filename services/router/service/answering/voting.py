"""The strategies `vote` and `cascade`: votes are asked for, and their agreement says how probably the answer is right.

Where they decide nothing, a stronger model answers if the plan names one.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from chassis.log import logger
from inference import Spend
from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.outcomes import NO_VALID_ANSWER, Outcome
from kernel.votes.plans import EscalationReason, escalation_reason
from kernel.votes.probability import ProbabilityModel, VoteEvidence
from kernel.votes.promise import ESCALATED_LEVEL, PromiseLevels
from kernel.votes.votes import VoteOutcome
from services.router.metrics import count_cascade
from services.router.service.answering.promised_answers import (
    FIRST_LOST,
    NOT_COMPARED,
    NOT_PROVED,
    escalated,
    promise_outcome,
    run_agreement,
    withheld,
)
from services.router.service.answering.strategy_task import AnswerStrategy, StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.system_one import SystemOne
from services.router.service.answering.values import AnswerToken
from services.router.service.answering.vote_plans import is_comparable_request
from services.router.service.assessment.subject import DraftAnswer
from services.router.service.runs.values import Escalation, PromiseOutcome, PromiseState

# Source of the confidence of a vote.
VOTES = "votes"
# Account of the stronger model's answer.
ESCALATION = "escalation"

CascadeCounter = Callable[[str, str, Mapping[str, StageUsage], str], None]

_log = logger(__name__)


class Voting:
    """Voting adds the probability of being right to what the arbiter returns, and escalates what is not decided.

    Args:
        votes: The vote of the arbiter; its result has no confidence yet.
        model: Returns the probability model in force.
        system_one: Calls the stronger model.
        count: Counts a vote with a stronger model behind it.
    """

    def __init__(
        self,
        votes: AnswerStrategy,
        model: Callable[[], ProbabilityModel],
        system_one: SystemOne,
        count: CascadeCounter = count_cascade,
    ) -> None:
        self._votes = votes
        self._model = model
        self._system_one = system_one
        self._count = count

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield every vote, then the text and the result.

        Raises:
            MetacogError: As the arbiter; or as the stronger model, when it fails after its first words.
        """
        escalate = task.vote.options.escalate if task.vote is not None else ""
        result = StrategyResult(text="", outcome=Outcome.ABSTAINED)
        reason = _reason_before(task) if escalate or task.promise is not None else None
        if reason is None:
            async with aclosing(self._votes(task, spend)) as events:
                async for event in events:
                    if isinstance(event, StrategyResult):
                        result = self._with_probability(event, await task.kind())
                    else:
                        yield event
            reason = _reason_after(result)
            version = task.vote.version if task.vote is not None else ""
            result = replace(result, agreement=run_agreement(result.deliberation or {}, version))
        if task.promise is not None:
            levels = task.promise
            if result.agreement is not None and task.vote is not None and result.agreement.version != task.vote.version:
                levels = await task.levels_of(result.agreement.version)
            following = self._promised(levels, escalate, reason, result, task, spend)
        elif escalate:
            following = self._cascade(escalate, reason, result, task, spend)
        else:
            following = _given(result)
        async with aclosing(following) as events:
            async for event in events:
                yield event

    async def _promised(
        self,
        levels: PromiseLevels,
        model: str,
        reason: EscalationReason | None,
        voted: StrategyResult,
        task: StrategyTask,
        spend: Spend,
    ) -> AsyncGenerator[StrategyEvent, None]:
        """Yield the answer that labels prove, of the votes or of the stronger model; else the abstention."""
        if reason is EscalationReason.NOT_COMPARABLE:
            outcome = withheld(levels, NOT_COMPARED, task.draft.text if task.draft is not None else "")
        else:
            stop_reason = (voted.deliberation or {}).get("stop_reason") or ""
            outcome = promise_outcome(voted.agreement, levels, voted.text, stop_reason)
        # An answer that was overtaken is in no list of the questions that are left to the stronger model.
        is_left = voted.agreement is not None and outcome.reason != FIRST_LOST
        may_escalate = model and is_left and levels.escalated.includes(ESCALATED_LEVEL)
        if outcome.state is not PromiseState.WITHHELD or not may_escalate:
            async with aclosing(_given(kept(voted, outcome))) as events:
                async for event in events:
                    yield event
            return
        escalation = Escalation(model=model, reason=EscalationReason.NOT_PROVED)
        async with aclosing(self._escalated(escalation, voted, task, spend)) as events:
            async for event in events:
                if not isinstance(event, StrategyResult):
                    yield event
                elif event.escalation is not None and event.escalation.answered and event.text:
                    yield replace(event, promise=escalated(levels))
                else:
                    yield replace(kept(event, outcome), escalation=event.escalation or escalation)
        self._count(model, EscalationReason.NOT_PROVED, spend.ledger.usage().stages, ESCALATION)

    async def _cascade(
        self, model: str, reason: EscalationReason | None, voted: StrategyResult, task: StrategyTask, spend: Spend
    ) -> AsyncGenerator[StrategyEvent, None]:
        """Yield the text and the result: of the votes where they decided, else of the stronger model."""
        escalation, result = Escalation(model=model, reason=reason), voted
        if reason is not None:
            async with aclosing(self._escalated(escalation, voted, task, spend)) as events:
                async for event in events:
                    if isinstance(event, StrategyResult):
                        result, escalation = event, event.escalation or escalation
                    else:
                        yield event
        self._count(model, reason or "", spend.ledger.usage().stages, ESCALATION)
        if result.text and not escalation.answered:
            yield AnswerToken(text=result.text)
        yield replace(result, escalation=escalation)

    async def _escalated(
        self, escalation: Escalation, voted: StrategyResult, task: StrategyTask, spend: Spend
    ) -> AsyncGenerator[AnswerToken | StrategyResult, None]:
        """Yield the stronger model's answer and its result; where it gives none, the result of the votes."""
        written = False
        try:
            async with aclosing(self._system_one.answered_by(escalation.model, task, spend, ESCALATION)) as events:
                async for event in events:
                    if isinstance(event, DraftAnswer):
                        yield _result_of(event, escalation, voted)
                        return
                    written = True
                    yield event
        except MetacogError as error:
            if written or not voted.text:
                raise
            _log.warning("not escalated", run_id=task.run_id, model=escalation.model, reason=error.reason)
            problem = f"{error.reason}: {error.message}"
            yield replace(
                voted,
                escalation=replace(escalation, error=problem),
                degraded_reasons=[*voted.degraded_reasons, f"NOT_ESCALATED: {escalation.model}: {problem}"],
            )

    def _with_probability(self, result: StrategyResult, kind: str) -> StrategyResult:
        """Return the result with the probability; its account gets the kind too, so that labels carry it."""
        account = result.deliberation or {}
        evidence = evidence_of(account)
        if evidence is None:
            return result
        evidence, model = replace(evidence, kind=kind), self._model()
        return replace(
            result,
            deliberation={**account, "evidence": {**account["evidence"], "kind": kind}},
            confidence=round(model.probability(evidence), 9),
            confidence_source=VOTES,
            state=model.state,
            labels=model.labels,
        )


async def _given(result: StrategyResult) -> AsyncGenerator[StrategyEvent, None]:
    """Yield the text and the result."""
    if result.text:
        yield AnswerToken(text=result.text)
    yield result


def kept(voted: StrategyResult, outcome: PromiseOutcome) -> StrategyResult:
    """Return the result with what became of the promise; without its answer where that is withheld."""
    if outcome.state is PromiseState.PROVED:
        return replace(voted, promise=outcome)
    reasons = [reason for reason in voted.degraded_reasons if reason != NO_VALID_ANSWER]
    return replace(
        voted,
        text="",
        outcome=Outcome.ABSTAINED,
        degraded_reasons=[*reasons, f"{NOT_PROVED}: {outcome.reason}"],
        promise=outcome,
    )


def _reason_before(task: StrategyTask) -> EscalationReason | None:
    """Return why no votes are asked for at all; None where they may decide."""
    options = task.vote.options if task.vote is not None else None
    draft = None if task.draft is None else task.draft.text
    has_tests = options is not None and bool(options.tests)
    if is_comparable_request(task.request, task.messages[-1].content, draft, has_tests=has_tests):
        return None
    return EscalationReason.NOT_COMPARABLE


def _reason_after(voted: StrategyResult) -> EscalationReason | None:
    """Return why votes that ended so are escalated; None where they decided."""
    outcome = (voted.deliberation or {}).get("outcome", VoteOutcome.ABSTAINED)
    return escalation_reason(VoteOutcome(outcome))


def _result_of(answer: DraftAnswer, escalation: Escalation, voted: StrategyResult) -> StrategyResult:
    """Return the stronger model's answer; how probably it is right, the votes do not say."""
    if not answer.text.strip() and voted.text:
        return replace(voted, escalation=replace(escalation, error="NO_ANSWER: it wrote nothing"))
    return StrategyResult(
        text=answer.text,
        outcome=Outcome.ANSWERED if answer.text.strip() else Outcome.ABSTAINED,
        model=answer.model,
        finish_reason=answer.finish_reason,
        deliberation=voted.deliberation,
        degraded_reasons=[reason for reason in voted.degraded_reasons if reason != NO_VALID_ANSWER],
        budget_exhausted=answer.cut,
        agreement=voted.agreement,
        escalation=replace(escalation, answered=True),
    )


def evidence_of(account: Mapping[str, Any]) -> VoteEvidence | None:
    """Return the evidence in the account of a vote; None where it abstained."""
    evidence = account.get("evidence")
    return VoteEvidence(**evidence) if evidence else None
