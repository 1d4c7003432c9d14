"""These values are the requests and results of calibration and of the activations seen; fields are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from kernel.activation import Route
from kernel.statistics.recalibration import Method, Point
from kernel.statistics.reliability import Reliability
from kernel.statistics.samples import Array
from kernel.values import value
from kernel.votes.promise import LEAST_ERROR, MOST_ERROR

# Newest labelled answers that figures and maps are made of [count].
MOST_OBSERVATIONS = 100_000
MOST_EARLIER_MAPS = 20

Bins = Annotated[int, Field(ge=1, le=100)]


@value
class CalibrationMap:
    """A recalibration map is fitted to the labelled answers of one strategy and source."""

    version: str
    strategy: str
    confidence_source: str
    method: Method
    points: Sequence[Point]
    observations: int
    brier_score_before: float
    brier_score_after: float
    fitted_at: datetime
    in_force: bool = False


@value
class StrategyReliability:
    """This report says how reliable the confidence of one strategy from one source is."""

    strategy: str
    confidence_source: str
    observations: int
    chance_calibration_error: float | None
    raw: Reliability
    served: Reliability
    map: CalibrationMap | None
    pinned: bool
    earlier_maps: Sequence[CalibrationMap]


@value
class GetCalibrationRequest:
    """This request asks for a page of calibration."""

    page_size: Annotated[int, Field(ge=1, le=200)] = 50
    page_token: str = ""
    strategy: str = ""
    confidence_source: str = ""
    since: datetime | None = None
    until: datetime | None = None
    bins: Bins = 10


@value
class GetCalibrationResponse:
    """This response is a page of calibration."""

    reliabilities: Sequence[StrategyReliability]
    next_page_token: str
    minimum_observations: int


@value
class RollbackCalibrationRequest:
    """This request puts another map in force; it has one of `version`, `none: true` and `newest: true`."""

    strategy: Annotated[str, Field(min_length=1, max_length=16)]
    confidence_source: Annotated[str, Field(min_length=1, max_length=64)]
    version: str | None = None
    none: bool | None = None
    newest: bool | None = None


@value
class RollbackCalibrationResponse:
    """This response holds the map that is in force now."""

    map: CalibrationMap | None
    pinned: bool
    previous_version: str


@value
class GetActivationsRequest:
    """This request asks for the activations seen."""

    since: datetime | None = None
    until: datetime | None = None
    config_version: str = ""
    assessor: str = ""
    bins: Bins = 20


@value
class ActivationBin:
    """A bin counts the activations of one range."""

    lower: float
    upper: float
    runs: int
    system_two: int


@value
class ActivationsSeen:
    """This summary describes the activations of some runs."""

    runs: int
    system_two: int
    system_two_share: float | None
    runs_by_reason: Mapping[str, int]
    bins: Sequence[ActivationBin]
    mean: float | None
    quantiles: Mapping[str, float]
    judged: int
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None


@value
class GetActivationsResponse(ActivationsSeen):
    """This response holds the activations seen, and the rule that they were compared by."""

    threshold: float
    config_version: str
    undetermined: Route


@value
class GetCascadesRequest:
    """This request asks how often votes were escalated."""

    since: datetime | None = None
    until: datetime | None = None


@value
class LabelledShare:
    """These answers have a label, and a share of them was right."""

    labelled: int
    right: int
    share: float | None = None
    low: float | None = None
    high: float | None = None


@value
class Cascade:
    """This summary describes votes with one stronger model behind them."""

    model: str
    runs: int
    escalated: int
    escalated_share: float
    failed: int
    runs_by_reason: Mapping[str, int]
    priced: int
    cost: float | None
    always_cost: float | None
    of_votes: LabelledShare
    of_model: LabelledShare


@value
class GetCascadesResponse:
    """This response holds the cascades, those with most runs first."""

    cascades: Sequence[Cascade]


@value
class GetPromisesRequest:
    """This request asks what can be promised."""

    error_at_most: Annotated[float, Field(ge=LEAST_ERROR, le=MOST_ERROR)] | None = None
    version: Annotated[str, Field(max_length=64)] = ""
    stronger: Annotated[str, Field(max_length=256)] = ""


@value
class TestedLevel:
    """This value is what labels say about a level of agreement and all stricter ones together."""

    agreeing: int
    against: int
    labels: int
    errors: int
    bound: float
    proved: bool | None


@value
class ProjectedShare:
    """This value is the share of answers that more labels would let through."""

    labels: int
    kept_share: float | None


@value
class StageLevels:
    """These are the levels of one stage."""

    labels: int
    looked_at: int
    error_probability: float | None
    next_look: int | None
    kept_share: float | None
    tests: Sequence[TestedLevel]
    projection: Sequence[ProjectedShare]


@value
class KindPromise:
    """This value says which levels keep a promise on a kind of question."""

    kind: str
    first: StageLevels
    went_on: StageLevels
    escalated: StageLevels


@value
class PromisePoint:
    """This point is what another promise would keep."""

    error_at_most: float
    kept_share: float | None


@value
class GetPromisesResponse:
    """This response says what can be promised with the labels that there are."""

    error_at_most: float
    version: str
    versions: Sequence[str]
    levels: Sequence[KindPromise]
    curve: Sequence[PromisePoint]
    stronger: str
    unlabelled: int


@value
class ObservedOutcomes:
    """These outcomes are labelled answers with their confidences.

    Attributes:
        raw: Confidence of each as it came [0..1].
        served: Confidence of each as it was served [0..1].
        scores: How right each was [0..1].
    """

    raw: Array
    served: Array
    scores: Array


@value
class CalibrationState:
    """This state holds the maps of one strategy and one source.

    Attributes:
        maps: Newest first, the one in force among them.
        pinned: Whether a person chose the one in force, or none.
    """

    maps: Sequence[CalibrationMap] = ()
    pinned: bool = False

    @property
    def in_force(self) -> CalibrationMap | None:
        """Return the map in force; None when there is none."""
        return next((fitted for fitted in self.maps if fitted.in_force), None)


@value
class MapChoice:
    """A map choice is a person's choice of the map in force.

    Attributes:
        strategy: The strategy.
        confidence_source: Source of its confidence.
        version: The map that is to be in force; empty for none, None leaves the choice to the fits.
        key_name: Name of the API key of the request.
        chosen_at: Time of the choice.
    """

    strategy: str
    confidence_source: str
    version: str | None
    key_name: str
    chosen_at: datetime


def with_in_force(maps: Sequence[CalibrationMap], version: str, *, pinned: bool) -> CalibrationState:
    """Return the state with `maps`, newest first, of which the one with `version` is in force."""
    return CalibrationState(
        maps=[replace(fitted, in_force=fitted.version == version) for fitted in maps], pinned=pinned
    )
