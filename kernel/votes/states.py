"""The states of a confidence and of a promise, in words: what is a probability, what is proved (papers.md 5.2, 5.3)."""

from enum import StrEnum


class ProbabilityState(StrEnum):
    """The state says what a confidence is: a model's own words, the shipped prior, or fitted on labels."""

    UNCALIBRATED = "UNCALIBRATED"
    PRIOR = "PRIOR"
    FITTED = "FITTED"


def state_in_words(state: str | None, labels: int) -> str:
    """Return what a confidence is, for a reader; empty where there is none.

    Args:
        state: A `ProbabilityState`; None where there is no confidence.
        labels: Labels that it was fitted on [count].

    Example:
        >>> state_in_words("UNCALIBRATED", 0), state_in_words("FITTED", 40)
        ('uncalibrated, not a probability', 'probability, fitted on 40 labels')
    """
    match state:
        case ProbabilityState.UNCALIBRATED:
            return "uncalibrated, not a probability"
        case ProbabilityState.PRIOR:
            return "probability by the prior, without labels"
        case ProbabilityState.FITTED:
            return f"probability, fitted on {labels} {'label' if labels == 1 else 'labels'}"
    return ""


def state_in_short(state: str | None, labels: int) -> str:
    """Return what a confidence is in one or two words, for a line; no state says no probability.

    Args:
        state: State of the confidence; None where it has none.
        labels: Labels that it was fitted on [count, >= 0].

    Example:
        >>> state_in_short(None, 0), state_in_short("PRIOR", 0), state_in_short("FITTED", 40)
        ('uncalibrated', 'prior', 'fitted on 40 labels')
    """
    if state == ProbabilityState.FITTED:
        return f"fitted on {labels} {'label' if labels == 1 else 'labels'}"
    return (state or ProbabilityState.UNCALIBRATED).lower()


def marked_confidence(confidence: float | None, state: str | None) -> str:
    """Return a confidence in two digits, with `~` before one that is not a probability; `unknown` for None.

    Args:
        confidence: The confidence [0..1]; None: unknown.
        state: State of the confidence; None where it has none.

    Example:
        >>> marked_confidence(1.0, "UNCALIBRATED"), marked_confidence(0.873, "PRIOR"), marked_confidence(None, None)
        ('~1.00', '0.87', 'unknown')
    """
    if confidence is None:
        return "unknown"
    return f"{'~' if state in (None, ProbabilityState.UNCALIBRATED) else ''}{confidence:.2f}"


STAGES_IN_WORDS = {
    "FIRST": "votes that stopped as soon as enough agreed",
    "WENT_ON": "all votes",
    "ESCALATED": "the stronger model",
}


def promise_in_words(state: str, stage: str | None, error_at_most: float, labels: int, reason: str) -> str:
    """Return what became of a promise, for a reader.

    Args:
        state: `PROVED`, `WITHHELD` or `NOT_APPLIED`.
        stage: `FIRST`, `WENT_ON` or `ESCALATED`; None where there is none.
        error_at_most: The promised error [0..1].
        labels: Labels that it rests on [count].
        reason: Why the answer is withheld, or the promise not applied.

    Example:
        >>> promise_in_words("WITHHELD", "FIRST", 0.05, 41, "not yet: 41 of 100 labels")
        'at most 5 % errors: answer withheld, not yet: 41 of 100 labels'
        >>> promise_in_words("PROVED", "FIRST", 0.125, 200, "")
        'at most 12.5 % errors: proved by 200 labels of votes that stopped as soon as enough agreed'
    """
    promised = f"at most {100 * error_at_most:g} % errors"
    if state == "PROVED":
        return f"{promised}: proved by {labels} labels of {STAGES_IN_WORDS.get(stage or '', stage)}"
    return f"{promised}: {'not applied' if state == 'NOT_APPLIED' else 'answer withheld'}, {reason}"
