"""Many numbers in one value: a hundred thousand rows cost the event loop next to nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Select,
    String,
    delete,
    func,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import JSONB, distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from chassis.database import ERRORS, Sessions, refusal, utc, without_nul
from chassis.page_tokens import InvalidPageToken
from chassis.serving.wire import from_plain
from kernel.activation import Route
from kernel.statistics.discrimination import auroc
from kernel.statistics.recalibration import FittedMap
from kernel.statistics.samples import Array, right
from services.router.core.calibration import Progress, version_in_force, version_of_fit
from services.router.core.strategies import Strategy
from services.router.service.assessment.route import CACHED
from services.router.service.calibration.calibration import CalibrationNotFound
from services.router.service.calibration.values import (
    MOST_EARLIER_MAPS,
    MOST_OBSERVATIONS,
    ActivationBin,
    ActivationsSeen,
    CalibrationMap,
    CalibrationState,
    GetActivationsRequest,
    GetCalibrationRequest,
    MapChoice,
    ObservedOutcomes,
    with_in_force,
)
from services.router.store.feedback_tables import RunFeedbackRow
from services.router.store.runs import RunRow
from services.router.store.tables import RouterTable

NOTHING: ColumnElement[bytes] = literal_column("''::bytea", LargeBinary)


def packed(rows: Select[Any]) -> Select[tuple[bytes | None]]:
    """All numbers of `rows`, none of which may be null, as one value of bytes; for `unpacked`."""
    columns: list[ColumnElement[bytes]] = [func.float8send(column, type_=LargeBinary) for column in rows.subquery().c]
    row = reduce(lambda left, right: left.concat(right), columns)
    return select(func.string_agg(row, NOTHING, type_=LargeBinary))


def unpacked(numbers: bytes | None, width: int) -> Array:
    """The rows in what `packed` gave, each of `width` numbers.

    Example:
        >>> unpacked(bytes.fromhex("3fe0000000000000" "3ff0000000000000"), 2).tolist()
        [[0.5, 1.0]]
    """
    return np.frombuffer(numbers or b"", dtype=">f8").astype(np.float64).reshape(-1, width)


class CalibrationMapRow(RouterTable):
    """One fitted map; the number says how many there were with it for its strategy and source."""

    __tablename__ = "calibration_maps"

    strategy: Mapped[str] = mapped_column(String(16), primary_key=True)
    confidence_source: Mapped[str] = mapped_column(String, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    version: Mapped[str] = mapped_column(String, unique=True)
    method: Mapped[str] = mapped_column(String(16))
    points: Mapped[list[dict[str, float]]] = mapped_column(JSONB)
    observations: Mapped[int] = mapped_column(Integer)
    brier_score_before: Mapped[float] = mapped_column(Float)
    brier_score_after: Mapped[float] = mapped_column(Float)
    improves: Mapped[bool] = mapped_column(Boolean)
    fitted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class CalibrationPinRow(RouterTable):
    """A person's choice for one strategy and source: a version, or empty for none."""

    __tablename__ = "calibration_pins"

    strategy: Mapped[str] = mapped_column(String(16), primary_key=True)
    confidence_source: Mapped[str] = mapped_column(String, primary_key=True)
    version: Mapped[str] = mapped_column(String)
    key_name: Mapped[str] = mapped_column(String)
    pinned_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


SERVED = func.coalesce(RunRow.confidence, RunRow.confidence_raw)
JUDGED = (
    RunFeedbackRow.counts,
    RunRow.outcome == "ANSWERED",
    RunRow.confidence_raw.is_not(None),
    RunRow.confidence_source != "",
)


class PostgresCalibration:
    """Maps, choices and judged answers in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def pairs(self, ask: GetCalibrationRequest) -> Sequence[tuple[str, str]]:
        """Strategies and sources of a page and one more, by name: with judged answers, a map or a choice.

        Raises:
            InvalidPageToken: For a token that nobody gave.
            DatabaseUnavailable: When the database is away.
        """
        made = (
            _of_judged(RunRow.strategy, RunRow.confidence_source)
            .where(*_times(ask))
            .union(
                select(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source),
                select(CalibrationPinRow.strategy, CalibrationPinRow.confidence_source),
            )
            .subquery()
        )
        wanted = select(made.c.strategy, made.c.confidence_source).order_by(made.c.strategy, made.c.confidence_source)
        if ask.page_token:
            wanted = wanted.where(tuple_(made.c.strategy, made.c.confidence_source) > tuple_(*_pair(ask.page_token)))
        if ask.strategy:
            wanted = wanted.where(made.c.strategy == without_nul(ask.strategy))
        if ask.confidence_source:
            wanted = wanted.where(made.c.confidence_source == without_nul(ask.confidence_source))
        try:
            async with self._sessions.begin() as session:
                return [(row[0], row[1]) for row in await session.execute(wanted.limit(ask.page_size + 1))]
        except ERRORS as error:
            raise refusal(error) from error

    async def observed(self, strategy: str, source: str, ask: GetCalibrationRequest) -> ObservedOutcomes:
        """The newest judged answers of a strategy and a source, at most 100,000.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        wanted = (
            _of_judged(RunRow.confidence_raw, SERVED.label("served"), RunFeedbackRow.score)
            .where(RunRow.strategy == strategy, RunRow.confidence_source == source, *_times(ask))
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_OBSERVATIONS)
        )
        try:
            async with self._sessions.begin() as session:
                columns = unpacked(await session.scalar(packed(wanted)), 3)
        except ERRORS as error:
            raise refusal(error) from error
        return ObservedOutcomes(raw=columns[:, 0], served=columns[:, 1], scores=columns[:, 2])

    async def standing(self, strategy: str, source: str) -> CalibrationState:
        """The newest maps of a strategy and a source, and the one in force.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                return await _standing(session, strategy, source)
        except ERRORS as error:
            raise refusal(error) from error

    async def choose(self, choice: MapChoice) -> tuple[CalibrationState, CalibrationState]:
        """Put a choice in force; how it stood before, and how it stands now.

        Raises:
            CalibrationNotFound: When there is no such map.
            DatabaseUnavailable: When the database is away.
        """
        choice = MapChoice(**without_nul(asdict(choice)))
        pair = {"strategy": choice.strategy, "confidence_source": choice.confidence_source}
        try:
            async with self._sessions.begin() as session:
                before = await _standing(session, choice.strategy, choice.confidence_source)
                await _demand_map(session, choice)
                if choice.version is None:
                    await session.execute(delete(CalibrationPinRow).filter_by(**pair))
                else:
                    pin = {"version": choice.version, "key_name": choice.key_name, "pinned_at": choice.chosen_at}
                    pinning = insert(CalibrationPinRow).values(**pair, **pin)
                    await session.execute(pinning.on_conflict_do_update(index_elements=list(pair), set_=pin))
                return before, await _standing(session, choice.strategy, choice.confidence_source)
        except ERRORS as error:
            raise refusal(error) from error

    async def in_force(self) -> Sequence[CalibrationMap]:
        """The maps in force.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        pairs = select(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source).distinct()
        try:
            async with self._sessions.begin() as session:
                found = [await _standing(session, *pair, most=1) for pair in (await session.execute(pairs)).all()]
        except ERRORS as error:
            raise refusal(error) from error
        return [standing.in_force for standing in found if standing.in_force is not None]

    async def progress(self) -> Sequence[Progress]:
        """What has come in for each strategy and source.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        newest = (
            select(CalibrationMapRow)
            .ext(distinct_on(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source))
            .order_by(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source, CalibrationMapRow.number.desc())
            .subquery()
        )
        since = func.count().filter(newest.c.fitted_at.is_(None) | (RunFeedbackRow.created_at > newest.c.fitted_at))
        about = (func.coalesce(newest.c.number, 0), func.coalesce(newest.c.observations, 0))
        wanted = (
            _of_judged(RunRow.strategy, RunRow.confidence_source, func.count(), *about, since)
            .outerjoin(
                newest,
                (newest.c.strategy == RunRow.strategy) & (newest.c.confidence_source == RunRow.confidence_source),
            )
            .group_by(RunRow.strategy, RunRow.confidence_source, newest.c.number, newest.c.observations)
            .order_by(RunRow.strategy, RunRow.confidence_source)
        )
        try:
            async with self._sessions.begin() as session:
                rows = (await session.execute(wanted)).all()
        except ERRORS as error:
            raise refusal(error) from error
        names = ("strategy", "confidence_source", "judged", "fits", "fitted_on", "since")
        return [Progress(**dict(zip(names, row, strict=True))) for row in rows]

    async def keep(self, progress: Progress, fitted: FittedMap, fitted_at: datetime) -> bool:
        """Keep a map as the one after those of `progress`; False when another replica was first.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        number = progress.fits + 1
        row = {
            "strategy": progress.strategy,
            "confidence_source": progress.confidence_source,
            "number": number,
            "version": version_of_fit(progress.strategy, progress.confidence_source, number),
            "method": fitted.method,
            "points": [asdict(point) for point in fitted.points],
            "observations": fitted.observations,
            "brier_score_before": fitted.brier_before,
            "brier_score_after": fitted.brier_after,
            "improves": fitted.improves,
            "fitted_at": fitted_at,
        }
        adding = insert(CalibrationMapRow).values(row).on_conflict_do_nothing()
        try:
            async with self._sessions.begin() as session:
                added = await session.execute(adding.returning(CalibrationMapRow.number))
                return added.first() is not None
        except ERRORS as error:
            raise refusal(error) from error


async def _standing(
    session: AsyncSession, strategy: str, source: str, most: int = MOST_EARLIER_MAPS + 1
) -> CalibrationState:
    pair = {"strategy": strategy, "confidence_source": source}
    every = select(CalibrationMapRow).filter_by(**pair).order_by(CalibrationMapRow.number.desc())
    rows = list((await session.scalars(every.limit(most))).all())
    pin = await session.get(CalibrationPinRow, pair, populate_existing=True)
    version = version_in_force(
        rows[0].version if rows else "",
        improves=bool(rows) and rows[0].improves,
        pinned=None if pin is None else pin.version,
    )
    if version and version not in [row.version for row in rows]:
        rows += (await session.scalars(every.where(CalibrationMapRow.version == version))).all()
    return with_in_force([_map(row) for row in rows], version, pinned=pin is not None)


async def _demand_map(session: AsyncSession, choice: MapChoice) -> None:
    wanted = select(CalibrationMapRow.number).where(
        CalibrationMapRow.strategy == choice.strategy,
        CalibrationMapRow.confidence_source == choice.confidence_source,
        CalibrationMapRow.version == choice.version,
    )
    if choice.version and (await session.scalars(wanted)).first() is None:
        raise CalibrationNotFound(
            f"there is no recalibration map {choice.version!r} for {choice.strategy} from {choice.confidence_source}",
            version=choice.version,
            strategy=choice.strategy,
            confidence_source=choice.confidence_source,
        )


def _map(row: CalibrationMapRow) -> CalibrationMap:
    named = {name: getattr(row, name) for name in CalibrationMap.__dataclass_fields__ if name != "in_force"}
    return from_plain(named, CalibrationMap)


def _of_judged(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """`columns` of every answer with a confidence and a verdict that counts."""
    return (
        select(*columns).select_from(RunRow).join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id).where(*JUDGED)
    )


def _times(ask: GetCalibrationRequest) -> list[Any]:
    since = [RunRow.created_at >= utc(ask.since)] if ask.since else []
    return [*since, *([RunRow.created_at < utc(ask.until)] if ask.until else [])]


def _pair(token: str) -> tuple[str, str]:
    strategy, slash, source = without_nul(token).partition("/")
    if not slash:
        raise InvalidPageToken(f"page_token {token!r} was not given by this service", field="page_token")
    return strategy, source


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Less than what thresholds are rounded to: with it float noise below an edge does not decide, and 0.45 begins its bin.
NOISE = 5e-10
TO_SYSTEM_TWO = func.count().filter(RunRow.system == Route.SYSTEM_TWO)


class PostgresActivations:
    """The activations of the runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def seen(self, ask: GetActivationsRequest) -> ActivationsSeen:
        """The activations of the runs asked for, all of one moment.

        Of System 1 answers with a verdict that counts the newest 100,000 are looked at.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        try:
            async with self._sessions.begin() as session:
                await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
                by_reason = (await session.execute(_by_reason(ask))).all()
                in_bins = (await session.execute(_in_bins(ask))).all()
                mean, quantiles = (await session.execute(_spread(ask))).one()
                judged = unpacked(await session.scalar(packed(_judged(ask))), 2)
        except ERRORS as error:
            raise refusal(error) from error
        told_apart = await asyncio.to_thread(auroc, judged[:, 0], ~right(judged[:, 1]))
        runs, system_two = sum(row[1] for row in by_reason), sum(row[2] for row in by_reason)
        return ActivationsSeen(
            runs=runs,
            system_two=system_two,
            system_two_share=system_two / runs if runs else None,
            runs_by_reason={row[0] or "unknown": row[1] for row in by_reason},
            bins=_bins(ask.bins, {row[0]: (row[1], row[2]) for row in in_bins}),
            mean=None if mean is None else float(mean),
            quantiles=dict(zip(map(str, QUANTILES), quantiles, strict=True)) if quantiles else {},
            judged=told_apart.positives + told_apart.negatives,
            auroc=told_apart.auroc,
            auroc_low=told_apart.low,
            auroc_high=told_apart.high,
        )


def _by_reason(ask: GetActivationsRequest) -> Select[Any]:
    return _of_runs(ask, RunRow.reason, func.count(), TO_SYSTEM_TWO).group_by(RunRow.reason)


def _in_bins(ask: GetActivationsRequest) -> Select[Any]:
    number = func.least(func.width_bucket(RunRow.activation + NOISE, 0, 1, ask.bins), ask.bins).label("number")
    return _assessed(ask, number, func.count(), TO_SYSTEM_TWO).group_by(number)


def _spread(ask: GetActivationsRequest) -> Select[Any]:
    quantiles = func.percentile_cont(list(QUANTILES)).within_group(RunRow.activation)
    return _assessed(ask, func.avg(RunRow.activation), quantiles)


def _judged(ask: GetActivationsRequest) -> Select[Any]:
    """Activation and score of the newest System 1 answers with a verdict that counts."""
    return (
        _assessed(ask, RunRow.activation, RunFeedbackRow.score)
        .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
        .where(
            RunFeedbackRow.counts,
            RunRow.strategy == Strategy.SYSTEM_ONE,
            RunRow.outcome == "ANSWERED",
        )
        .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
        .limit(MOST_OBSERVATIONS)
    )


def _assessed(ask: GetActivationsRequest, *columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """`columns` of the runs with an activation of their own, not one kept from an earlier turn."""
    return _of_runs(ask, *columns).where(RunRow.activation.is_not(None), RunRow.reason != CACHED)


def _of_runs(ask: GetActivationsRequest, *columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """`columns` of the runs asked for whose system was chosen."""
    wanted = select(*columns).select_from(RunRow).where(RunRow.system != "")
    if ask.since:
        wanted = wanted.where(RunRow.created_at >= utc(ask.since))
    if ask.until:
        wanted = wanted.where(RunRow.created_at < utc(ask.until))
    if ask.config_version:
        wanted = wanted.where(RunRow.config_version == without_nul(ask.config_version))
    if ask.assessor:
        wanted = wanted.where(RunRow.assessor == without_nul(ask.assessor))
    return wanted


def _bins(count: int, found: dict[int, tuple[int, int]]) -> list[ActivationBin]:
    return [
        ActivationBin(lower=(number - 1) / count, upper=number / count, runs=runs, system_two=system_two)
        for number in range(1, count + 1)
        for runs, system_two in [found.get(number, (0, 0))]
    ]
