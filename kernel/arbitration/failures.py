"""This module recognises overconfident errors, and the regimes in which arbitration fails.

Source: MC-MAS sections 4 and 5.2 (papers.md 2.2).
"""

from kernel.arbitration.modes import Regime
from kernel.thresholds import exceeds
from kernel.values import value


@value
class FailureEvidence:
    """The label of a failure regime rests on this evidence; None is unknown.

    Attributes:
        entropy_solver: Entropy of the solvers' answers [nats, >= 0].
        entropy_arbiter: Entropy of the arbiter's [nats, >= 0].
        solver_correct: Whether the solvers' most frequent answer is right.
        correct: Whether the final answer is right.
        critique_novelty: Share of the critiques' claims that are novel [0..1].
    """

    entropy_solver: float | None
    entropy_arbiter: float | None = None
    solver_correct: bool | None = None
    correct: bool | None = None
    critique_novelty: float | None = None


def is_overconfident_error(correct: bool | None, probability: float | None, above: float) -> bool | None:
    """Return whether an answer is wrong and its predicted probability above the threshold; None where that is unknown.

    Args:
        correct: Whether the answer is right; None where it has no label.
        probability: Predicted probability of the answer [0..1]; None where it has none.
        above: Probability above which an error is overconfident [0..1].

    Example:
        >>> is_overconfident_error(False, 0.8, 0.7), is_overconfident_error(False, 0.7, 0.7)
        (True, False)
    """
    if correct is None or probability is None:
        return None
    return not correct and exceeds(probability, above)


def failure_regimes(seen: FailureEvidence) -> tuple[Regime, ...]:
    """Return the labels that apply, in the order of the contract.

    High agreement: the solvers' entropy is 0. Shared bias: it is, and their answer is wrong. Reflection noise: the
    critiques hold novel claims, the solvers' vote was right and the final answer is not. Unstable arbiter: its entropy
    is above the solvers'.

    Example:
        >>> [str(regime) for regime in failure_regimes(FailureEvidence(entropy_solver=0.0, solver_correct=False))]
        ['HIGH_AGREEMENT', 'SHARED_BIAS']
    """
    solver, arbiter = seen.entropy_solver, seen.entropy_arbiter
    agrees = solver is not None and not exceeds(solver, 0.0)
    worse = seen.solver_correct is True and seen.correct is False
    applies = {
        Regime.HIGH_AGREEMENT: agrees,
        Regime.SHARED_BIAS: agrees and seen.solver_correct is False,
        Regime.REFLECTION_NOISE: worse and exceeds(seen.critique_novelty or 0.0, 0.0),
        Regime.UNSTABLE_ARBITER: solver is not None and arbiter is not None and exceeds(arbiter, solver),
    }
    return tuple(regime for regime, holds in applies.items() if holds)
