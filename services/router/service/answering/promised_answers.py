"""A promise bounds the share of errors among the answers that are given: one that labels do not prove is withheld.

Source: ours (papers.md 5.3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any, Protocol

from chassis.json_text import dumps
from kernel.errors import MalformedRequest
from kernel.policy import Strategy
from kernel.values import value
from kernel.votes.agreement import vote_agreement
from kernel.votes.promise import PromiseLevels, PromiseStage, ProvedLevels, judged, promise_levels
from kernel.votes.votes import VoteStop
from services.router.service.answering.values import AnswerRequest
from services.router.service.runs.values import PromiseOutcome, PromiseState, RunAgreement

# Code of the reason why an answer under a promise is withheld.
NOT_PROVED = "PROMISE_NOT_PROVED"
# Reason of the decision for votes where a promise asks for them.
BY_PROMISE = "promise"
NOT_COMPARED = "answers to this question cannot be compared, so that none can agree"
NO_ANSWER = "no vote has a valid answer"
FIRST_LOST = "the answer that was ahead where enough votes agreed is not the one that won"
ENDED_EARLY = "asking ended before its rule did: {}"
# Why asking ends by its rule; a vote that ended otherwise says nothing of others, nor they of it.
RULED_STOPS = frozenset({VoteStop.AGREED, VoteStop.MOST_ASKED, VoteStop.OUT_OF_REACH})


class PromisesInForce(Protocol):
    """These are the operator's promise, and the levels of agreement that keep any promise.

    Attributes:
        usual: The operator's promise [0..1]; None: there is none.
    """

    usual: float | None

    async def levels(self, owner: str, version: str, kind: str, stronger: str, error_at_most: float) -> PromiseLevels:
        """Return which levels keep a promise, by the labels that were read last; waits for no database."""


class WithoutLabels:
    """There is no label, so that no level keeps a promise."""

    usual: float | None = None

    async def levels(self, owner: str, version: str, kind: str, stronger: str, error_at_most: float) -> PromiseLevels:
        """Return that no level keeps it."""
        return promise_levels([], error_at_most, kind)


WITHOUT_LABELS = WithoutLabels()


@value
class PromiseOfRun:
    """A promise of a run is the error that is promised, and whether the promise reaches its strategy.

    Attributes:
        error_at_most: Share of errors among the answers that are given, at most [0..1].
        applies: Whether votes answer; another strategy has nothing to prove the promise by.
    """

    error_at_most: float
    applies: bool

    def unkept(self, strategy: str, reason: str) -> PromiseOutcome:
        """Return what became of it in a run without an answer of votes.

        Args:
            strategy: Strategy of the run.
            reason: Why there is no answer.
        """
        if self.applies:
            return PromiseOutcome(error_at_most=self.error_at_most, state=PromiseState.WITHHELD, reason=reason)
        return PromiseOutcome(
            error_at_most=self.error_at_most,
            state=PromiseState.NOT_APPLIED,
            reason=f"the request needs {strategy}, and only votes can prove a promise",
        )


def promise_of_run(request: AnswerRequest, named: Strategy | None, usual: float | None) -> PromiseOfRun | None:
    """Return the promise under which a request is answered; None where there is none.

    Args:
        request: The request, whose own promise comes before the operator's.
        named: Its strategy, named by the caller or by what it needs; None: it is left open.
        usual: The operator's promise [0..1]; None: there is none.

    Raises:
        MalformedRequest: For a promise with a strategy that cannot keep one.
    """
    applies = named in (None, Strategy.VOTE, Strategy.CASCADE)
    if request.promise is not None and not applies:
        raise MalformedRequest(
            f"promise: only {Strategy.VOTE} and {Strategy.CASCADE} can keep one, not {named}; leave out one of them",
            field="promise",
        )
    error = request.promise.error_at_most if request.promise is not None else usual
    return None if error is None else PromiseOfRun(error_at_most=error, applies=applies)


def run_agreement(account: Mapping[str, Any], version: str) -> RunAgreement | None:
    """Return the agreement of a vote; None without a valid vote at the first stop, or where no rule ended it.

    Args:
        account: The account of the vote, as REST spells it.
        version: Version of its configuration; sources that were left out make it another one.
    """
    if account.get("stop_reason") not in RULED_STOPS:
        return None
    groups = [group["votes"] for group in account.get("groups") or ()]
    found = vote_agreement(groups, len(account["votes"]), agree=account["agree"], most=account["most"])
    if found is None:
        return None
    known = {one.name: getattr(found, one.name) for one in fields(found)}
    return RunAgreement(**known, version=_version(version, account.get("left_out") or ()))


def _version(version: str, left_out: Sequence[str]) -> str:
    """Return the version of votes without some sources, each named before its reason."""
    if not left_out:
        return version
    names = sorted({one.partition(":")[0] for one in left_out})
    return sha256(dumps([version, names])).hexdigest()[: len(version)]


def promise_outcome(
    agreement: RunAgreement | None, levels: PromiseLevels, answer: str, stop_reason: str = ""
) -> PromiseOutcome:
    """Return whether labels prove that an answer of votes keeps a promise.

    Args:
        agreement: Agreement of the votes; None without one.
        levels: The levels that keep the promise.
        answer: The answer; empty: there is none.
        stop_reason: Why asking ended.
    """
    if agreement is None or not answer:
        ended = stop_reason and stop_reason not in RULED_STOPS
        return withheld(levels, ENDED_EARLY.format(stop_reason) if ended else NO_ANSWER, answer)
    found = judged(agreement, levels)
    proved = levels.of(found.stage)
    if found.proved:
        return _outcome(proved, levels.kind, PromiseState.PROVED, found.stage)
    reason = FIRST_LOST if proved.includes(found.level) else not_proved(proved)
    return _outcome(proved, levels.kind, PromiseState.WITHHELD, found.stage, reason=reason, withheld=answer)


def withheld(levels: PromiseLevels, reason: str, answer: str) -> PromiseOutcome:
    """Return that an answer without an agreement is withheld."""
    return PromiseOutcome(
        error_at_most=levels.first.error_at_most,
        state=PromiseState.WITHHELD,
        reason=reason,
        labels=levels.first.labels,
        kind=levels.kind,
        withheld=answer,
    )


def escalated(levels: PromiseLevels) -> PromiseOutcome:
    """Return that labels prove the answers of the stronger model."""
    return _outcome(levels.escalated, levels.kind, PromiseState.PROVED, PromiseStage.ESCALATED)


def not_proved(proved: ProvedLevels) -> str:
    """Return why an answer is withheld, with the labels that are missing.

    Example:
        >>> not_proved(ProvedLevels(error_at_most=0.05, labels=41))
        'not yet: 41 of 100 labels'
    """
    following = proved.next_look
    if following is None:
        return f"{proved.labels} labels do not prove it, and more cannot"
    if not any(test.proved is not None for test in proved.tests):
        return f"not yet: {proved.labels} of {following.labels} labels"
    if proved.last is None:
        return f"{proved.labels} labels do not prove it; tested again at {following.labels}"
    return f"{proved.labels} labels prove it only for answers with more agreement; tested again at {following.labels}"


def _outcome(
    proved: ProvedLevels,
    kind: str,
    state: PromiseState,
    stage: PromiseStage,
    *,
    reason: str = "",
    withheld: str = "",
) -> PromiseOutcome:
    following = proved.next_look
    return PromiseOutcome(
        error_at_most=proved.error_at_most,
        state=state,
        stage=stage,
        reason=reason,
        labels=proved.labels,
        labels_needed=None if following is None else following.labels,
        kind=kind,
        withheld=withheld,
    )
