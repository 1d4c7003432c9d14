"""Algorithm 1 decides who solves a task; it is a pure function here.

Source: MetaCogAgent Algorithm 1 (papers.md 3.3).
"""

from collections.abc import Sequence

from kernel.confidence.rules import HandOverRule, ModeReason, Rules, TaskMode
from kernel.confidence.self_assessment import combined_confidence, disagreement, effective_threshold
from kernel.learning.profiles import ProfileEstimate
from kernel.thresholds import DECIMALS, exceeds, reaches
from kernel.values import value

TOO_FEW = "unrated, and its profile rests on too few observations"


@value
class AssessedAgent:
    """This value holds one agent's confidence in a task, and the threshold for it.

    Attributes:
        agent: The agent.
        verbalized: The confidence that it states, c^v [0..1]; None when unknown.
        profile: The competence of its record, c^p [0..1].
        confidence: The two combined, c [0..1].
        disagreement: Their difference, delta [0..1]; None when c^v is unknown.
        threshold: Effective threshold, theta' [>= 0].
        eligible: Whether it may take the task at all.
        ineligible_reason: Why it may not; empty when it may.
    """

    agent: str
    verbalized: float | None
    profile: float
    confidence: float
    disagreement: float | None
    threshold: float
    eligible: bool = True
    ineligible_reason: str = ""


@value
class ExecutorDecision:
    """This decision names who solves a task, and the reason.

    Attributes:
        mode: How it is solved.
        executor: Who solves it; empty when all do.
        reason: Why.
    """

    mode: TaskMode
    executor: str
    reason: ModeReason


def assessed_agent(
    verbalized: float | None, record: ProfileEstimate, rules: Rules, *, profile_alone: bool = False
) -> AssessedAgent:
    """Return an agent's confidence and threshold, from its own rating and from its record.

    Args:
        verbalized: The confidence that it states, c^v [0..1]; None when unknown.
        record: The estimate of its profile.
        rules: The numbers in force.
        profile_alone: Whether c^v was left out on purpose; then its absence makes no agent ineligible.

    Source:
        Ours (papers.md 3.2): an agent that cannot rate itself is eligible only where its profile rests on enough
        observations, or it would win on the 0.5 it starts with.
    """
    eligible = verbalized is not None or profile_alone or record.observations >= rules.minimum_observations
    conflict = disagreement(verbalized, record.profile)
    return AssessedAgent(
        agent=record.agent,
        verbalized=verbalized,
        profile=record.profile,
        confidence=combined_confidence(verbalized, record.profile, weight=rules.verbalized_weight),
        disagreement=conflict,
        threshold=effective_threshold(
            conflict,
            threshold=rules.confidence_threshold,
            conflict_threshold=rules.disagreement_threshold,
            gain=rules.disagreement_gain,
        ),
        eligible=eligible,
        ineligible_reason="" if eligible else TOO_FEW,
    )


def is_confident(first: AssessedAgent) -> bool:
    """Return whether the first agent solves the task itself, without a request to any other: c >= theta'."""
    return first.eligible and reaches(first.confidence, first.threshold)


def executor_decision(first: AssessedAgent, peers: Sequence[AssessedAgent], rules: Rules) -> ExecutorDecision:
    """Decide who solves the task.

    Args:
        first: The agent that it was dispatched to.
        peers: The other agents that rated themselves; of equally confident ones the first is taken.
        rules: The numbers in force.

    Returns:
        The first agent where c >= theta' (its own, tightened threshold). Else the most confident other one that reaches
        theta (not theta'), in the `PAPER` rule even when it is less confident than the first, by default only when it
        is more so. Else all agents together.

    Source:
        MetaCogAgent Algorithm 1 (papers.md 3.3).
    """
    if is_confident(first):
        return ExecutorDecision(mode=TaskMode.EXECUTED, executor=first.agent, reason=ModeReason.CONFIDENT)
    if not peers:
        return ExecutorDecision(mode=TaskMode.EXECUTED, executor=first.agent, reason=ModeReason.ONLY_AGENT)
    able = [peer for peer in peers if peer.eligible and reaches(peer.confidence, rules.confidence_threshold)]
    if not able:
        return ExecutorDecision(mode=TaskMode.COLLABORATED, executor="", reason=ModeReason.NO_AGENT_CONFIDENT)
    best = max(able, key=lambda peer: round(peer.confidence, DECIMALS))
    if rules.hand_over_rule is HandOverRule.PAPER or not first.eligible or exceeds(best.confidence, first.confidence):
        return ExecutorDecision(mode=TaskMode.DELEGATED, executor=best.agent, reason=ModeReason.BETTER_PEER)
    return ExecutorDecision(mode=TaskMode.EXECUTED, executor=first.agent, reason=ModeReason.NO_BETTER_PEER)
