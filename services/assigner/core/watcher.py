"""When the generalist speaks.

Source: SPEC 1.5: it annotates the final answer when cross-domain concerns arise; by default when the query is
important (PI >= 0.7) and not familiar (EM <= 0.4). Unknown experience counts as low, and the note says so.
"""

from kernel.msv import MSV
from kernel.thresholds import exceeds, reaches
from kernel.values import value

IMPORTANT = 0.7
FAMILIAR = 0.4


@value
class Concern:
    """Whether the final answer is to be annotated, and why or why not."""

    raised: bool
    because: str


def cross_domain_concern(msv: MSV, *, important: float = IMPORTANT, familiar: float = FAMILIAR) -> Concern:
    """Whether the query's state calls for the generalist's note.

    Example:
        >>> cross_domain_concern(MSV(importance=0.7)).because
        'importance 0.70 reaches 0.70 and experience is unknown, which counts as low'
    """
    if msv.importance is None:
        return Concern(raised=False, because="importance is unknown")
    if not reaches(msv.importance, important):
        return Concern(raised=False, because=f"importance {msv.importance:.2f} is below {important:.2f}")
    because = f"importance {msv.importance:.2f} reaches {important:.2f} and experience "
    if msv.experience is None:
        return Concern(raised=True, because=because + "is unknown, which counts as low")
    if exceeds(msv.experience, familiar):
        return Concern(raised=False, because=f"experience {msv.experience:.2f} is above {familiar:.2f}")
    return Concern(raised=True, because=because + f"{msv.experience:.2f} is at most {familiar:.2f}")
