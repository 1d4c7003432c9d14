"""Prospective measures say what is known of a question before it is answered, without a model call.

CE is the share of System 1 answers that are right on questions of this kind. A single answer has nothing to disagree
with, so that CI is unknown. PI may be a policy of the operator.
"""

from collections.abc import Callable

from inference import Spend
from kernel.learning.kind_shares import KindShares
from kernel.msv.basis import IMPORTANCE_BY_POLICY, KIND_SHARE, OVERALL_SHARE, PRIOR_SHARE
from services.router.service.assessment.measures import MeasureResult
from services.router.service.assessment.subject import Subject

NOTHING_TO_DISAGREE_WITH = "one answer alone has nothing to disagree with"


class KindShareMeasure:
    """This measure finds CE: the share of System 1 answers that are right on questions of this kind.

    Args:
        shares: Returns the shares in force.
    """

    def __init__(self, shares: Callable[[], KindShares]) -> None:
        self._shares = shares

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return the share, with what it rests on as its part; CI is unknown before there are several answers."""
        shares = self._shares()
        share = shares.share(subject.kind)
        parts = {OVERALL_SHARE if shares.labels("") else PRIOR_SHARE: shares.overall_share}
        if subject.kind and shares.labels(subject.kind):
            parts[KIND_SHARE] = share
        return MeasureResult(
            components={"correctness": share}, reasons={"conflict": NOTHING_TO_DISAGREE_WITH}, parts=parts
        )


class PolicyImportanceMeasure:
    """This measure gives PI as the operator fixed it.

    Args:
        importance: The fixed importance [0..1].
    """

    def __init__(self, importance: float) -> None:
        self._importance = importance

    async def __call__(self, subject: Subject, spend: Spend) -> MeasureResult:
        """Return the fixed importance, with a part that names it as a policy."""
        return MeasureResult(
            components={"importance": self._importance}, parts={IMPORTANCE_BY_POLICY: self._importance}
        )
