"""The activations seen, counted by PostgreSQL."""

import asyncio
from typing import Any

from sqlalchemy import Select, func, select

from chassis.db import ERRORS, Sessions, refusal
from kernel.statistics.discrimination import auroc
from kernel.statistics.samples import right
from services.router.core.activation import Route
from services.router.core.strategies import Strategy
from services.router.service.calibration_values import (
    MOST_OBSERVATIONS,
    ActivationBin,
    ActivationsSeen,
    GetActivationsRequest,
)
from services.router.service.kept_decisions import KEPT
from services.router.store.feedback_tables import FeedbackRow
from services.router.store.packing import packed, unpacked
from services.router.store.runs import RunRow
from services.router.store.tables import utc, without_nul

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
    return _of_runs(ask, RunRow.because, func.count(), TO_SYSTEM_TWO).group_by(RunRow.because)


def _in_bins(ask: GetActivationsRequest) -> Select[Any]:
    number = func.least(func.width_bucket(RunRow.activation + NOISE, 0, 1, ask.bins), ask.bins).label("number")
    return _assessed(ask, number, func.count(), TO_SYSTEM_TWO).group_by(number)


def _spread(ask: GetActivationsRequest) -> Select[Any]:
    quantiles = func.percentile_cont(list(QUANTILES)).within_group(RunRow.activation)
    return _assessed(ask, func.avg(RunRow.activation), quantiles)


def _judged(ask: GetActivationsRequest) -> Select[Any]:
    """Activation and score of the newest System 1 answers with a verdict that counts."""
    return (
        _assessed(ask, RunRow.activation, FeedbackRow.score)
        .join(FeedbackRow, FeedbackRow.run_id == RunRow.run_id)
        .where(
            FeedbackRow.counts,
            RunRow.strategy == Strategy.SYSTEM_ONE,
            RunRow.outcome == "ANSWERED",
        )
        .order_by(FeedbackRow.created_at.desc(), RunRow.run_id.desc())
        .limit(MOST_OBSERVATIONS)
    )


def _assessed(ask: GetActivationsRequest, *columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """`columns` of the runs with an activation of their own, not one kept from an earlier turn."""
    return _of_runs(ask, *columns).where(RunRow.activation.is_not(None), RunRow.because != KEPT)


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
