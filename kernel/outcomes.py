"""An outcome is how answering ended; all four services share the rule by which an answer is degraded."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

# The reason of an abstention that states no other one.
NO_VALID_ANSWER = "NO_VALID_ANSWER: no valid answer could be obtained"


class Outcome(StrEnum):
    """An outcome is how answering ended; an abstention is an outcome with a meaning, not an error (papers.md 4.6).

    A run is cancelled where its caller went away before there was an answer.
    """

    ANSWERED = "ANSWERED"
    ABSTAINED = "ABSTAINED"
    CANCELLED = "CANCELLED"


def degraded_reasons(outcome: Outcome, *reasons: Iterable[str], of_agents: Iterable[str] = ()) -> list[str]:
    """Return every reason why an answer is less than what was requested, each once, in the order given.

    Args:
        outcome: How answering ended.
        reasons: Reasons that each can be the reason of an abstention, as `CODE: message`.
        of_agents: Reasons of single agents, which do not state that there is no answer at all.

    Returns:
        The reasons, those of agents first; an abstention always has one that is not of a single agent.

    Source:
        Ours (papers.md 4.6).

    Example:
        >>> degraded_reasons(Outcome.ANSWERED, ["dialectic: TIMEOUT: late"], [])
        ['dialectic: TIMEOUT: late']
        >>> degraded_reasons(Outcome.ABSTAINED)
        ['NO_VALID_ANSWER: no valid answer could be obtained']
        >>> degraded_reasons(Outcome.ABSTAINED, of_agents=["ada failed: no text"])
        ['ada failed: no text', 'NO_VALID_ANSWER: no valid answer could be obtained']
    """
    stated = [reason for group in reasons for reason in group]
    if not stated and outcome is Outcome.ABSTAINED:
        stated = [NO_VALID_ANSWER]
    return list(dict.fromkeys([*of_agents, *stated]))


def is_degraded(reasons: Sequence[str]) -> bool:
    """Return whether an answer with these reasons is less than what was requested.

    Example:
        >>> is_degraded([]), is_degraded(["NO_VALID_ANSWER: no valid answer could be obtained"])
        (False, True)
    """
    return bool(reasons)
