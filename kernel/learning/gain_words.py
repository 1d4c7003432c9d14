"""What labels say of System 2 on a kind of question, and which rule decided, in words for a reader."""

from collections.abc import Mapping
from typing import Any

# Questions labelled for both systems from which the gain of a kind decides [count].
DECIDING_LABELS = 20

_RULES: Mapping[str, str] = {
    "NAMED": "the strategy was fixed before",
    "STATE": "the activation of a given state, or by the papers' setting",
    "GAIN": "what System 2 gains on questions of this kind",
    "ACTIVATION": "the activation",
    "POLICY": "the policy table",
}


def rule_in_words(decided_by: str | None) -> str:
    """Return which rule decided between the systems; empty where none is recorded.

    Example:
        >>> rule_in_words("GAIN"), rule_in_words(None)
        ('what System 2 gains on questions of this kind', '')
    """
    return _RULES.get(decided_by or "", "")


def kind_in_words(route: Mapping[str, Any]) -> str:
    """Return the kind of the question, or why it is unknown; empty where none was looked for.

    Example:
        >>> kind_in_words({"kind": "math_computation"}), kind_in_words({"kind_unknown_reason": "NO_ENCODER: none"})
        ('math computation', 'unknown (NO_ENCODER: none)')
    """
    if route.get("kind"):
        return str(route["kind"]).replace("_", " ")
    reason = route.get("kind_unknown_reason")
    return f"unknown ({reason})" if reason else ""


def gain_in_words(route: Mapping[str, Any]) -> str:
    """Return the gain of System 2 on the kind of the question, with its labels; empty where no kind is known.

    Args:
        route: A decision of the router, as its contract has it.

    Example:
        >>> gain = {"labels": 23, "system_one": 0.45, "system_two": 0.7, "gain": 0.25, "shrunk": 0.21, "minimum": 0.15}
        >>> gain_in_words({"kind": "sums", "decided_by": "GAIN", "gain": gain})
        '+0.21 by 23 labels (0.45 to 0.70 right); pays from +0.15'
        >>> gain_in_words({"kind": "sums", "decided_by": "ACTIVATION", "gain": {**gain, "labels": 12}})
        'not yet: 12 of 20 labels'
        >>> gain_in_words({"kind": "", "gain": None})
        ''
    """
    gain = route.get("gain")
    if not route.get("kind") or (gain is None and route.get("decided_by") in (None, "NAMED")):
        return ""
    if gain is None or gain["labels"] < DECIDING_LABELS:
        return f"not yet: {0 if gain is None else gain['labels']} of {DECIDING_LABELS} labels"
    return (
        f"{gain['shrunk']:+.2f} by {gain['labels']:,} labels ({gain['system_one']:.2f} to {gain['system_two']:.2f}"
        f" right); pays from {gain['minimum']:+.2f}"
    )
