"""The words of arbitration; values are the contract's."""

from enum import StrEnum


class Mode(StrEnum):
    """How many samples are drawn (SPEC 2.4)."""

    PAPER = "PAPER"
    ADAPTIVE = "ADAPTIVE"


class Variant(StrEnum):
    """Which stages run; all but FULL exist as ablations and controls."""

    FULL = "FULL"
    MAJORITY_VOTE = "MAJORITY_VOTE"
    REFLECTIONS = "REFLECTIONS"
    SINGLE_ARBITER = "SINGLE_ARBITER"
    SELF_CONSISTENCY = "SELF_CONSISTENCY"

    @property
    def criticises(self) -> bool:
        """Whether critiques are written."""
        return self in (Variant.FULL, Variant.REFLECTIONS, Variant.SINGLE_ARBITER)

    @property
    def arbitrates(self) -> bool:
        """Whether an arbiter answers; else the solvers' vote is the answer."""
        return self in (Variant.FULL, Variant.SINGLE_ARBITER)


class Phase(StrEnum):
    """A stage that draws samples."""

    SOLVE = "SOLVE"
    ARBITRATE = "ARBITRATE"


class AnswerSource(StrEnum):
    """Which distribution gave the answer, and so its confidence."""

    ARBITER = "ARBITER"
    CONSENSUS = "CONSENSUS"
    SOLVER_VOTE = "SOLVER_VOTE"
    SOLVER_FALLBACK = "SOLVER_FALLBACK"


class Stopping(StrEnum):
    """Why no further sample was drawn."""

    ALL_SAMPLES = "ALL_SAMPLES"
    SOLVERS_AGREE = "SOLVERS_AGREE"
    LEADER_UNCATCHABLE = "LEADER_UNCATCHABLE"
    LEADER_LIKELY = "LEADER_LIKELY"
    BUDGET = "BUDGET"
    FAILURE = "FAILURE"


class Regime(StrEnum):
    """A case in which arbitration helps little, or harms (SPEC 2.2)."""

    HIGH_AGREEMENT = "HIGH_AGREEMENT"
    SHARED_BIAS = "SHARED_BIAS"
    REFLECTION_NOISE = "REFLECTION_NOISE"
    UNSTABLE_ARBITER = "UNSTABLE_ARBITER"
