"""When a task is so ordinary that nobody needs to be asked.

Source: SPEC 3.6, the cheap pre-filter; its limits are ours.
"""

from kernel.learning.profiles import ProfileEstimate
from kernel.thresholds import reaches
from kernel.values import value


@value
class Routine:
    """When a task is routine.

    Attributes:
        certainty: Least certainty of the dimension [0..1].
        competence: Least competence [0..1].
        observations: Least observations behind it [count].
    """

    certainty: float = 0.8
    competence: float = 0.8
    observations: int = 20


def is_routine(record: ProfileEstimate, certainty: float, *, threshold: float, limits: Routine) -> bool:
    """Whether an agent's profile is well known and high for a task whose dimension is certain.

    Args:
        record: What the first agent's record says about the task.
        certainty: Certainty of the task's dimensions, the least of them [0..1].
        threshold: Confidence from which an agent may do a task, theta [0..1]; the interval's lower end must reach it.
        limits: What well known, high and certain mean.
    """
    return (
        reaches(certainty, limits.certainty)
        and record.observations >= limits.observations
        and reaches(record.profile, limits.competence)
        and reaches(record.low, threshold)
    )
