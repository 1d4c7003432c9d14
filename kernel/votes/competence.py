"""The recorded competence of a source of votes is the share of its votes that were right, drawn to that of all sources.

Source: ours (papers.md 5.1, 5.2); the same ten pseudo-observations as the offset of a kind.
"""

from collections.abc import Sequence

from kernel.values import value
from kernel.votes.votes import VoteMode, VoteSource

# Weight of the share of all sources, in votes [count].
PSEUDO_VOTES = 10
# Sources whose competence is used [count].
MOST_SOURCES = 256


@value
class SourceRecord:
    """This record counts the votes of one source of which it is known whether they were right.

    Known are: every vote where the winning answer was right; the votes for it, and invalid ones, where it was wrong.

    Attributes:
        agent: The source, as `source_name` has it; empty for the default model.
        mode: How it came to its answers.
        votes: Such votes [count, >= 0].
        right: Those that were right [count, 0..votes].
    """

    agent: str
    mode: VoteMode
    votes: int
    right: int


def recorded_competences(records: Sequence[SourceRecord]) -> tuple[VoteSource, ...]:
    """Return each source with its competence [0..1], those with most votes first, at most `MOST_SOURCES`.

    Sources without a vote are left out.

    Source:
        Ours (papers.md 5.1): (r + 10 p) / (n + 10), with p the share right of all sources.

    Example:
        >>> records = [SourceRecord(agent="a", mode=VoteMode.REASONED, votes=10, right=9),
        ...            SourceRecord(agent="b", mode=VoteMode.REASONED, votes=10, right=3)]
        >>> [(one.model, one.competence) for one in recorded_competences(records)]
        [('a', 0.75), ('b', 0.45)]
    """
    votes, right = sum(one.votes for one in records), sum(one.right for one in records)
    return tuple(
        VoteSource(
            model=one.agent,
            mode=one.mode,
            competence=round((one.right + PSEUDO_VOTES * right / votes) / (one.votes + PSEUDO_VOTES), 9),
        )
        for one in sorted(records, key=lambda one: -one.votes)[:MOST_SOURCES]
        if one.votes
    )
