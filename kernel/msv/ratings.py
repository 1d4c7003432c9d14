"""A rating is the structured reply in which a model rates itself or a text; this module has its schema and its meaning.

Source: ours (papers.md 1.1). One compact list of seven integers in a fixed order: spelled with names it would not fit
into 64 generated tokens on tokenizers that split numbers into digits. The polarity of every number is fixed by the
prompt and here, never left to the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.msv import CORRECTNESS_PARTS, IMPORTANCE_PARTS, MSV, MSVKind, component_from_parts
from kernel.msv.signals import EQUAL, InvalidPartWeights, PartWeights

SCALE = 100

# The order in which a rating lists its numbers. Internal inconsistency is high when signals disagree.
ORDER = (
    "logical_consistency",
    "factual_accuracy",
    "contextual_fit",
    "internal_inconsistency",
    "consequence",
    "urgency",
    "scope",
)

RATING_MAX_TOKENS = 64


def rating_schema(order: Sequence[str] = ORDER) -> Mapping[str, Any]:
    """Return the JSON schema of a rating that lists the numbers of `order`."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": SCALE},
        "minItems": len(order),
        "maxItems": len(order),
    }
    return {"type": "object", "properties": {"r": numbers}, "required": ["r"], "additionalProperties": False}


RATING_SCHEMA = rating_schema()


class CountsPlaces(ValueError):
    """The list counts its places (1, 2, 3, ...) in the order of the questions; asked in another order it may rate."""


def counts_places(numbers: Sequence[float]) -> bool:
    """Return whether a list counts its places, from 0 or from 1: small models fill a list that way.

    Args:
        numbers: A rating [0..100].

    Example:
        >>> counts_places([1, 2, 3]), counts_places([0, 1, 2]), counts_places([3, 2, 1]), counts_places([1])
        (True, True, False, False)
    """
    places = range(len(numbers))
    return len(numbers) > 1 and list(numbers) in ([*places], [place + 1 for place in places])


def other_order(order: Sequence[str] = ORDER) -> tuple[str, ...]:
    """Return another order of the questions, in which a rating that counted its places is asked for again.

    The questions about the answer stay before those about the request, and each part is reversed. So a model that
    means its numbers gives the same ones to the same questions, and no longer counts its places: it has rated. One that
    counts again has not.

    Example:
        >>> other_order(("urgency", "scope")), other_order()[:2]
        (('scope', 'urgency'), ('internal_inconsistency', 'contextual_fit'))
    """
    of_request = [name for name in order if name in IMPORTANCE_PARTS]
    of_answer = [name for name in order if name not in IMPORTANCE_PARTS]
    return (*reversed(of_answer), *reversed(of_request))


def places_of(asked: Sequence[str], order: Sequence[str] = ORDER) -> tuple[int, ...]:
    """Return the places that the questions `asked` have in `order`, in which a prompt lists them.

    Returns:
        Place of each question in `order` [0..len(order) - 1].

    Example:
        >>> places_of(("scope", "urgency"), ("urgency", "scope"))
        (1, 0)
    """
    return tuple(list(order).index(name) for name in asked)


def read_numbers(document: object, order: Sequence[str] = ORDER) -> dict[str, float]:
    """Return the numbers of a list by name [0..100], whatever they are; the document follows `rating_schema(order)`.

    Raises:
        ValueError: For a document that does not.
    """
    numbers = document.get("r") if isinstance(document, dict) else None
    if not isinstance(numbers, list) or len(numbers) != len(order) or not all(map(_is_rating_number, numbers)):
        raise ValueError(f"a rating lists {len(order)} whole numbers from 0 to {SCALE}")
    return {name: float(number) for name, number in zip(order, numbers, strict=True)}


def read_rating(document: object, order: Sequence[str] = ORDER) -> dict[str, float]:
    """Return the numbers of a rating by name [0..100], from a document that follows `rating_schema(order)`.

    Raises:
        CountsPlaces: For a list that counts its places.
        ValueError: For a document that does not follow the schema.

    Example:
        >>> read_rating({"r": [90, 80, 70, 10, 30, 20, 5]})["internal_inconsistency"]
        10.0
    """
    rating = read_numbers(document, order)
    numbers = list(rating.values())
    if counts_places(numbers):
        raise CountsPlaces(f"the rating counts its places ({numbers[0]:g} to {numbers[-1]:g}) instead of rating")
    return rating


def _is_rating_number(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return 0 <= number <= SCALE and number == int(number)


def rated_msv(
    rating: Mapping[str, float],
    *,
    kind: MSVKind,
    emotional: Mapping[str, float] | None = None,
    weights: PartWeights = EQUAL,
) -> MSV:
    """Return the state that a rating expresses, with experience unknown.

    Args:
        rating: Numbers by the names of `ORDER` [0..100]; a missing one is an unknown part.
        kind: Whether a text existed when it was rated.
        emotional: Affect measurements of the text, `intensity` among them [0..1]; None when not measured.
        weights: What each part counts in its component.

    Returns:
        CE as the weighted mean of its known parts, CI as rated, PI as the weighted mean of its known parts.

    Example:
        >>> rated_msv(read_rating({"r": [90, 80, 70, 10, 30, 20, 10]}), kind=MSVKind.PROSPECTIVE).correctness
        0.8
    """
    parts = {name: rating[name] / SCALE for name in ORDER if name in rating}
    values = {
        "emotional_response": (emotional or {}).get("intensity"),
        "correctness": component_from_parts(parts, CORRECTNESS_PARTS, weights),
        "conflict": parts.get("internal_inconsistency"),
        "importance": component_from_parts(parts, IMPORTANCE_PARTS, weights),
    }
    reasons = {"experience": "not measured by a rating"}
    reasons |= {name: "the rating left it out" for name in values if values[name] is None and name[0] != "e"}
    if values["emotional_response"] is None:
        reasons["emotional_response"] = "not measured"
    emotions = {name: level for name, level in (emotional or {}).items() if name != "intensity"}
    return MSV(kind=kind, unknown_reasons=reasons, parts={**parts, **emotions}, **values)


def rating_weights(by_part: Mapping[str, float]) -> PartWeights:
    """Return the weights of the parts of a rating inside their components.

    Args:
        by_part: Weights by part of CE and PI [>= 0]; parts that are not named have 1.

    Raises:
        InvalidPartWeights: For a name that is no such part, and a weight that is negative or no number.

    Example:
        >>> weights = rating_weights({"scope": 2})
        >>> rated_msv({"urgency": 80, "scope": 20}, kind=MSVKind.PROSPECTIVE, weights=weights).importance
        0.4
    """
    known = (*CORRECTNESS_PARTS, *IMPORTANCE_PARTS)
    for part in by_part:
        if part not in known:
            raise InvalidPartWeights(f"a rating has no part {part!r}; it has {', '.join(known)}", part=part)
    return PartWeights(by_part=by_part)


def unrated_msv(reason: str, *, kind: MSVKind, emotional: Mapping[str, float] | None = None) -> MSV:
    """Return a state in which no rating was possible, for `reason`; affect may still be known.

    Args:
        reason: Why no rating was possible.
        kind: Whether a text existed when it was to be rated.
        emotional: Affect measurements of the text, `intensity` among them [0..1]; None when not measured.
    """
    measured = rated_msv({}, kind=kind, emotional=emotional)
    reasons = {name: reason if name != "experience" else "not measured by a rating" for name in measured.unknown}
    return MSV(emotional_response=measured.emotional_response, kind=kind, unknown_reasons=reasons, parts=measured.parts)
