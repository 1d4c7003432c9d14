"""The texts that the five roles write.

Source: SPEC 1.5. Four stages form the chain; the generalist stands outside it.
"""

from collections.abc import Mapping
from enum import StrEnum

from kernel.roles import Role


class Stage(StrEnum):
    """A text of the dialectic."""

    THESIS = "THESIS"
    ANTITHESIS = "ANTITHESIS"
    RESOLUTION = "RESOLUTION"
    SYNTHESIS = "SYNTHESIS"
    NOTE = "NOTE"


CHAIN = (Stage.THESIS, Stage.ANTITHESIS, Stage.RESOLUTION, Stage.SYNTHESIS)
AUTHOR: Mapping[Stage, Role] = dict(zip(Stage, Role, strict=True))
