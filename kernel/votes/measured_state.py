"""The state measured by answering: what votes show of a question, and of its answer.

CE is the probability that the answer is right, CI is 1 - the share of the winning group. CI has three parts:

- `internal_inconsistency`: the share of pairs of votes of one source that differ, over all sources with two or more;
- `source_disagreement`: the share of pairs of votes of different sources that differ;
- `instability`: the share of earlier runs of the same question, by the same owner and configuration, whose winning
  answer differs.

A source is a model in one mode. Only valid votes count; what cannot be measured is unknown, with its reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations

from kernel.msv import CONFLICT_PARTS, MSV, MSVKind
from kernel.thresholds import DECIMALS
from kernel.values import value

INTERNAL, BETWEEN, OVER_TIME = CONFLICT_PARTS

NO_VALID_VOTE = "no vote is valid"
ONE_VALID_VOTE = "one valid vote has nothing to disagree with"
ONE_VOTE_EACH = "no source gave two valid votes"
ONE_SOURCE = "all valid votes come from one source"
NO_EARLIER_RUN = "no earlier run of this question is recorded"
NOT_ASSESSED = "the question was not assessed"


@value
class ValidVote:
    """A valid vote is an answer of one source.

    Attributes:
        source: Name of the source: a model in one mode.
        group: Number of the group of equal answers that it is in [>= 0]; the winner's is 0.
    """

    source: str
    group: int


@value
class Disagreement:
    """A disagreement is how far answers differ.

    Attributes:
        parts: Share that differs [0..1], by the parts of CI that are known.
        unknown: Why the others are unknown.
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def valid_votes(groups: Sequence[Sequence[int]], sources: Sequence[str]) -> tuple[ValidVote, ...]:
    """Return the valid votes, group by group.

    Args:
        groups: Indexes of the votes of each group, the winner first [0..len(sources) - 1].
        sources: Name of the source of each vote, the invalid ones too, by its index.
    """
    return tuple(
        ValidVote(source=sources[index], group=number) for number, group in enumerate(groups) for index in group
    )


def vote_disagreement(votes: Sequence[ValidVote]) -> Disagreement:
    """Return how far the votes of one source differ, and how far those of different sources do.

    Every pair of valid votes counts once: in `internal_inconsistency` where both are of one source, else in
    `source_disagreement`.

    Source:
        Ours (papers.md 5.2); MSV, state vector, names internal consistency and agreement of sources.

    Example:
        >>> votes = [ValidVote(source=source, group=group)
        ...          for source, group in (("draft", 0), ("reasoned", 0), ("reasoned", 0), ("reasoned", 1))]
        >>> found = vote_disagreement(votes)
        >>> found.parts["internal_inconsistency"], found.parts["source_disagreement"]
        (0.666666667, 0.333333333)
    """
    within, between = list(_differences(votes, same_source=True)), list(_differences(votes, same_source=False))
    nothing = NO_VALID_VOTE if not votes else ONE_VALID_VOTE if len(votes) == 1 else ""
    found = {INTERNAL: _share(within), BETWEEN: _share(between)}
    reasons = {INTERNAL: nothing or ONE_VOTE_EACH, BETWEEN: nothing or ONE_SOURCE}
    return Disagreement(
        parts={name: share for name, share in found.items() if share is not None},
        unknown={name: reasons[name] for name, share in found.items() if share is None},
    )


def instability(winner: str, earlier: Sequence[str]) -> float | None:
    """Return the share of earlier runs whose winning answer differs [0..1]; None without an earlier run.

    Args:
        winner: The winning answer of this run, in a form in which equal answers are equal.
        earlier: Those of earlier runs of the same question.

    Source:
        Ours (papers.md 5.2).

    Example:
        >>> instability("4", ["4", "5", "4", "4"]), instability("4", [])
        (0.25, None)
    """
    return _share([answer != winner for answer in earlier])


def measured_state(
    votes: Sequence[ValidVote],
    *,
    probability: float | None,
    probability_unknown: str = NO_VALID_VOTE,
    over_time: float | str,
    before: MSV | None,
) -> MSV:
    """Return the state after a vote; EM, PI and ER are those of the state before it.

    Args:
        votes: The valid votes.
        probability: Probability that the answer is right [0..1]; None where the votes do not say.
        probability_unknown: Why it is None.
        over_time: The instability [0..1], or why it is unknown.
        before: The state before the vote; None where there was none.

    Source:
        Ours (papers.md 5.2).
    """
    found = vote_disagreement(votes)
    parts, reasons = dict(found.parts), dict(found.unknown)
    if isinstance(over_time, str):
        reasons[OVER_TIME] = over_time
    else:
        parts[OVER_TIME] = over_time
    conflict = _conflict(votes)
    if conflict is None:
        reasons["conflict"] = ONE_VALID_VOTE if votes else NO_VALID_VOTE
    if probability is None:
        reasons["correctness"] = probability_unknown
    carried = before or MSV()
    kept = {name: getattr(carried, name) for name in ("emotional_response", "experience", "importance")}
    for name, level in kept.items():
        if level is None:
            reasons[name] = NOT_ASSESSED if before is None else before.unknown_reasons.get(name, NOT_ASSESSED)
    return MSV(
        correctness=probability,
        conflict=conflict,
        kind=MSVKind.RETROSPECTIVE,
        unknown_reasons=reasons,
        parts=parts,
        **kept,
    )


def _conflict(votes: Sequence[ValidVote]) -> float | None:
    if len(votes) < 2:
        return None
    winning = sum(vote.group == 0 for vote in votes)
    return round(1 - winning / len(votes), DECIMALS)


def _differences(votes: Sequence[ValidVote], *, same_source: bool) -> Iterator[bool]:
    for one, other in combinations(votes, 2):
        if (one.source == other.source) is same_source:
            yield one.group != other.group


def _share(differs: Sequence[bool]) -> float | None:
    return round(sum(differs) / len(differs), DECIMALS) if differs else None
