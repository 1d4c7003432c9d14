"""An outcome is how answering ended; all four services share the rule by which an answer is degraded."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

# The reason of an abstention that states no other one.
NO_VALID_ANSWER = "NO_VALID_ANSWER: no valid answer could be obtained"


class Outcome(StrEnum):
    """An outcome is how answering ended; an abstention is an outcome with a meaning, not an error (SPEC 4)."""

    ANSWERED = "ANSWERED"
    ABSTAINED = "ABSTAINED"


def degraded_reasons(outcome: Outcome, *reasons: Iterable[str]) -> list[str]:
    """Return every reason why an answer is less than what was requested, each once, in the order given.

    Args:
        outcome: How answering ended.
        reasons: Reasons of each part that took part, as `CODE: message`.

    Returns:
        The reasons; an abstention always has one.

    Example:
        >>> degraded_reasons(Outcome.ANSWERED, ["dialectic: TIMEOUT: late"], [])
        ['dialectic: TIMEOUT: late']
        >>> degraded_reasons(Outcome.ABSTAINED)
        ['NO_VALID_ANSWER: no valid answer could be obtained']
    """
    stated = list(dict.fromkeys(reason for group in reasons for reason in group))
    return stated if stated or outcome is Outcome.ANSWERED else [NO_VALID_ANSWER]


def is_degraded(reasons: Sequence[str]) -> bool:
    """Return whether an answer with these reasons is less than what was requested.

    Example:
        >>> is_degraded([]), is_degraded(["NO_VALID_ANSWER: no valid answer could be obtained"])
        (False, True)
    """
    return bool(reasons)
