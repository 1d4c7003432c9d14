"""These enumerations are the vocabulary of arbitration; their values are the contract's."""

from enum import StrEnum


class Mode(StrEnum):
    """A mode decides how many samples are drawn (papers.md 2.4)."""

    PAPER = "PAPER"
    ADAPTIVE = "ADAPTIVE"


class Variant(StrEnum):
    """A variant names the stages that run; all but FULL exist as ablations and controls."""

    FULL = "FULL"
    MAJORITY_VOTE = "MAJORITY_VOTE"
    REFLECTIONS = "REFLECTIONS"
    SINGLE_ARBITER = "SINGLE_ARBITER"
    SELF_CONSISTENCY = "SELF_CONSISTENCY"

    @property
    def has_critiques(self) -> bool:
        """Return whether critiques are written."""
        return self in (Variant.FULL, Variant.REFLECTIONS, Variant.SINGLE_ARBITER)

    @property
    def has_arbiter(self) -> bool:
        """Return whether an arbiter answers; else the solvers' vote is the answer."""
        return self in (Variant.FULL, Variant.SINGLE_ARBITER)


class SolvingStop(StrEnum):
    """This rule decides when adaptive mode ends the solving (papers.md 2.4, 5.1)."""

    AGREE = "AGREE"
    NONE = "NONE"


class Phase(StrEnum):
    """A phase is a stage that draws samples."""

    SOLVE = "SOLVE"
    ARBITRATE = "ARBITRATE"


class AnswerSource(StrEnum):
    """This is the distribution that gave the answer, and so its confidence."""

    ARBITER = "ARBITER"
    CONSENSUS = "CONSENSUS"
    SOLVER_VOTE = "SOLVER_VOTE"
    SOLVER_FALLBACK = "SOLVER_FALLBACK"


class Stopping(StrEnum):
    """This is the reason why no further sample was drawn."""

    ALL_SAMPLES = "ALL_SAMPLES"
    SOLVERS_AGREE = "SOLVERS_AGREE"
    LEADER_UNCATCHABLE = "LEADER_UNCATCHABLE"
    LEADER_LIKELY = "LEADER_LIKELY"
    BUDGET = "BUDGET"
    FAILURE = "FAILURE"


class Regime(StrEnum):
    """A failure regime is a case in which arbitration helps little, or harms (papers.md 2.2)."""

    HIGH_AGREEMENT = "HIGH_AGREEMENT"
    SHARED_BIAS = "SHARED_BIAS"
    REFLECTION_NOISE = "REFLECTION_NOISE"
    UNSTABLE_ARBITER = "UNSTABLE_ARBITER"
