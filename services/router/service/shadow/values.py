"""These values are the request for the comparison of shadow policies, and the comparison; fields are the contract's."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kernel.statistics.paired import Comparison
from kernel.values import value
from services.router.service.calibration.values import LabelledShare


@value
class GetShadowRequest:
    """This request asks how shadow policies compare with what was served."""

    since: datetime | None = None
    until: datetime | None = None


@value
class ShareOfRuns:
    """This share of some runs has an interval."""

    runs: int
    count: int
    share: float | None = None
    low: float | None = None
    high: float | None = None


@value
class ShadowCost:
    """These are the costs of served runs and their shadows."""

    pairs: int
    served: float | None = None
    shadow: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@value
class ShadowTime:
    """These are the times of served runs and their shadows."""

    pairs: int
    served_ms: float | None = None
    shadow_ms: float | None = None
    difference_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None


@value
class ShadowLabels:
    """This value says how often served runs and their shadows were right, and whether that decides."""

    pairs: int
    served: LabelledShare
    shadow: LabelledShare
    labelled_disagreements: int
    difference: float | None
    low: float
    high: float
    p: float
    comparison: Comparison
    enough: bool
    labels_needed: int | None


@value
class ShadowComparison:
    """This comparison is of one shadow policy with what was served."""

    policy: str
    runs: int
    stopped: int
    answered: ShareOfRuns
    failed: int
    agreement: ShareOfRuns
    not_compared: Mapping[str, int]
    runs_by_strategy: Mapping[str, int]
    served_by_strategy: Mapping[str, int]
    cost: ShadowCost
    time: ShadowTime
    labels: ShadowLabels


@value
class GetShadowResponse:
    """This response holds the comparisons, those with most runs first."""

    comparisons: Sequence[ShadowComparison]


@value
class ShadowPair:
    """A pair is a shadow run with its served run.

    Attributes:
        policy: Version of the shadow policy.
        strategy: Strategy of the shadow run.
        answered: Whether it gave an answer.
        error_reason: Its error; empty: none.
        agrees: Whether it gave the served answer; None: unknown.
        not_compared: Why that is unknown; empty: it is known.
        cost: Its cost [currency of the prices]; None: unknown.
        duration_ms: Its time [ms].
        right: Whether its own label says that it is right; None: it has no label that counts.
        served_strategy: Strategy of the served run; empty: it was deleted.
        served_cost: Its cost [currency of the prices]; None: unknown.
        served_duration_ms: Its time [ms]; None: it was deleted.
        served_right: Whether its label says that it is right; None: it has no label that counts.
    """

    policy: str
    strategy: str
    answered: bool
    error_reason: str = ""
    agrees: bool | None = None
    not_compared: str = ""
    cost: float | None = None
    duration_ms: float = 0.0
    right: bool | None = None
    served_strategy: str = ""
    served_cost: float | None = None
    served_duration_ms: float | None = None
    served_right: bool | None = None
