"""A task's end: what is told of it, and what is kept."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernel.confidence.rules import Ablation, Baseline, ConfidenceSource, TaskMode
from kernel.envelope import BudgetExhausted
from kernel.learning.profiles import ProfileEstimate
from kernel.outcomes import Outcome
from kernel.thresholds import exceeds
from services.delegation.service.solving import TaskSolution
from services.delegation.service.task_context import TaskContext
from services.delegation.service.task_records import Belief, TaskRecord
from services.delegation.service.values import (
    AgentAssessed,
    AnswerLabel,
    ProcessRequest,
    TaskDimension,
    TaskFinished,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """All that is known of a task at its end.

    Attributes:
        task_id: Its name.
        ask: The request.
        work: What it was done with.
        dimensions: Its dimensions.
        assessments: Everybody who was assessed.
        records: What each agent's record says about it.
        solved: What became of it.
        verdict: Whether the answer is right.
        created_at: When it began.
        began: The same on the monotonic clock [s].
        config_version: Version of the configuration in force.
    """

    task_id: str
    ask: ProcessRequest
    work: TaskContext
    dimensions: Sequence[TaskDimension]
    assessments: Sequence[AgentAssessed]
    records: Mapping[str, ProfileEstimate]
    solved: TaskSolution
    label: AnswerLabel | None
    created_at: datetime
    began: float
    config_version: str


@dataclass(frozen=True, slots=True)
class _Confidence:
    level: float | None
    source: ConfidenceSource | None


def finished(end: TaskOutcome) -> TaskFinished:
    """The last event of a task, before anything was learned from it."""
    solved, work = end.solved, end.work
    best, decision = solved.winner, solved.decision
    confidence = _confidence(end)
    together = decision is not None and decision.mode is TaskMode.COLLABORATED
    exhausted = work.spend.ledger.exhausted or any(r.startswith(BudgetExhausted.reason) for r in work.reasons)
    return TaskFinished(
        task_id=end.task_id,
        answer=solved.tally.answer or "",
        mode=decision.mode if decision else None,
        assessments=end.assessments,
        executor=decision.executor if decision else "",
        outcome=Outcome.ABSTAINED if solved.tally.answer is None else Outcome.ANSWERED,
        answer_text=best.text if best else "",
        answer_type=solved.answer_type,
        confidence=confidence.level,
        confidence_source=confidence.source,
        dimensions=end.dimensions,
        decision=decision,
        votes=solved.answers,
        vote_weights=solved.tally.weights if together else {},
        label=end.label,
        profile_updates=(),
        usage=work.spend.ledger.usage(),
        budget_exhausted=exhausted,
        degraded=bool(work.reasons) or best is None,
        degraded_reasons=list(work.reasons),
        parameters=work.rules,
        baseline=end.ask.baseline,
        ablations=sorted(work.ablations),
        config_version=end.config_version,
        prompt_digests=dict(sorted(work.digests.items())),
        run_id=end.ask.run_id,
        request_id=end.ask.request_id,
        created_at=end.created_at,
        duration_ms=round((time.monotonic() - end.began) * 1000, 3),
    )


def recorded(end: TaskOutcome, key_name: str) -> TaskRecord:
    """What a verdict on the task needs, now or later."""
    decision, solved = end.solved.decision, end.solved
    executor = decision.executor if decision else ""
    wrote = [one.agent for one in solved.answers if one.text]
    return TaskRecord(
        task_id=end.task_id,
        key_name=key_name,
        created_at=end.created_at,
        baseline=end.ask.baseline,
        mode=decision.mode if decision else "",
        first_agent=decision.first_agent if decision else "",
        executor=executor if wrote else "",
        better_profile=_is_better(end.records, executor, decision.first_agent if decision else ""),
        dimensions=[one.dimension for one in end.dimensions],
        voters=[] if executor else wrote,
        winners=[] if executor else [one.agent for one in solved.answers if one.won],
        beliefs=_beliefs(end),
        learning_rate=end.work.rules.learning_rate,
        untaught_reason=_untaught_reason(end, answered=bool(wrote if executor else solved.tally.winners)),
    )


def _untaught_reason(end: TaskOutcome, *, answered: bool) -> str:
    if not answered:
        return "no_answer"
    if end.ask.baseline is not Baseline.NONE:
        return "baseline"
    return "ablation" if Ablation.WITHOUT_LEARNING in end.work.ablations else ""


def _is_better(records: Mapping[str, ProfileEstimate], executor: str, first: str) -> bool:
    if executor not in records or first not in records:
        return False
    return exceeds(records[executor].profile, records[first].profile)


def _confidence(end: TaskOutcome) -> _Confidence:
    """Belief that the answer is right: the executor's confidence, or the winner's share of the votes' weights."""
    decision, tally = end.solved.decision, end.solved.tally
    if decision is None or tally.answer is None:
        return _Confidence(None, None)
    if decision.mode is TaskMode.COLLABORATED:
        return _Confidence(tally.share, ConfidenceSource.VOTE)
    made = next((one for one in end.assessments if one.agent == decision.executor), None)
    if made is not None:
        alone = made.verbalized is None
        return _Confidence(made.confidence, ConfidenceSource.PROFILE if alone else ConfidenceSource.COMBINED)
    record = end.records.get(decision.executor)
    if record is None or end.ask.baseline is not Baseline.NONE:
        return _Confidence(None, None)
    return _Confidence(record.profile, ConfidenceSource.PROFILE)


def _beliefs(end: TaskOutcome) -> list[Belief]:
    """Every confidence that a verdict can be held against; baselines are no part of what is served of delegation."""
    if end.ask.baseline is not Baseline.NONE:
        return []
    answers = {one.agent: one for one in end.solved.answers if one.text}
    found = [belief for one in end.assessments if one.agent in answers for belief in _of_agent(one, end)]
    share = _confidence(end)
    if share.source is ConfidenceSource.VOTE and share.level is not None:
        found.append(Belief(agent="", source=share.source, confidence=share.level, raw=share.level))
    return found


def _of_agent(made: AgentAssessed, end: TaskOutcome) -> list[Belief]:
    said = [Belief(agent=made.agent, source=ConfidenceSource.PROFILE, confidence=made.profile, raw=made.profile)]
    constant = Ablation.WITHOUT_SELF_ASSESSMENT in end.work.ablations
    if made.verbalized is not None and made.verbalized_raw is not None and not constant:
        source = ConfidenceSource.VERBALIZED
        said.append(Belief(agent=made.agent, source=source, confidence=made.verbalized, raw=made.verbalized_raw))
    if made.verbalized is not None and not constant:
        source, level = ConfidenceSource.COMBINED, made.confidence
        said.append(Belief(agent=made.agent, source=source, confidence=level, raw=level))
    return said
