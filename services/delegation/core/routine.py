"""The routine filter finds tasks that need no self-assessment.

Source: MetaCogAgent VI, the light pre-filter (papers.md 3.6); its limits are ours.
"""

from kernel.learning.profiles import ProfileEstimate
from kernel.thresholds import reaches
from kernel.values import value


@value
class Routine:
    """A task is routine from these limits on.

    Attributes:
        certainty: Least certainty of the dimension [0..1].
        competence: Least competence [0..1].
        observations: Least observations behind it [count].
    """

    certainty: float = 0.8
    competence: float = 0.8
    observations: int = 20


DEFAULT_ROUTINE = Routine()


def is_routine(estimate: ProfileEstimate, certainty: float, *, threshold: float, limits: Routine) -> bool:
    """Return whether an agent's profile is well known and high for a task whose dimension is certain.

    Args:
        estimate: The first agent's competence in the task's dimensions.
        certainty: Certainty of the task's dimensions, the least of them [0..1].
        threshold: Confidence from which an agent executes a task, theta [0..1]; the interval's lower end must reach it.
        limits: The limits of well known, high and certain.
    """
    return (
        reaches(certainty, limits.certainty)
        and estimate.observations >= limits.observations
        and reaches(estimate.profile, limits.competence)
        and reaches(estimate.low, threshold)
    )
