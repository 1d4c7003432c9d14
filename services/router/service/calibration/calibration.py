"""How far the confidence can be trusted, which recalibration map is in force, and the activations seen."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from chassis.serving.auth import ApiKey, demand_teacher
from kernel.errors import Code, MalformedRequest, MetacogError
from kernel.statistics.reliability import Reliability, chance_calibration_error, reliability
from services.router.core.strategies import Strategy
from services.router.service.assessment.route import RoutingConfig
from services.router.service.calibration.values import (
    MOST_EARLIER_MAPS,
    ActivationsSeen,
    CalibrationState,
    GetActivationsRequest,
    GetActivationsResponse,
    GetCalibrationRequest,
    GetCalibrationResponse,
    MapChoice,
    ObservedOutcomes,
    RollbackCalibrationRequest,
    RollbackCalibrationResponse,
    StrategyReliability,
)


class CalibrationNotFound(MetacogError):
    """There is no such recalibration map."""

    code = Code.NOT_FOUND
    reason = "CALIBRATION_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUseCases:
    """What a face can ask about confidences and activations."""

    get: Callable[[GetCalibrationRequest], Awaitable[GetCalibrationResponse]]
    rollback: Callable[..., Awaitable[RollbackCalibrationResponse]]
    activations: Callable[[GetActivationsRequest], Awaitable[GetActivationsResponse]]


class ReliabilityStore(Protocol):
    """Where judged answers and maps are kept; every method may raise `DatabaseUnavailable`."""

    async def pairs(self, ask: GetCalibrationRequest) -> Sequence[tuple[str, str]]:
        """Strategies and sources of a page and one more, by name.

        Raises:
            InvalidPageToken: For a token that nobody gave.
        """

    async def observed(self, strategy: str, source: str, ask: GetCalibrationRequest) -> ObservedOutcomes:
        """The newest judged answers, at most `MOST_OBSERVATIONS`."""

    async def standing(self, strategy: str, source: str) -> CalibrationState:
        """The newest maps, `MOST_EARLIER_MAPS` and the one in force."""


class MapChoiceStore(Protocol):
    """Where it is kept which map a person chose."""

    async def choose(self, choice: MapChoice) -> tuple[CalibrationState, CalibrationState]:
        """Put a choice in force.

        Returns:
            How it stood before, and how it stands now.

        Raises:
            CalibrationNotFound: When there is no such map.
            DatabaseUnavailable: When the database is away.
        """


async def get_calibration(
    ask: GetCalibrationRequest, *, store: ReliabilityStore, minimum: int
) -> GetCalibrationResponse:
    """How far confidence can be trusted, a row for each strategy and source with judged answers or maps.

    A row is made of the newest 100,000 judged answers of the time asked for.

    Raises:
        InvalidPageToken: For a token that nobody gave.
        DatabaseUnavailable: When the database is away.
    """
    pairs = await store.pairs(ask)
    shown = pairs[: ask.page_size]
    rows = [await _reliability_of(strategy, source, ask, store) for strategy, source in shown]
    return GetCalibrationResponse(
        reliabilities=rows,
        next_page_token="/".join(shown[-1]) if len(pairs) > len(shown) else "",
        minimum_observations=minimum,
    )


async def _reliability_of(
    strategy: str, source: str, ask: GetCalibrationRequest, store: ReliabilityStore
) -> StrategyReliability:
    observed = await store.observed(strategy, source, ask)
    standing = await store.standing(strategy, source)
    figures = await asyncio.to_thread(_figures, observed, ask.bins)
    return StrategyReliability(
        strategy=strategy,
        confidence_source=source,
        observations=len(observed.scores),
        chance_calibration_error=figures[0],
        raw=figures[1],
        served=figures[2],
        map=standing.in_force,
        pinned=standing.pinned,
        earlier_maps=[one for one in standing.maps if not one.in_force][:MOST_EARLIER_MAPS],
    )


def _figures(observed: ObservedOutcomes, bins: int) -> tuple[float | None, Reliability, Reliability]:
    """What chance gives with the served confidences, then the figures of both kinds of confidence."""
    return (
        chance_calibration_error(observed.served, bins),
        reliability(observed.raw, observed.scores, bins),
        reliability(observed.served, observed.scores, bins),
    )


async def rollback_calibration(
    ask: RollbackCalibrationRequest, *, key: ApiKey, store: MapChoiceStore, refresh: Callable[[], Awaitable[None]]
) -> RollbackCalibrationResponse:
    """Put another map in force, or none, or leave it to the fits again.

    Args:
        ask: What is to be in force.
        key: Key it came in with.
        store: Where the choice is kept.
        refresh: Has this process serve by it at once; others follow within their refresh time.

    Raises:
        TeachingNotAllowed: When the key may not teach.
        MalformedRequest: For a strategy that the router does not have, or a target that is none.
        CalibrationNotFound: When there is no such map.
        DatabaseUnavailable: When the database is away.
    """
    demand_teacher(key)
    if ask.strategy not in list(Strategy):
        raise MalformedRequest(
            f"strategy {ask.strategy!r} is none of {', '.join(Strategy)}", field="strategy", strategy=ask.strategy
        )
    choice = MapChoice(
        strategy=ask.strategy,
        confidence_source=ask.confidence_source,
        version=_wanted(ask),
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


def _wanted(ask: RollbackCalibrationRequest) -> str | None:
    """The version asked for; empty for none, None for the newest."""
    targets = {"version": bool(ask.version), "none": bool(ask.none), "newest": bool(ask.newest)}
    if sum(targets.values()) != 1:
        raise MalformedRequest("give exactly one of `version`, `none: true` and `newest: true`", field="version")
    if ask.version:
        return ask.version
    return "" if ask.none else None


async def get_activations(
    ask: GetActivationsRequest,
    *,
    config: RoutingConfig,
    seen: Callable[[GetActivationsRequest], Awaitable[ActivationsSeen]],
) -> GetActivationsResponse:
    """The activations seen, and the share of runs that went to System 2.

    The AUROC is over the newest 100,000 System 1 answers with an activation and a verdict that counts. Where the router
    chose by itself these lie below the threshold, so that the figure is of a part of the range only.

    Raises:
        DatabaseUnavailable: When the database is away.
    """
    found = await seen(ask)
    return GetActivationsResponse(
        threshold=config.threshold,
        config_version=config.version,
        undetermined=config.undetermined.value,
        **{name: getattr(found, name) for name in ActivationsSeen.__dataclass_fields__},
    )
