"""What labels say of System 2 on a kind of question, and which rule decided, in words for a reader."""

from collections.abc import Mapping
from typing import Protocol

# Questions labelled for both systems from which the gain of a kind decides [count].
DECIDING_LABELS = 20

_RULES: Mapping[str, str] = {
    "NAMED": "the strategy was fixed before",
    "STATE": "the activation of a given state, or by the papers' setting",
    "GAIN": "what System 2 gains on questions of this kind",
    "ACTIVATION": "the activation",
    "POLICY": "the policy table",
}


class LabelledGain(Protocol):
    """What labels say of System 2 on a kind of question, as the contract has it.

    Attributes:
        labels: Questions of the kind that are labelled for both systems [count].
        system_one: Share of right answers of System 1 on them [0..1].
        system_two: Share of right answers of System 2 on them [0..1].
        shrunk: The gain, drawn towards that over all kinds [-1..1].
        minimum: The gain from which System 2 pays [-1..1].
    """

    labels: int
    system_one: float
    system_two: float
    shrunk: float
    minimum: float


def rule_in_words(decided_by: str) -> str:
    """Return which rule decided between the systems; empty where none is recorded.

    Example:
        >>> rule_in_words("GAIN"), rule_in_words("")
        ('what System 2 gains on questions of this kind', '')
    """
    return _RULES.get(decided_by, "")


def kind_in_words(kind: str, unknown_reason: str) -> str:
    """Return the kind of the question, or why it is unknown; empty where none was looked for.

    Args:
        kind: Kind of the question; empty where it is unknown.
        unknown_reason: Why it is unknown.

    Example:
        >>> kind_in_words("math_computation", ""), kind_in_words("", "NO_ENCODER: none")
        ('math computation', 'unknown (NO_ENCODER: none)')
    """
    if kind:
        return kind.replace("_", " ")
    return f"unknown ({unknown_reason})" if unknown_reason else ""


def gain_in_words(kind: str, decided_by: str, gain: LabelledGain | None) -> str:
    """Return the gain of System 2 on the kind of the question, with its labels; empty where no kind is known.

    Args:
        kind: Kind of the question; empty where it is unknown.
        decided_by: Rule that decided; empty where none is recorded.
        gain: What labels say; None while no question of the kind is labelled for both systems.

    Example:
        >>> from types import SimpleNamespace
        >>> known = {"system_one": 0.45, "system_two": 0.7, "shrunk": 0.21, "minimum": 0.15}
        >>> gain_in_words("sums", "GAIN", SimpleNamespace(labels=23, **known))
        '+0.21 by 23 labels (0.45 to 0.70 right); pays from +0.15'
        >>> gain_in_words("sums", "ACTIVATION", SimpleNamespace(labels=12, **known))
        'not yet: 12 of 20 labels'
        >>> gain_in_words("", "GAIN", None)
        ''
    """
    if not kind or (gain is None and decided_by in ("", "NAMED")):
        return ""
    if gain is None or gain.labels < DECIDING_LABELS:
        return f"not yet: {0 if gain is None else gain.labels} of {DECIDING_LABELS} labels"
    return (
        f"{gain.shrunk:+.2f} by {gain.labels:,} labels ({gain.system_one:.2f} to {gain.system_two:.2f}"
        f" right); pays from {gain.minimum:+.2f}"
    )
