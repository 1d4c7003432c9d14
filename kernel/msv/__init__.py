"""The metacognitive state vector describes one agent looking at one question, or at one text so far.

Source: MSV, state vector (papers.md 1.1). Unknown is a value of its own, never zero.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from kernel.errors import Code, MetacogError
from kernel.msv.signals import EQUAL, PartWeights, mean_of
from kernel.values import value

# The abbreviation of each component, in the order in which components are listed.
ABBREVIATIONS: Mapping[str, str] = {
    "emotional_response": "ER",
    "correctness": "CE",
    "experience": "EM",
    "conflict": "CI",
    "importance": "PI",
}
COMPONENTS = tuple(ABBREVIATIONS)

CORRECTNESS_PARTS = ("logical_consistency", "factual_accuracy", "contextual_fit")
CONFLICT_PARTS = ("internal_inconsistency", "source_disagreement", "instability")
IMPORTANCE_PARTS = ("consequence", "urgency", "scope")
# Parts that may be unknown with a reason of their own.
NAMED_PARTS = (*CORRECTNESS_PARTS, *CONFLICT_PARTS, *IMPORTANCE_PARTS)


class MSVOutOfRange(MetacogError, ValueError):
    """An MSV component lies outside [0, 1]; a `ValueError`, so that a checker of types says where the state stands."""

    code = Code.INVALID_ARGUMENT
    reason = "MSV_OUT_OF_RANGE"


class MSVKind(StrEnum):
    """The kind is when correctness and conflict were judged: before an answer exists, or on a text that does."""

    PROSPECTIVE = "PROSPECTIVE"
    RETROSPECTIVE = "RETROSPECTIVE"


@value
class MSV:
    """A metacognitive state has five dimensionless components, each in [0, 1] or None where it is unknown.

    Attributes:
        emotional_response: ER, intensity of affect in the text [0..1]; 1 is the strongest.
        correctness: CE, belief that the answer is (or would be) right [0..1]; high is good.
        experience: EM, similarity to what is already known [0..1]; high is good.
        conflict: CI, disagreement between signals [0..1]; high asks for deliberation.
        importance: PI, what hangs on the request [0..1]; high asks for deliberation.
        kind: Whether correctness and conflict are prospective or retrospective.
        unknown_reasons: Why a component, or a part of `NAMED_PARTS`, is unknown, by its name.
        parts: Finer measurements, by name, e.g. `consequence` of importance [0..1].

    Raises:
        MSVOutOfRange: On construction, for a component or part outside [0, 1] or NaN, or for a reason that
            names neither a component nor such a part.
    """

    emotional_response: float | None = None
    correctness: float | None = None
    experience: float | None = None
    conflict: float | None = None
    importance: float | None = None
    kind: MSVKind = MSVKind.PROSPECTIVE
    unknown_reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, number in (*((c, getattr(self, c)) for c in COMPONENTS), *self.parts.items()):
            if number is not None and not 0.0 <= number <= 1.0:
                raise MSVOutOfRange(f"{name} is {number}; it must lie in [0, 1]", component=name, value=str(number))
        for name in self.unknown_reasons:
            if name not in COMPONENTS and name not in NAMED_PARTS:
                raise MSVOutOfRange(
                    f"unknown_reasons names {name!r}, which is no component; components are {', '.join(COMPONENTS)}",
                    component=name,
                )

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the names of the components that could not be measured, in the order of `COMPONENTS`."""
        return tuple(name for name in COMPONENTS if getattr(self, name) is None)


def component_from_parts(
    parts: Mapping[str, float | None], names: tuple[str, ...], weights: PartWeights = EQUAL
) -> float | None:
    """Return a component as the weighted mean of its known parts [0..1]; None when none with a weight is known.

    Args:
        parts: Levels by part [0..1]; None where one is unknown.
        names: The parts of the component.
        weights: What each part counts.

    Source: MSV, state vector (papers.md 1.1); equal weights and the mean over the known ones are ours.

    Example:
        >>> component_from_parts({"consequence": 0.8, "urgency": 0.4, "scope": None}, IMPORTANCE_PARTS)
        0.6
    """
    return mean_of({name: parts.get(name) for name in names}, weights)
