"""The five roles and the texts they write.

Source: SPEC 1.5. Four stages form the chain; the generalist stands outside it.
"""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """A place in the ensemble, in the order of SPEC 1.3."""

    EXPERT = "EXPERT"
    CRITIC = "CRITIC"
    EVALUATOR = "EVALUATOR"
    SYNTHESIZER = "SYNTHESIZER"
    GENERALIST = "GENERALIST"


class Stage(StrEnum):
    """A text of the dialectic."""

    THESIS = "THESIS"
    ANTITHESIS = "ANTITHESIS"
    RESOLUTION = "RESOLUTION"
    SYNTHESIS = "SYNTHESIS"
    NOTE = "NOTE"


ROLES = tuple(Role)
CHAIN = (Stage.THESIS, Stage.ANTITHESIS, Stage.RESOLUTION, Stage.SYNTHESIS)
AUTHOR: Mapping[Stage, Role] = dict(zip(Stage, Role, strict=True))
