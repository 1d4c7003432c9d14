"""Recalibration maps, labelled answers and activations are read from PostgreSQL.

Many numbers come as one value of bytes: a hundred thousand rows cost the event loop next to nothing.
"""

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
    case,
    delete,
    func,
    literal,
    literal_column,
    select,
    true,
    tuple_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB, distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from chassis.database import Sessions, transaction, without_nul
from chassis.json_text import dumps
from chassis.page_tokens import parts_of
from chassis.serving.stored import from_stored, readable
from chassis.shared_results import in_thread
from kernel.activation import Route
from kernel.learning.gains import LabelledPair
from kernel.learning.kind_shares import KindRecord
from kernel.policy import VOTING, Strategy
from kernel.statistics.discrimination import auroc
from kernel.statistics.recalibration import FittedMap
from kernel.statistics.samples import Array, right
from kernel.votes.competence import SourceRecord
from kernel.votes.probability import LabelCount, VoteEvidence
from kernel.votes.votes import MODEL_ALONE, VoteMode
from services.router.core.calibration import Progress, version_in_force, version_of_fit
from services.router.core.feedback import DRAWN_AT_RANDOM, RIGHT_FROM
from services.router.errors import CalibrationNotFound
from services.router.service.assessment.routing import CACHED
from services.router.service.calibration.promises import PromiseCounts, StoredPromiseLabel
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
from services.router.store.labelled_pairs import MOST_PAIRED_LABELS, is_system_one, labelled_pairs
from services.router.store.promise_labels import promise_counts, promise_labels
from services.router.store.runs import IS_SERVED, RunRow, began_within
from services.router.store.tables import RouterTable

NO_BYTES: ColumnElement[bytes] = literal_column("''::bytea", LargeBinary)


def packed(rows: Select[Any]) -> Select[tuple[bytes | None]]:
    """Select all numbers of `rows`, none of which may be null, as one value of bytes for `unpacked`."""
    columns: list[ColumnElement[bytes]] = [func.float8send(column, type_=LargeBinary) for column in rows.subquery().c]
    row = reduce(lambda left, right: left.concat(right), columns)
    return select(func.string_agg(row, NO_BYTES, type_=LargeBinary))


def unpacked(numbers: bytes | None, width: int) -> Array:
    """Return the rows of `width` numbers each in a value that `packed` selected.

    Example:
        >>> unpacked(bytes.fromhex("3fe0000000000000" "3ff0000000000000"), 2).tolist()
        [[0.5, 1.0]]
    """
    return np.frombuffer(numbers or b"", dtype=">f8").astype(np.float64).reshape(-1, width)


class CalibrationMapRow(RouterTable):
    """A row is one fitted map; its number counts the maps of its strategy and source, itself included."""

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
    """A row is a person's choice for one strategy and source: a version, or empty for none."""

    __tablename__ = "calibration_pins"

    strategy: Mapped[str] = mapped_column(String(16), primary_key=True)
    confidence_source: Mapped[str] = mapped_column(String, primary_key=True)
    version: Mapped[str] = mapped_column(String)
    key_name: Mapped[str] = mapped_column(String)
    pinned_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


# Labelled votes that the probability is fitted to [count].
MOST_VOTE_LABELS = 5_000

SERVED = func.coalesce(RunRow.confidence, RunRow.confidence_raw)
LABELLED = (
    IS_SERVED,
    RunFeedbackRow.counts,
    RunRow.outcome == "ANSWERED",
    RunRow.confidence_raw.is_not(None),
    RunRow.confidence_source != "",
)
# Runs whose answer the votes gave: that of a stronger model has no confidence, and so is not among the labelled.
VOTED = (RunRow.strategy.in_(VOTING),)


class PostgresCalibration:
    """This store keeps maps and choices, and reads labelled answers, in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def pairs(self, request: GetCalibrationRequest) -> Sequence[tuple[str, str]]:
        """Return a page of the strategies and sources with labelled answers, a map or a choice, and one more.

        Raises:
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database is away.
        """
        pairs = (
            _of_labelled(RunRow.strategy, RunRow.confidence_source)
            .where(*began_within(request.since, request.until))
            .union(
                select(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source),
                select(CalibrationPinRow.strategy, CalibrationPinRow.confidence_source),
            )
            .subquery()
        )
        pair = (pairs.c.strategy, pairs.c.confidence_source)
        query = select(*pair).order_by(*pair)
        if request.page_token:
            query = query.where(tuple_(*pair) > tuple_(*parts_of(request.page_token, 2)))
        if request.strategy:
            query = query.where(pairs.c.strategy == without_nul(request.strategy))
        if request.confidence_source:
            query = query.where(pairs.c.confidence_source == without_nul(request.confidence_source))
        async with transaction(self._sessions) as session:
            return [(row[0], row[1]) for row in await session.execute(query.limit(request.page_size + 1))]

    async def observed(self, strategy: str, source: str, request: GetCalibrationRequest) -> ObservedOutcomes:
        """Return the newest labelled answers of a strategy and a source, at most 100,000.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        times = began_within(request.since, request.until)
        query = (
            _of_labelled(RunRow.confidence_raw, SERVED.label("served"), RunFeedbackRow.score)
            .where(
                RunRow.strategy == strategy,
                RunRow.confidence_source == source,
                *times,
            )
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_OBSERVATIONS)
        )
        async with transaction(self._sessions) as session:
            columns = unpacked(await session.scalar(packed(query)), 3)
        return ObservedOutcomes(raw=columns[:, 0], served=columns[:, 1], scores=columns[:, 2])

    async def state(self, strategy: str, source: str) -> CalibrationState:
        """Return the newest maps of a strategy and a source, and the one in force.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await _state(session, strategy, source)

    async def choose(self, choice: MapChoice) -> tuple[CalibrationState, CalibrationState]:
        """Put a choice in force; return the state before and the state now.

        Raises:
            CalibrationNotFound: When there is no such map.
            DatabaseUnavailable: When the database is away.
        """
        choice = MapChoice(**without_nul(asdict(choice)))
        pair = {"strategy": choice.strategy, "confidence_source": choice.confidence_source}
        async with transaction(self._sessions) as session:
            before = await _state(session, choice.strategy, choice.confidence_source)
            await _check_map(session, choice)
            if choice.version is None:
                await session.execute(delete(CalibrationPinRow).filter_by(**pair))
            else:
                pin = {"version": choice.version, "key_name": choice.key_name, "pinned_at": choice.chosen_at}
                pinning = insert(CalibrationPinRow).values(**pair, **pin)
                await session.execute(pinning.on_conflict_do_update(index_elements=list(pair), set_=pin))
            return before, await _state(session, choice.strategy, choice.confidence_source)

    async def in_force(self) -> Sequence[CalibrationMap]:
        """Return the maps in force.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        pairs = select(CalibrationMapRow.strategy, CalibrationMapRow.confidence_source).distinct()
        async with transaction(self._sessions) as session:
            states = [await _state(session, *pair, most=1) for pair in (await session.execute(pairs)).all()]
        return [state.in_force for state in states if state.in_force is not None]

    async def vote_labels(self) -> Sequence[LabelCount]:
        """Return the newest labelled votes, at most 5,000, counted by their evidence.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        evidence = RunRow.document["deliberation"]["evidence"]
        newest = (
            select(evidence.label("evidence"), RunFeedbackRow.score.label("score"))
            .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
            .where(*LABELLED, *VOTED, evidence["agreeing"].astext.is_not(None))
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_VOTE_LABELS)
            .subquery()
        )
        query = select(newest.c.evidence, func.count(), func.count().filter(newest.c.score >= RIGHT_FROM)).group_by(
            newest.c.evidence
        )
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        return readable(rows, lambda row: LabelCount(evidence=_evidence(row[0]), labels=row[1], right=row[2]))

    async def source_records(self) -> Sequence[SourceRecord]:
        """Return how often each source of votes was right, over the newest labelled votes.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        account = RunRow.document["deliberation"]
        newest = (
            select(account.label("account"), (RunFeedbackRow.score >= RIGHT_FROM).label("is_right"))
            .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
            .where(*LABELLED, *VOTED, account["evidence"]["agreeing"].astext.is_not(None))
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_VOTE_LABELS)
            .subquery()
        )
        votes = newest.c.account["votes"]
        listed = case((func.jsonb_typeof(votes) == "array", votes), else_=literal_column("'[]'::jsonb", JSONB))
        one = func.jsonb_array_elements(listed).table_valued("value", joins_implicitly=True)
        cast = type_coerce(one.c.value, JSONB)
        model, mode = func.coalesce(cast["source_model"].astext, ""), cast["mode"].astext
        agent = case((model != "", literal(MODEL_ALONE) + model), else_=cast["agent"].astext)
        wins = newest.c.account["groups"][0]["votes"].contains(cast["index"])
        is_valid = func.jsonb_path_exists(
            newest.c.account,
            literal_column("'$.groups[*].votes[*] ? (@ == $index)'::jsonpath"),
            func.jsonb_build_object("index", cast["index"]),
        )
        is_known = newest.c.is_right | wins | ~is_valid
        query = (
            select(agent, mode, func.count().filter(is_known), func.count().filter(newest.c.is_right & wins))
            .select_from(newest)
            .join(one, true())
            .group_by(agent, mode)
            .order_by(agent, mode)
        )
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        return [
            SourceRecord(agent=agent or "", mode=VoteMode(mode), votes=votes, right=right)
            for agent, mode, votes, right in rows
            if mode in VoteMode.__members__  # a newer version may know more
        ]

    async def system_one_records(self, model: str = "") -> Sequence[KindRecord]:
        """Return how often System 1 was right on each kind of question, over its newest answers drawn at random.

        Labels that users volunteered do not count. The kind of a question is that of the answer's own run, else that
        of a labelled run of System 2 of the same owner and question: a call of System 1 by name looks for none.

        Args:
            model: Name of System 1's model in the catalogue; empty without a catalogue.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        own = func.coalesce(RunRow.document["route"]["kind"].astext, "")
        question = RunRow.document["messages_digest"].astext
        labelled = (IS_SERVED, RunFeedbackRow.counts, RunFeedbackRow.origin.in_(sorted(DRAWN_AT_RANDOM)))
        newest = (
            select(
                own.label("kind"),
                RunRow.key_name.label("owner"),
                question.label("question"),
                (RunFeedbackRow.score >= RIGHT_FROM).label("is_right"),
            )
            .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
            .where(*labelled, is_system_one(model), RunRow.outcome == "ANSWERED")
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_VOTE_LABELS)
            .cte("newest")
        )
        others = (
            select(
                RunRow.key_name.label("owner"),
                question.label("question"),
                own.label("kind"),
                RunRow.run_id.label("run_id"),
            )
            .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
            .where(*labelled, RunRow.strategy != Strategy.SYSTEM_ONE, own != "")
            .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
            .limit(MOST_PAIRED_LABELS)
            .cte("others")
        )
        by = (others.c.owner, others.c.question)
        named = select(others).ext(distinct_on(*by)).order_by(*by, others.c.run_id.desc()).cte("named")
        kind = func.coalesce(func.nullif(newest.c.kind, ""), named.c.kind, "")
        is_same = (named.c.owner == newest.c.owner) & (named.c.question == newest.c.question)
        query = (
            select(kind, func.count(), func.count().filter(newest.c.is_right))
            .select_from(newest.outerjoin(named, is_same))
            .group_by(kind)
            .order_by(kind)
        )
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        return [KindRecord(kind=row[0], labels=row[1], right=row[2]) for row in rows]

    async def labelled_pairs(self, system_two: Sequence[str], model: str = "") -> Sequence[LabelledPair]:
        """Return the newest questions that are labelled for System 1 and for one of these strategies.

        Args:
            system_two: Strategies of System 2.
            model: Name of System 1's model in the catalogue; empty without a catalogue.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await labelled_pairs(session, system_two, model)

    async def newest_label(self) -> datetime | None:
        """Return when the newest label that counts was received; None without one.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        query = (
            select(RunFeedbackRow.created_at)
            .where(RunFeedbackRow.counts)
            .order_by(RunFeedbackRow.created_at.desc())
            .limit(1)
        )
        async with transaction(self._sessions) as session:
            return (await session.execute(query)).scalar()

    async def promise_labels(self, after: int) -> Sequence[StoredPromiseLabel]:
        """Return the labels that were stored after the one of this number, the oldest first, at most 20,000.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await promise_labels(session, after)

    async def promise_counts(self) -> PromiseCounts:
        """Return how many labels are stored, and how many drawn votes have none though a later one of their key has.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return await promise_counts(session)

    async def progress(self) -> Sequence[Progress]:
        """Return the progress of each strategy and source.

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
        fitted = (func.coalesce(newest.c.number, 0), func.coalesce(newest.c.observations, 0))
        query = (
            _of_labelled(RunRow.strategy, RunRow.confidence_source, func.count(), *fitted, since)
            .outerjoin(
                newest,
                (newest.c.strategy == RunRow.strategy) & (newest.c.confidence_source == RunRow.confidence_source),
            )
            .group_by(RunRow.strategy, RunRow.confidence_source, newest.c.number, newest.c.observations)
            .order_by(RunRow.strategy, RunRow.confidence_source)
        )
        async with transaction(self._sessions) as session:
            rows = (await session.execute(query)).all()
        names = ("strategy", "confidence_source", "judged", "fits", "fitted_on", "since")
        return [Progress(**dict(zip(names, row, strict=True))) for row in rows]

    async def keep(self, progress: Progress, fitted: FittedMap, fitted_at: datetime) -> bool:
        """Store a map as the one after those of `progress`; return False when another replica was first.

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
        async with transaction(self._sessions) as session:
            added = await session.execute(adding.returning(CalibrationMapRow.number))
            return added.first() is not None


async def _state(
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
    return with_in_force(readable(rows, _map), version, pinned=pin is not None)


async def _check_map(session: AsyncSession, choice: MapChoice) -> None:
    query = select(CalibrationMapRow.number).where(
        CalibrationMapRow.strategy == choice.strategy,
        CalibrationMapRow.confidence_source == choice.confidence_source,
        CalibrationMapRow.version == choice.version,
    )
    if choice.version and (await session.scalars(query)).first() is None:
        raise CalibrationNotFound(
            f"there is no recalibration map {choice.version!r} for {choice.strategy} from {choice.confidence_source}",
            version=choice.version,
            strategy=choice.strategy,
            confidence_source=choice.confidence_source,
        )


def _map(row: CalibrationMapRow) -> CalibrationMap:
    fields = {name: getattr(row, name) for name in CalibrationMap.__dataclass_fields__ if name != "in_force"}
    return from_stored(fields, CalibrationMap, record="calibration_map", record_id=row.version)


def _evidence(document: object) -> VoteEvidence:
    return from_stored(document, VoteEvidence, record="vote_evidence", record_id=dumps(document).decode())


def _of_labelled(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """Select `columns` of every answer with a confidence and feedback that counts."""
    feedback_on_run = RunFeedbackRow.run_id == RunRow.run_id
    return select(*columns).select_from(RunRow).join(RunFeedbackRow, feedback_on_run).where(*LABELLED)


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Less than the rounding of thresholds: with it float noise below an edge does not decide, and 0.45 begins its bin.
NOISE = 5e-10
TO_SYSTEM_TWO = func.count().filter(RunRow.system == Route.SYSTEM_TWO)


class PostgresActivations:
    """This store reads the activations of the runs in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def seen(self, request: GetActivationsRequest) -> ActivationsSeen:
        """Return the activations of the selected runs, all of one moment.

        Of the System 1 answers with feedback that counts, it reads the newest 100,000.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            by_reason = (await session.execute(_by_reason(request))).all()
            in_bins = (await session.execute(_in_bins(request))).all()
            mean, quantiles = (await session.execute(_spread(request))).one()
            labelled = unpacked(await session.scalar(packed(_labelled(request))), 2)
        discrimination = await in_thread(auroc, labelled[:, 0], ~right(labelled[:, 1]))
        runs, system_two = sum(row[1] for row in by_reason), sum(row[2] for row in by_reason)
        return ActivationsSeen(
            runs=runs,
            system_two=system_two,
            system_two_share=system_two / runs if runs else None,
            runs_by_reason={row[0] or "unknown": row[1] for row in by_reason},
            bins=_bins(request.bins, {row[0]: (row[1], row[2]) for row in in_bins}),
            mean=None if mean is None else float(mean),
            quantiles=dict(zip(map(str, QUANTILES), quantiles, strict=True)) if quantiles else {},
            judged=discrimination.positives + discrimination.negatives,
            auroc=discrimination.auroc,
            auroc_low=discrimination.low,
            auroc_high=discrimination.high,
        )


def _by_reason(request: GetActivationsRequest) -> Select[Any]:
    return _of_runs(request, RunRow.reason, func.count(), TO_SYSTEM_TWO).group_by(RunRow.reason)


def _in_bins(request: GetActivationsRequest) -> Select[Any]:
    number = func.least(func.width_bucket(RunRow.activation + NOISE, 0, 1, request.bins), request.bins).label("number")
    return _assessed(request, number, func.count(), TO_SYSTEM_TWO).group_by(number)


def _spread(request: GetActivationsRequest) -> Select[Any]:
    quantiles = func.percentile_cont(list(QUANTILES)).within_group(RunRow.activation)
    return _assessed(request, func.avg(RunRow.activation), quantiles)


def _labelled(request: GetActivationsRequest) -> Select[Any]:
    """Select activation and score of the newest System 1 answers with feedback that counts."""
    return (
        _assessed(request, RunRow.activation, RunFeedbackRow.score)
        .join(RunFeedbackRow, RunFeedbackRow.run_id == RunRow.run_id)
        .where(
            RunFeedbackRow.counts,
            RunRow.strategy == Strategy.SYSTEM_ONE,
            RunRow.outcome == "ANSWERED",
        )
        .order_by(RunFeedbackRow.created_at.desc(), RunRow.run_id.desc())
        .limit(MOST_OBSERVATIONS)
    )


def _assessed(request: GetActivationsRequest, *columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """Select `columns` of the runs with an activation of their own, not one cached from an earlier turn."""
    return _of_runs(request, *columns).where(RunRow.activation.is_not(None), RunRow.reason != CACHED)


def _of_runs(request: GetActivationsRequest, *columns: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    """Select `columns` of the requested runs whose system was chosen."""
    times = began_within(request.since, request.until)
    query = select(*columns).select_from(RunRow).where(RunRow.system != "", IS_SERVED, *times)
    if request.config_version:
        query = query.where(RunRow.config_version == without_nul(request.config_version))
    if request.assessor:
        query = query.where(RunRow.assessor == without_nul(request.assessor))
    return query


def _bins(count: int, runs_by_number: dict[int, tuple[int, int]]) -> list[ActivationBin]:
    return [
        ActivationBin(lower=(number - 1) / count, upper=number / count, runs=runs, system_two=system_two)
        for number in range(1, count + 1)
        for runs, system_two in [runs_by_number.get(number, (0, 0))]
    ]
