"""A sequential panel asks agents one after another until two agree; no two agree: the weighted vote decides.

Equality of answers, weights and ties are those of `kernel.confidence.voting`.
"""

from collections.abc import Sequence
from enum import StrEnum

from kernel.answers import IN_THIS_PROCESS, AnswerType, Mathematics, SameMeaning
from kernel.confidence.voting import Ballot, VoteCount, count_votes
from kernel.thresholds import DECIMALS
from kernel.values import value
from kernel.votes.probability import VoteEvidence

# Equal answers that end a panel [count].
AGREE = 2


class PanelStop(StrEnum):
    """The reason why no further agent of a panel is asked."""

    AGREED = "AGREED"
    ALL_ASKED = "ALL_ASKED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"


@value
class PanelMember:
    """A member is an agent that a panel may ask.

    Attributes:
        agent: The agent.
        competence: Its competence in the task's dimensions [0..1].
        confidence: Its confidence in the task, the weight of its vote [0..1].
    """

    agent: str
    competence: float
    confidence: float


def panel_order(members: Sequence[PanelMember]) -> tuple[str, ...]:
    """Return the agents in the order in which they are asked: by falling competence, then confidence, then name.

    Example:
        >>> levels = {"a": (0.5, 0.2), "b": (0.7, 0.1), "c": (0.5, 0.4)}
        >>> panel_order([PanelMember(agent=name, competence=competence, confidence=confidence)
        ...              for name, (competence, confidence) in levels.items()])
        ('b', 'c', 'a')
    """
    ranked = sorted(
        members, key=lambda one: (-round(one.competence, DECIMALS), -round(one.confidence, DECIMALS), one.agent)
    )
    return tuple(one.agent for one in ranked)


def count_panel(
    ballots: Sequence[Ballot],
    answer_type: AnswerType,
    *,
    same_meaning: SameMeaning | None = None,
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> VoteCount:
    """Count the votes of the agents that were asked: an answer that two of them gave wins over any that one gave.

    Arguments and ties are as for `count_votes`.

    Source:
        MetaCogAgent Eq. 3 over those asked (papers.md 3.3); that agreement comes first is ours.

    Example:
        >>> votes = [Ballot(agent="a", answer="4", weight=0.9), Ballot(agent="b", answer="5", weight=0.3),
        ...          Ballot(agent="c", answer="5.0", weight=0.2)]
        >>> count_votes(votes, AnswerType.NUMBER).answer, count_panel(votes, AnswerType.NUMBER).answer
        ('4', '5')
    """
    return count_votes(ballots, answer_type, same_meaning=same_meaning, agree=AGREE, mathematics=mathematics)


def panel_stop(count: VoteCount, *, asked: int, members: int) -> PanelStop | None:
    """Return why no further agent is asked; None while there is one and no two agree.

    Args:
        count: The votes so far, as `count_panel` counts them.
        asked: Agents that were asked, those without a valid answer too [count].
        members: Agents that may be asked [count].

    Source:
        Ours (papers.md 3.3), outside the rule of the paper.
    """
    if len(count.winners) >= AGREE:
        return PanelStop.AGREED
    return PanelStop.ALL_ASKED if asked >= members else None


def panel_evidence(count: VoteCount, models: Sequence[str]) -> VoteEvidence | None:
    """Return what a panel says about its answer, for the probability that this is right; None without a valid vote.

    Args:
        count: The votes.
        models: Model of each agent whose answer won.

    Example:
        >>> votes = [Ballot(agent=name, answer=answer, weight=0.5) for name, answer in (("a", "4"), ("b", "4"))]
        >>> panel_evidence(count_panel(votes, AnswerType.NUMBER), ["small", "large"]).models
        2
    """
    if not count.winners:
        return None
    return VoteEvidence(agreeing=len(count.winners), valid=len(count.answers), models=len(set(models)))
