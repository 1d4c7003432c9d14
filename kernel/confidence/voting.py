"""A vote clusters the answers of several agents, and weighs them by the confidence of each agent.

Source: MetaCogAgent Eq. 3 (papers.md 3.3): the answer is argmax_y sum_i c_i 1[y_i = y].
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from kernel.answers import IN_THIS_PROCESS, AnswerType, Cluster, Mathematics, SameMeaning, cluster, extract, rules_of
from kernel.answers.units import assumed_unit
from kernel.thresholds import DECIMALS
from kernel.values import value


@value
class Ballot:
    """A ballot is one agent's vote.

    Attributes:
        agent: The agent.
        answer: Its answer alone, as it was found in its text; None when there is none.
        weight: Weight of its vote [0..1].
    """

    agent: str
    answer: str | None
    weight: float


@value
class VoteCount:
    """This value is the result of a vote.

    Attributes:
        answer: Canonical form of the answer that won; None without a valid one.
        share: Its share of all valid votes' weight [0..1].
        weights: Weight by canonical answer [>= 0].
        answers: Canonical answer of each agent that gave a valid one.
        units_assumed: Unit that the answer of an agent is taken to mean, where it states none and equal answers do.
    """

    answer: str | None
    share: float | None
    weights: Mapping[str, float]
    answers: Mapping[str, str]
    units_assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def winners(self) -> frozenset[str]:
        """Return the agents whose answer won."""
        return frozenset(agent for agent, answer in self.answers.items() if answer == self.answer)


def answer_in(text: str, answer_type: AnswerType) -> str | None:
    r"""Return the answer that a text gives, as it is written there.

    A free text that names none is its answer as a whole.

    Example:
        >>> answer_in("Let me see.\nFinal Answer: 42", AnswerType.NUMBER), answer_in("It is.", AnswerType.NUMBER)
        ('42', None)
    """
    found = extract(text, answer_type)
    if found is None and rules_of(answer_type).is_free_text:
        return text.strip() or None
    return found


def count_votes(
    ballots: Sequence[Ballot],
    answer_type: AnswerType,
    *,
    same_meaning: SameMeaning | None = None,
    agree: int | None = None,
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> VoteCount:
    """Cluster the votes by the rules of their type, and weigh them.

    A tie is won by the answer of more agents, then by the first in canonical order. Where no vote weighs
    anything, all weigh the same.

    Args:
        ballots: The votes.
        answer_type: Type of their answers.
        same_meaning: Judgement of two long texts; None merges nothing by meaning.
        agree: Equal answers that win over fewer, whatever these weigh [count]; None leaves it to the weights.
        mathematics: Compares expressions.

    Source:
        MetaCogAgent Eq. 3 (papers.md 3.3); clusters as in papers.md 2.3; ties are ours.

    Example:
        >>> votes = [Ballot(agent="a", answer="4", weight=0.4), Ballot(agent="b", answer="5", weight=0.3),
        ...          Ballot(agent="c", answer="5.0", weight=0.2)]
        >>> outcome = count_votes(votes, AnswerType.NUMBER)
        >>> outcome.answer, sorted(outcome.winners), dict(outcome.weights)
        ('5', ['b', 'c'], {'5': 0.5, '4': 0.4})
    """
    given = [ballot.answer for ballot in ballots if ballot.answer is not None]
    clusters = cluster(given, answer_type, same_meaning=same_meaning, mathematics=mathematics)
    homes = {spelling: one for one in clusters for spelling in one.spellings}
    valid = [(ballot, homes[answer]) for ballot in ballots if (answer := (ballot.answer or "").strip()) in homes]
    if not valid:
        return VoteCount(answer=None, share=None, weights={}, answers={})
    level = sum(ballot.weight for ballot, _ in valid) <= 0
    weights = {one.canonical: 0.0 for one in clusters}
    for ballot, home in valid:
        weights[home.canonical] += 1.0 if level else ballot.weight
    rounded = {answer: round(weight, DECIMALS) for answer, weight in weights.items()}
    winner = _winner(clusters, rounded, agree)
    return VoteCount(
        answer=winner,
        share=round(weights[winner] / sum(weights.values()), DECIMALS),
        weights=rounded,
        answers={ballot.agent: home.canonical for ballot, home in valid},
        units_assumed={
            ballot.agent: assumed_unit(ballot.answer or "", home.canonical)
            for ballot, home in valid
            if (ballot.answer or "").strip() in home.without_unit
        },
    )


def _winner(clusters: Sequence[Cluster], weights: Mapping[str, float], agree: int | None) -> str:
    def rank(one: Cluster) -> tuple[bool, float, int, str]:
        agrees = agree is not None and one.count >= agree
        return (not agrees, -weights[one.canonical], -one.count, one.canonical)

    return min(clusters, key=rank).canonical
