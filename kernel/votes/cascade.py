"""A cascade asks cheap models first, and the strong model only where too few of them agree.

Source: ours (papers.md 5.6), where an undecided vote escalates. Everything is deterministic given the answers in their
order; costs are in any one unit, and an unknown cost is None, never 0.
"""

from collections.abc import Mapping, Sequence

from kernel.values import value
from kernel.votes.votes import Vote, VoteMode, VoteRule, VoteSource, grouped_by_key, vote_stop

_SOURCE = VoteSource(model="recorded", mode=VoteMode.REASONED)


@value
class CascadeEnd:
    """This is how a cascade ends on answers that are known.

    Attributes:
        winner: Place of the first answer of the largest group [0..asked - 1]; None where no answer is valid.
        asked: Cheap answers that are asked for [count].
        is_decided: Whether enough of them agree; where not, the strong model is asked if the rule escalates.
        is_open: Whether one more answer would be asked for, and there is none.
    """

    winner: int | None
    asked: int
    is_decided: bool
    is_open: bool


def cascade_end(keys: Sequence[str | None], rule: VoteRule) -> CascadeEnd:
    """Return how a cascade ends whose models would answer like this, one after another.

    Args:
        keys: Answer of each model in the order in which they are asked; equal keys are equal answers, None is an
            invalid one.
        rule: How many must agree, of how many at most.

    Source:
        Ours (papers.md 5.6): it stops when `agree` are equal, when `most` were asked, or when `agree` is out of reach.

    Example:
        >>> ends = [cascade_end(keys, VoteRule(agree=2, most=3)) for keys in ("abb", [None, None, "a"], "ab")]
        >>> [(end.winner, end.asked, end.is_decided, end.is_open) for end in ends]
        [(1, 3, True, False), (None, 2, False, False), (0, 2, False, True)]
    """
    votes: list[Vote] = []
    is_open = True
    for key in keys:
        votes.append(Vote(source=_SOURCE, answer=key))
        is_open = vote_stop(grouped_by_key(keys[: len(votes)], votes), votes, rule) is None
        if not is_open:
            break
    groups = grouped_by_key(keys[: len(votes)], votes)
    return CascadeEnd(
        winner=groups[0].votes[0] if groups else None,
        asked=len(votes),
        is_decided=bool(groups) and len(groups[0].votes) >= rule.agree,
        is_open=is_open,
    )


def sources_by_price(sources: Sequence[VoteSource], costs: Mapping[str, float | None]) -> tuple[VoteSource, ...]:
    """Return the sources in the order in which a cascade asks them: the cheapest first.

    The draft is first, since it exists already. Of equal costs the higher recorded competence is first, and a source
    without a record after those with one; then the order given. Sources of unknown cost come last.

    Args:
        sources: The sources.
        costs: What one answer of each model costs [>= 0, one unit for all]; None or left out: unknown.

    Example:
        >>> sources = [VoteSource(model=name, mode=VoteMode.REASONED, competence=level)
        ...            for name, level in (("a", None), ("b", 0.4), ("c", 0.8), ("d", 0.9))]
        >>> [one.model for one in sources_by_price(sources, {"b": 1, "c": 1, "d": 2})]
        ['c', 'b', 'd', 'a']
    """

    def rank(source: VoteSource) -> tuple[bool, bool, float, bool, float]:
        cost = costs.get(source.model)
        return (
            source.mode is not VoteMode.DRAFT,
            cost is None,
            cost or 0,
            source.competence is None,
            -(source.competence or 0),
        )

    return tuple(sorted(sources, key=rank))


def most_worth(costs: Sequence[float | None], strong: float | None) -> int | None:
    """Return how many cheap answers can be asked for before they cost as much as the strong model's own.

    Where all of them together cost as much as it, a cascade cannot pay, whatever they answer.

    Args:
        costs: Cost of each cheap answer in the order in which they are asked [>= 0, one unit for all]; None: unknown.
        strong: Cost of the strong model's answer [>= 0, the same unit]; None: unknown.

    Returns:
        The largest number of them that costs less than the strong model's answer [count, 0..]; None where a cost that
        decides it is unknown: there is no cap then.

    Example:
        >>> most_worth([1, 1, 1], 2.5), most_worth([1, 1], 10), most_worth([3, 3], 2), most_worth([1, None], 5)
        (2, 2, 0, None)
    """
    total = 0.0
    for count, cost in enumerate(costs):
        if cost is None or strong is None:
            return None
        total += cost
        if total >= strong:
            return count
    return len(costs)
