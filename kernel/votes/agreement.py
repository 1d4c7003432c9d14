"""Agreement is how many valid votes are for the winning answer and how many against it, where asking stops.

Source: ours (papers.md 5.1, 5.3).
"""

from collections.abc import Sequence

from kernel.values import value


@value
class AgreementLevel:
    """An agreement is a level: votes for the winning answer, and valid votes for others.

    Attributes:
        agreeing: Votes for it [count, >= 1].
        against: Valid votes for other answers [count, >= 0].

    Raises:
        ValueError: On construction, for `agreeing` below 1 or `against` below 0.
    """

    agreeing: int
    against: int = 0

    def __post_init__(self) -> None:
        if self.agreeing < 1 or self.against < 0:
            raise ValueError(f"agreeing is at least 1, and against at least 0: {self!r}")

    @property
    def strictness(self) -> tuple[int, int]:
        """Return the key by which levels are ordered, the strictest with the largest.

        The lead counts first, which is what votes of equal worth say of their winner; of equal leads that with fewer
        votes against.

        Returns:
            Lead, which may be negative, and votes against, negated [count].

        Example:
            >>> levels = [AgreementLevel(agreeing=a, against=b) for a, b in ((2, 1), (4, 1), (3, 0), (5, 0))]
            >>> [(one.agreeing, one.against) for one in sorted(levels, key=lambda one: one.strictness, reverse=True)]
            [(5, 0), (3, 0), (4, 1), (2, 1)]
        """
        return (self.agreeing - self.against, -self.against)

    def is_as_strict_as(self, other: "AgreementLevel") -> bool:
        """Return whether this level is as strict as the other one, or stricter."""
        return self.strictness >= other.strictness


@value
class VoteAgreement:
    """This value holds the agreement of one vote where asking stops first, and at its end.

    Attributes:
        first: Agreement when enough votes agreed, or no answer could reach as many any more.
        first_stands: Whether the answer that led then is the winner at the end; false after a tie that went on.
        last: Agreement at the end.
        went_on: Whether more votes came after the first stop.
        complete: Whether as many votes came as may be asked for.
    """

    first: AgreementLevel
    first_stands: bool
    last: AgreementLevel
    went_on: bool
    complete: bool = False


def first_stop(groups: Sequence[Sequence[int]], votes: int, *, agree: int, most: int) -> int:
    """Return after how many votes asking stops first [count].

    Args:
        groups: Indexes of the votes of each answer [0..votes - 1], each in rising order; invalid votes are in none.
        votes: Votes that came [count, >= 1].
        agree: Votes for one answer that decide [count].
        most: Votes at most [count].

    Example:
        >>> first_stop([[0, 2, 3], [1]], 4, agree=2, most=5), first_stop([[0], [1], [2]], 3, agree=3, most=4)
        (3, 3)
    """
    reached = min((group[agree - 1] + 1 for group in groups if len(group) >= agree), default=votes)
    for count in range(1, min(reached, votes)):
        largest = max((_before(group, count) for group in groups), default=0)
        if largest + most - count < agree:
            return count
    return min(reached, votes)


def vote_agreement(groups: Sequence[Sequence[int]], votes: int, *, agree: int, most: int) -> VoteAgreement | None:
    """Return the agreement of a vote; None without a valid vote at the first stop.

    Args:
        groups: Indexes of the votes of each answer [0..votes - 1], the winner first.
        votes: Votes that came [count].
        agree: Votes for one answer that decide [count].
        most: Votes at most [count].

    Example:
        >>> found = vote_agreement([[1, 3, 4], [0, 2]], 5, agree=2, most=5)
        >>> (found.first, found.first_stands, found.last)
        (AgreementLevel(agreeing=2, against=1), False, AgreementLevel(agreeing=3, against=2))
    """
    if not groups:
        return None
    stop = first_stop(groups, votes, agree=agree, most=most)
    sizes = [_before(group, stop) for group in groups]
    largest = max(sizes)
    if not largest:
        return None
    valid = sum(len(group) for group in groups)
    return VoteAgreement(
        first=AgreementLevel(agreeing=largest, against=sum(sizes) - largest),
        first_stands=sizes[0] == largest and (stop == votes or sizes.count(largest) == 1),
        last=AgreementLevel(agreeing=len(groups[0]), against=valid - len(groups[0])),
        went_on=stop < votes,
        complete=votes >= most,
    )


def _before(group: Sequence[int], count: int) -> int:
    """Return how many of the votes of a group are among the first `count`."""
    return sum(index < count for index in group)
