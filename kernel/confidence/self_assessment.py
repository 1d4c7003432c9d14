"""These formulas give an agent's confidence in a task, and the threshold that the confidence has to reach.

Source: MetaCogAgent Eq. 2, Algorithm 1 line 3 (papers.md 3.2).
"""

from kernel.confidence.rules import (
    CONFIDENCE_THRESHOLD,
    DISAGREEMENT_GAIN,
    DISAGREEMENT_THRESHOLD,
    VERBALIZED_WEIGHT,
)
from kernel.thresholds import exceeds


def combined_confidence(verbalized: float | None, profile: float, *, weight: float = VERBALIZED_WEIGHT) -> float:
    """Return the confidence of an agent in a task.

    Args:
        verbalized: The confidence that the agent states, c^v [0..1]; None when unknown, which leaves the profile alone.
        profile: The competence of its record, c^p [0..1].
        weight: Weight of the verbalized confidence, lambda [0..1].

    Returns:
        c = lambda c^v + (1 - lambda) c^p [0..1].

    Source:
        MetaCogAgent Eq. 2 (papers.md 3.2); an unknown c^v leaves c = c^p.

    Example:
        >>> round(combined_confidence(0.45, 0.27), 12)
        0.378
    """
    if verbalized is None:
        return profile
    return weight * verbalized + (1.0 - weight) * profile


def disagreement(verbalized: float | None, profile: float) -> float | None:
    """Return the absolute difference of an agent's rating and its record, delta [0..1]; None when c^v is unknown.

    Args:
        verbalized: Rating of the agent, c^v [0..1]; None when it is unknown.
        profile: What its record says, c^p [0..1].

    Example:
        >>> round(disagreement(0.45, 0.27), 12)
        0.18
    """
    return None if verbalized is None else abs(verbalized - profile)


def effective_threshold(
    conflict: float | None,
    *,
    threshold: float = CONFIDENCE_THRESHOLD,
    conflict_threshold: float = DISAGREEMENT_THRESHOLD,
    gain: float = DISAGREEMENT_GAIN,
) -> float:
    """Return the confidence below which a task is handed on.

    Args:
        conflict: Disagreement, delta [0..1]; None when unknown.
        threshold: Confidence from which an agent may do a task, theta [0..1].
        conflict_threshold: Disagreement that is still ordinary, theta_delta [0..1].
        gain: Rise per disagreement, gamma [dimensionless, >= 0].

    Returns:
        theta' = theta + gamma delta where delta > theta_delta, else theta [>= 0, may exceed 1].

    Source:
        MetaCogAgent Algorithm 1, line 3 (papers.md 3.2); compared on values rounded to 1e-9, so that |0.8 - 0.5| does
        not exceed 0.3.

    Example:
        >>> effective_threshold(0.18), round(effective_threshold(0.4), 12), effective_threshold(abs(0.8 - 0.5))
        (0.5, 0.58, 0.5)
    """
    if conflict is None or not exceeds(conflict, conflict_threshold):
        return threshold
    return threshold + gain * conflict
