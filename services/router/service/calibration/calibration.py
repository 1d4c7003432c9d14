"""These use cases report how reliable confidence is and the activations seen, and put another map in force."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from chassis.page_tokens import token_of
from chassis.serving.auth import ApiKey
from chassis.shared_results import SharedResults, in_thread
from configuration.keys import check_may_teach
from kernel.errors import MalformedRequest
from kernel.policy import Strategy
from kernel.statistics.reliability import Reliability, chance_calibration_error, reliability
from services.router.service.assessment.routing import RoutingConfig
from services.router.service.calibration.values import (
    MOST_EARLIER_MAPS,
    ActivationsSeen,
    CalibrationState,
    GetActivationsRequest,
    GetActivationsResponse,
    GetCalibrationRequest,
    GetCalibrationResponse,
    GetCascadesRequest,
    GetCascadesResponse,
    GetPromisesResponse,
    MapChoice,
    ObservedOutcomes,
    RollbackCalibrationRequest,
    RollbackCalibrationResponse,
    StrategyReliability,
)
from services.router.service.shadow.values import GetShadowRequest, GetShadowResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUseCases:
    """The APIs offer these use cases about confidences, activations, cascades, shadow runs and promises."""

    get: Callable[[GetCalibrationRequest], Awaitable[GetCalibrationResponse]]
    rollback: Callable[..., Awaitable[RollbackCalibrationResponse]]
    activations: Callable[[GetActivationsRequest], Awaitable[GetActivationsResponse]]
    cascades: Callable[[GetCascadesRequest], Awaitable[GetCascadesResponse]]
    shadow: Callable[[GetShadowRequest], Awaitable[GetShadowResponse]]
    promises: Callable[..., Awaitable[GetPromisesResponse]]


class ReliabilityStore(Protocol):
    """This store holds labelled answers and maps; every method may raise `DatabaseUnavailable`."""

    async def pairs(self, request: GetCalibrationRequest) -> Sequence[tuple[str, str]]:
        """Return strategies and sources of a page and one more, by name.

        Raises:
            InvalidPageToken: For a token that this service did not give.
        """

    async def observed(self, strategy: str, source: str, request: GetCalibrationRequest) -> ObservedOutcomes:
        """Return the newest labelled answers, at most `MOST_OBSERVATIONS`."""

    async def state(self, strategy: str, source: str) -> CalibrationState:
        """Return the newest maps, `MOST_EARLIER_MAPS` and the one in force."""


class MapChoiceStore(Protocol):
    """This store holds which map a person chose."""

    async def choose(self, choice: MapChoice) -> tuple[CalibrationState, CalibrationState]:
        """Put a choice in force.

        Returns:
            The state before, and the state now.

        Raises:
            CalibrationNotFound: When there is no such map.
            DatabaseUnavailable: When the database is away.
        """


# The observations of a row and its figures.
Figures = tuple[int, float | None, Reliability, Reliability]
SharedFigures = SharedResults[tuple[str, str, datetime | None, datetime | None, int], Figures]
SharedPairs = SharedResults[GetCalibrationRequest, Sequence[tuple[str, str]]]
SharedActivations = SharedResults[GetActivationsRequest, ActivationsSeen]


async def get_calibration(
    request: GetCalibrationRequest,
    *,
    store: ReliabilityStore,
    minimum: int,
    pairs: SharedPairs,
    shared: SharedFigures,
) -> GetCalibrationResponse:
    """Return how reliable confidence is, a row for each strategy and source with labelled answers or maps.

    A row is made of the newest 100,000 labelled answers of the requested time; callers who ask for the same row share
    the work.

    Raises:
        InvalidPageToken: For a token that this service did not give.
        Overloaded: When as many figures are computed for the caller as may be.
        DatabaseUnavailable: When the database is away.
    """
    found = await pairs.get(request, lambda: store.pairs(request))
    shown = found[: request.page_size]
    rows = [await _reliability_of(strategy, source, request, store, shared) for strategy, source in shown]
    return GetCalibrationResponse(
        reliabilities=rows,
        next_page_token=token_of(*shown[-1]) if len(found) > len(shown) else "",
        minimum_observations=minimum,
    )


async def _reliability_of(
    strategy: str, source: str, request: GetCalibrationRequest, store: ReliabilityStore, shared: SharedFigures
) -> StrategyReliability:
    async def compute() -> Figures:
        return await in_thread(_figures, await store.observed(strategy, source, request), request.bins)

    figures = await shared.get((strategy, source, request.since, request.until, request.bins), compute)
    state = await store.state(strategy, source)
    return StrategyReliability(
        strategy=strategy,
        confidence_source=source,
        observations=figures[0],
        chance_calibration_error=figures[1],
        raw=figures[2],
        served=figures[3],
        map=state.in_force,
        pinned=state.pinned,
        earlier_maps=[fitted for fitted in state.maps if not fitted.in_force][:MOST_EARLIER_MAPS],
    )


def _figures(observed: ObservedOutcomes, bins: int) -> Figures:
    """Return the observations, the calibration error of chance with the served confidences, and both reliabilities."""
    return (
        len(observed.scores),
        chance_calibration_error(observed.served, bins),
        reliability(observed.raw, observed.scores, bins),
        reliability(observed.served, observed.scores, bins),
    )


async def rollback_calibration(
    request: RollbackCalibrationRequest, *, key: ApiKey, store: MapChoiceStore, refresh: Callable[[], Awaitable[None]]
) -> RollbackCalibrationResponse:
    """Put another map in force, or none, or leave the choice to the fits again.

    Args:
        request: The map that is to be in force.
        key: API key of the request.
        store: Stores the choice.
        refresh: Makes this process serve by it at once; others follow within their refresh time.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        MalformedRequest: For a strategy that the router does not have, or not exactly one target.
        CalibrationNotFound: When there is no such map.
        DatabaseUnavailable: When the database is away.
    """
    check_may_teach(key)
    if request.strategy not in list(Strategy):
        raise MalformedRequest(
            f"strategy {request.strategy!r} is none of {', '.join(Strategy)}",
            field="strategy",
            strategy=request.strategy,
        )
    choice = MapChoice(
        strategy=request.strategy,
        confidence_source=request.confidence_source,
        version=_version(request),
        key_name=key.name,
        chosen_at=datetime.now(UTC),
    )
    before, after = await store.choose(choice)
    await refresh()
    return RollbackCalibrationResponse(
        map=after.in_force,
        pinned=after.pinned,
        previous_version=before.in_force.version if before.in_force else "",
    )


def _version(request: RollbackCalibrationRequest) -> str | None:
    """Return the requested version; empty for no map, None for the newest."""
    targets = {"version": bool(request.version), "none": bool(request.none), "newest": bool(request.newest)}
    if sum(targets.values()) != 1:
        raise MalformedRequest("give exactly one of `version`, `none: true` and `newest: true`", field="version")
    if request.version:
        return request.version
    return "" if request.none else None


async def get_activations(
    request: GetActivationsRequest,
    *,
    config: RoutingConfig,
    seen: Callable[[GetActivationsRequest], Awaitable[ActivationsSeen]],
    shared: SharedActivations,
) -> GetActivationsResponse:
    """Return the activations seen, and the share of runs that went to System 2.

    The AUROC is over the newest 100,000 System 1 answers with an activation and feedback that counts. Where the router
    chose the system these lie below the threshold, so that the figure is of a part of the range only. Callers who ask
    for the same share the work.

    Raises:
        Overloaded: When as many figures are computed for the caller as may be.
        DatabaseUnavailable: When the database is away.
    """
    found = await shared.get(request, lambda: seen(request))
    return GetActivationsResponse(
        threshold=config.threshold,
        config_version=config.version,
        undetermined=config.undetermined,
        **{name: getattr(found, name) for name in ActivationsSeen.__dataclass_fields__},
    )
