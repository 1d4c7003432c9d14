"""The five roles, what their fitness is made of, and its weights.

Source: SPEC 1.3. The paper gives the form; the default weights are ours.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from kernel.errors import Code, MetacogError
from kernel.values import value


class Role(StrEnum):
    """A place in the ensemble, in the order of SPEC 1.3."""

    EXPERT = "EXPERT"
    CRITIC = "CRITIC"
    EVALUATOR = "EVALUATOR"
    SYNTHESIZER = "SYNTHESIZER"
    GENERALIST = "GENERALIST"


ROLES = tuple(Role)
TERMS = ("correctness", "incorrectness", "experience", "conflict", "importance", "emotional_response")

RoleWeights = Mapping[Role, Mapping[str, float]]

DEFAULT_WEIGHTS: RoleWeights = {
    Role.EXPERT: {"correctness": 0.6, "experience": 0.4},
    Role.CRITIC: {"conflict": 0.6, "incorrectness": 0.4},
    Role.EVALUATOR: {"correctness": 0.4, "conflict": 0.3, "experience": 0.3},
    Role.SYNTHESIZER: {"experience": 0.6, "correctness": 0.4},
    Role.GENERALIST: {"importance": 0.4, "conflict": 0.3, "emotional_response": 0.3},
}
# What the default weights are called where their name is recorded.
DEFAULT_VERSION = "default"
SUM_TOLERANCE = 1e-9


class InvalidWeights(MetacogError):
    """Weights of a role are negative, do not sum to 1, or name no component."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_WEIGHTS"


@value
class VersionedWeights:
    """Weights of all roles, and the name that is recorded with what rests on them."""

    version: str = DEFAULT_VERSION
    weights: RoleWeights = field(default_factory=lambda: DEFAULT_WEIGHTS)


def checked_weights(asked: Mapping[Role, Mapping[str, float]], otherwise: RoleWeights = DEFAULT_WEIGHTS) -> RoleWeights:
    """`asked`, and those of `otherwise` for the roles that it leaves out.

    Raises:
        InvalidWeights: For a negative weight, a sum other than 1, or a name that is no component.
    """
    for role, weights in asked.items():
        wrong = [name for name in weights if name not in TERMS]
        if wrong:
            said = f"weights of {role} name {wrong[0]!r}; components are {', '.join(TERMS)}"
            raise InvalidWeights(said, role=role, component=wrong[0])
        if any(not weight >= 0 for weight in weights.values()) or abs(sum(weights.values()) - 1) > SUM_TOLERANCE:
            said = f"weights of {role} must be >= 0 and sum to 1; they sum to {sum(weights.values()):g}"
            raise InvalidWeights(said, role=role)
    return {role: dict(asked.get(role) or otherwise[role]) for role in ROLES}
