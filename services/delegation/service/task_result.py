"""This module makes the last event of a task and its stored record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from chassis.clock import milliseconds_since
from kernel.confidence.panels import panel_evidence
from kernel.confidence.rules import Ablation, Baseline, ConfidenceSource, NotLearnedReason, TaskMode
from kernel.envelope import BudgetExhausted
from kernel.learning.profiles import ProfileEstimate
from kernel.outcomes import Outcome, degraded_reasons, is_degraded
from kernel.thresholds import DECIMALS, exceeds
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import probability_model
from kernel.votes.states import ProbabilityState
from services.delegation.service.solver import TaskSolution
from services.delegation.service.task_context import TaskContext
from services.delegation.service.task_records import TaskConfidence, TaskRecord
from services.delegation.service.values import (
    AgentAssessed,
    AnswerLabel,
    ProcessRequest,
    TaskDimension,
    TaskFinished,
)

_PRIOR_MODEL = probability_model(SHIPPED_PRIOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The outcome is everything that is known of a task at its end.

    Attributes:
        task_id: Its identifier.
        request: The request.
        task: Its state.
        dimensions: Its dimensions.
        assessments: The assessments of agents.
        estimates: Competence of each agent in its dimensions.
        solution: Its answers.
        label: Whether the answer is right; None without a check.
        created_at: When it began.
        started: The same on the monotonic clock [s].
        config_version: Version of the configuration in force.
    """

    task_id: str
    request: ProcessRequest
    task: TaskContext
    dimensions: Sequence[TaskDimension]
    assessments: Sequence[AgentAssessed]
    estimates: Mapping[str, ProfileEstimate]
    solution: TaskSolution
    label: AnswerLabel | None
    created_at: datetime
    started: float
    config_version: str


@dataclass(frozen=True, slots=True)
class _Confidence:
    level: float | None
    source: ConfidenceSource | None
    state: ProbabilityState = ProbabilityState.UNCALIBRATED


def finished_task(outcome: TaskOutcome) -> TaskFinished:
    """Return the last event of a task, before any profile learns from it."""
    solution, task = outcome.solution, outcome.task
    winner, decision = solution.winner, solution.decision
    confidence = _confidence(outcome)
    is_vote = decision is not None and decision.mode is TaskMode.COLLABORATED
    state = Outcome.ABSTAINED if solution.votes.answer is None else Outcome.ANSWERED
    reasons = degraded_reasons(state, of_agents=task.degraded_reasons)
    exhausted = task.spend.ledger.exhausted or any(each.startswith(BudgetExhausted.reason) for each in reasons)
    return TaskFinished(
        task_id=outcome.task_id,
        answer=solution.votes.answer or "",
        mode=decision.mode if decision else None,
        assessments=outcome.assessments,
        executor=decision.executor if decision else "",
        outcome=state,
        answer_text=winner.text if winner else "",
        answer_type=solution.answer_type,
        confidence=confidence.level,
        confidence_source=confidence.source,
        dimensions=outcome.dimensions,
        decision=decision,
        votes=solution.answers,
        vote_weights=solution.votes.weights if is_vote else {},
        label=outcome.label,
        profile_updates=(),
        usage=task.spend.ledger.usage(),
        budget_exhausted=exhausted,
        degraded=is_degraded(reasons),
        degraded_reasons=reasons,
        parameters=task.rules,
        baseline=outcome.request.baseline,
        ablations=sorted(task.ablations),
        config_version=outcome.config_version,
        prompt_digests=dict(sorted(task.prompt_digests.items())),
        run_id=outcome.request.run_id,
        request_id=outcome.request.request_id,
        created_at=outcome.created_at,
        duration_ms=milliseconds_since(outcome.started),
        panel_stop=solution.panel_stop,
        confidence_state=None if confidence.level is None else confidence.state,
    )


def task_record(outcome: TaskOutcome, key_name: str) -> TaskRecord:
    """Return the record of a task that a label needs, now or later."""
    decision, solution = outcome.solution.decision, outcome.solution
    executor = decision.executor if decision else ""
    writers = [each.agent for each in solution.answers if each.text]
    return TaskRecord(
        task_id=outcome.task_id,
        key_name=key_name,
        created_at=outcome.created_at,
        baseline=outcome.request.baseline,
        mode=decision.mode if decision else "",
        first_agent=decision.first_agent if decision else "",
        executor=executor if writers else "",
        better_profile=_is_better(outcome.estimates, executor, decision.first_agent if decision else ""),
        dimensions=[each.dimension for each in outcome.dimensions],
        voters=[] if executor else writers,
        winners=[] if executor else [each.agent for each in solution.answers if each.won],
        confidences=_confidences(outcome),
        learning_rate=outcome.task.rules.learning_rate,
        not_learned_reason=_not_learned_reason(outcome, answered=bool(writers if executor else solution.votes.winners)),
    )


def _not_learned_reason(outcome: TaskOutcome, *, answered: bool) -> NotLearnedReason | None:
    if not answered:
        return NotLearnedReason.NO_ANSWER
    if outcome.request.baseline is not Baseline.NONE:
        return NotLearnedReason.BASELINE
    return NotLearnedReason.ABLATION if Ablation.WITHOUT_LEARNING in outcome.task.ablations else None


def _is_better(estimates: Mapping[str, ProfileEstimate], executor: str, first: str) -> bool:
    if executor not in estimates or first not in estimates:
        return False
    return exceeds(estimates[executor].profile, estimates[first].profile)


def _confidence(outcome: TaskOutcome) -> _Confidence:
    """Return the confidence that the answer is right.

    It is the executor's; of a vote of all, the winner's share of the weights; of a panel that stops when two agree,
    where that share would nearly always be 1, the probability that the shipped prior reads from the agreement.
    """
    decision, votes = outcome.solution.decision, outcome.solution.votes
    if decision is None or votes.answer is None:
        return _Confidence(None, None)
    if outcome.solution.panel_stop is not None:
        evidence = panel_evidence(votes, [each.model for each in outcome.solution.answers if each.won])
        level = None if evidence is None else round(_PRIOR_MODEL.probability(evidence), DECIMALS)
        return _Confidence(level, ConfidenceSource.VOTE, ProbabilityState.PRIOR)
    if decision.mode is TaskMode.COLLABORATED:
        return _Confidence(votes.share, ConfidenceSource.VOTE)
    assessment = next((each for each in outcome.assessments if each.agent == decision.executor), None)
    if assessment is not None:
        by_profile = assessment.verbalized is None
        source = ConfidenceSource.PROFILE if by_profile else ConfidenceSource.COMBINED
        return _Confidence(assessment.confidence, source)
    estimate = outcome.estimates.get(decision.executor)
    if estimate is None or outcome.request.baseline is not Baseline.NONE:
        return _Confidence(None, None)
    return _Confidence(estimate.profile, ConfidenceSource.PROFILE)


def _confidences(outcome: TaskOutcome) -> list[TaskConfidence]:
    """Return every confidence that a label can be compared with; none under a baseline."""
    if outcome.request.baseline is not Baseline.NONE:
        return []
    writers = {each.agent for each in outcome.solution.answers if each.text}
    assessed = [each for each in outcome.assessments if each.agent in writers]
    found = [confidence for each in assessed for confidence in _of_agent(each, outcome)]
    vote = _confidence(outcome)
    if vote.source is ConfidenceSource.VOTE and vote.level is not None:
        found.append(TaskConfidence(agent="", source=vote.source, confidence=vote.level, raw=vote.level))
    return found


def _of_agent(assessment: AgentAssessed, outcome: TaskOutcome) -> list[TaskConfidence]:
    is_constant = Ablation.WITHOUT_SELF_ASSESSMENT in outcome.task.ablations
    verbalized, raw = assessment.verbalized, assessment.verbalized_raw
    levels = {ConfidenceSource.PROFILE: (assessment.profile, assessment.profile)}
    if raw is not None and not is_constant:
        # A rating without weight is labelled too: its agent may come to deserve trust.
        levels[ConfidenceSource.VERBALIZED] = (raw if verbalized is None else verbalized, raw)
    if verbalized is not None and not is_constant:
        levels[ConfidenceSource.COMBINED] = (assessment.confidence, assessment.confidence)
    return [
        TaskConfidence(agent=assessment.agent, source=source, confidence=level, raw=before)
        for source, (level, before) in levels.items()
    ]
