"""What a model is asked when it rates itself or a text, and what its rating means.

Source: SPEC 1.1. One compact JSON object of seven integers, so that a rating fits into 64 generated tokens. The
polarity of every field is fixed by the prompt and here, never left to the model.
"""

from collections.abc import Mapping
from typing import Any

from kernel.msv import CORRECTNESS_PARTS, IMPORTANCE_PARTS, MSV, MSVKind, component_from_parts

SCALE = 100

# Short keys, because every token of a rating is waited for. `x` is high when signals disagree.
FIELDS: Mapping[str, str] = {
    "l": "logical_consistency",
    "f": "factual_accuracy",
    "c": "contextual_fit",
    "x": "internal_inconsistency",
    "k": "consequence",
    "u": "urgency",
    "s": "scope",
}

RATING_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {key: {"type": "integer", "minimum": 0, "maximum": SCALE} for key in FIELDS},
    "required": list(FIELDS),
    "additionalProperties": False,
}

RATING_MAX_TOKENS = 64


def rated_msv(rating: Mapping[str, float], *, kind: MSVKind, emotional: Mapping[str, float] | None = None) -> MSV:
    """State that a rating expresses, with experience unknown.

    Args:
        rating: Integers 0..100 by the keys of `FIELDS`; a missing key is an unknown part.
        kind: Whether a text existed when it was rated.
        emotional: Affect measurements of the text, `intensity` among them [0..1]; None when not measured.

    Returns:
        CE as the mean of its known parts, CI as rated, PI as the mean of its known parts.

    Example:
        >>> rated_msv({"l": 90, "f": 80, "c": 70, "x": 10, "k": 30}, kind=MSVKind.PROSPECTIVE).correctness
        0.8
    """
    parts = {name: rating[key] / SCALE for key, name in FIELDS.items() if key in rating}
    values = {
        "emotional_response": (emotional or {}).get("intensity"),
        "correctness": component_from_parts(parts, CORRECTNESS_PARTS),
        "conflict": parts.get("internal_inconsistency"),
        "importance": component_from_parts(parts, IMPORTANCE_PARTS),
    }
    reasons = {"experience": "not measured by a rating"}
    reasons |= {name: "the rating left it out" for name in values if values[name] is None and name[0] != "e"}
    if values["emotional_response"] is None:
        reasons["emotional_response"] = "not measured"
    emotions = {name: level for name, level in (emotional or {}).items() if name != "intensity"}
    return MSV(kind=kind, unknown_reasons=reasons, parts={**parts, **emotions}, **values)


def unrated_msv(reason: str, *, kind: MSVKind, emotional: Mapping[str, float] | None = None) -> MSV:
    """State in which nothing could be rated, for `reason`; affect may still be known."""
    measured = rated_msv({}, kind=kind, emotional=emotional)
    reasons = {name: reason if name != "experience" else "not measured by a rating" for name in measured.unknown}
    return MSV(emotional_response=measured.emotional_response, kind=kind, unknown_reasons=reasons, parts=measured.parts)
