"""Batches are stored in PostgreSQL; every method is one short transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, without_nul
from services.router.core.batch_states import ACTIVE, CANCELLABLE, ENDED, BatchStatus, Step, next_step
from services.router.errors import BatchEnded, BatchNotFound, TooManyBatches
from services.router.service.batches.values import OUTPUT, ListBatchesRequest, RequestBatch
from services.router.store.batches.files import lock_key
from services.router.store.batches.tables import BatchLineRow, BatchRow, FileLineRow, FileRow

PER_KEY, ACTIVE_PER_KEY = "METACOG_ROUTER_BATCHES_PER_KEY", "METACOG_ROUTER_BATCHES_ACTIVE_PER_KEY"
NOW = func.clock_timestamp()
TIMES = tuple(f"{status}_at" for status in BatchStatus if status is not BatchStatus.VALIDATING)
ADD_LINES = text(
    "INSERT INTO router.batch_lines (batch_id, number, custom_id, due_at) SELECT :batch_id, number, custom_id, now() "
    "FROM unnest(CAST(:numbers AS int[]), CAST(:custom_ids AS text[])) AS given(number, custom_id)"
)


class PostgresBatches:
    """This store keeps batches in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def create(self, batch: RequestBatch, most: int, most_active: int) -> None:
        """Store a batch; where the key has as many as it may, its oldest one that has ended goes, with its results.

        Raises:
            TooManyBatches: When the key has as many that have not ended as it may.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await lock_key(session, batch.key_name)
            counting = select(func.count(), func.count().filter(BatchRow.status.in_(ACTIVE)))
            count, active = (await session.execute(counting.where(BatchRow.key_name == batch.key_name))).one()
            if active >= most_active:
                raise _too_many(f"{most_active} batches that have not ended", ACTIVE_PER_KEY, most_active, "wait")
            if active >= most:
                raise _too_many(f"{most} batches that have not ended", PER_KEY, most, "wait")
            if count >= most:
                await _delete_oldest(session, batch.key_name, count - most + 1)
            session.add(
                BatchRow(
                    batch_id=batch.batch_id,
                    key_name=batch.key_name,
                    endpoint=batch.endpoint,
                    input_file_id=batch.input_file_id,
                    labels=None if batch.labels is None else without_nul(dict(batch.labels)),
                    status=batch.status,
                    created_at=batch.times["created_at"],
                    expires_at=batch.times["expires_at"],
                    output_expires_s=batch.output_expires_s,
                )
            )

    async def find(self, batch_id: str, key_name: str) -> RequestBatch:
        """Return a batch of a key.

        Raises:
            BatchNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return batch_of(await _row(session, batch_id, key_name))

    async def page(self, request: ListBatchesRequest, key_name: str) -> Sequence[RequestBatch]:
        """Return the batches of a page, newest first, and one more if there is one.

        Raises:
            BatchNotFound: When there is no batch `after`.
            DatabaseUnavailable: When the database is away.
        """
        query = select(BatchRow).where(BatchRow.key_name == key_name).order_by(BatchRow.batch_id.desc())
        async with transaction(self._sessions) as session:
            if request.after:
                after = await _row(session, request.after, key_name, field="after")
                query = query.where(BatchRow.batch_id < after.batch_id)
            return [batch_of(row) for row in (await session.scalars(query.limit(request.limit + 1))).all()]

    async def cancel(self, batch_id: str, key_name: str) -> RequestBatch:
        """Begin to cancel a batch of a key, unless that has begun; whoever takes a step of it has no claim any more.

        Raises:
            BatchNotFound: When there is none.
            BatchEnded: When it has ended, or its last step has begun.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            row = await _row(session, batch_id, key_name, lock=True)
            if row.status == BatchStatus.CANCELLING:
                return batch_of(row)
            if row.status not in CANCELLABLE:
                message = f"the batch {batch_id} is {row.status}, so that it cannot be cancelled"
                raise BatchEnded(message, batch_id=batch_id, status=row.status)
            row.status, row.claim, row.cancelling_at = BatchStatus.CANCELLING, "", await _now(session)
            await session.flush()
            return batch_of(row)

    async def claim_step(self, claim: str, lease_s: float) -> tuple[RequestBatch, Step] | None:
        """Return a batch with a step to take, and its step; no other process gets it while the lease lasts.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        left = _lines(~BatchLineRow.is_done)
        working = _lines(~BatchLineRow.is_done, BatchLineRow.claim != "", BatchLineRow.due_at > NOW)
        late = BatchRow.expires_at <= NOW
        is_free = or_(BatchRow.claim.in_(("", claim)), BatchRow.claimed_until < NOW)
        has_step = or_(
            BatchRow.status.in_((BatchStatus.VALIDATING, BatchStatus.FINALIZING)),
            and_(BatchRow.status == BatchStatus.IN_PROGRESS, or_(~left, and_(late, ~working))),
            and_(BatchRow.status == BatchStatus.CANCELLING, ~working),
        )
        query = (
            select(BatchRow, left, working, late)
            .where(BatchRow.status.in_(ACTIVE), is_free, has_step)
            .order_by(BatchRow.claimed_until.asc().nulls_first(), BatchRow.batch_id)
            .limit(1)
            .with_for_update(of=BatchRow, skip_locked=True)
        )
        async with transaction(self._sessions) as session:
            found = (await session.execute(query)).first()
            if found is None:
                return None
            row, *facts = found
            row.claim, row.claimed_until = claim, await _now(session) + timedelta(seconds=lease_s)
            await session.flush()
            has_left, is_working, is_late = facts
            step = next_step(BatchStatus(row.status), left=has_left, working=is_working, late=is_late)
            return batch_of(row), step

    async def clear_lines(self, batch: RequestBatch, claim: str, lease_s: float) -> bool:
        """Delete the lines of a batch that is validated anew; return whether the claim still holds."""
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, lease_s):
                return False
            await session.execute(delete(BatchLineRow).where(BatchLineRow.batch_id == batch.batch_id))
            return True

    async def add_lines(self, batch: RequestBatch, claim: str, lease_s: float, lines: Mapping[int, str]) -> bool:
        """Store lines, as `custom_id` by number, and renew the claim; return whether it still held."""
        given = {"batch_id": batch.batch_id, "numbers": list(lines), "custom_ids": list(lines.values())}
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, lease_s):
                return False
            if lines:
                await session.execute(ADD_LINES, given)
            return True

    async def begin(self, batch: RequestBatch, claim: str, total: int, files: Sequence[str]) -> bool:
        """Let the lines of a batch be answered, with two new files for results; return whether the claim still held."""
        output, errors = files
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, 0):
                return False
            now = await _now(session)
            for file_id, kind in ((output, "output"), (errors, "error")):
                name = f"{batch.batch_id}_{kind}.jsonl"
                session.add(
                    FileRow(
                        file_id=file_id,
                        key_name=batch.key_name,
                        purpose=OUTPUT,
                        filename=name,
                        is_ready=False,
                        created_at=now,
                    )
                )
            values = {"total_count": total, "output_file_id": output, "error_file_id": errors}
            await _enter(session, batch.batch_id, BatchStatus.IN_PROGRESS, now, **values)
            return True

    async def fail(self, batch: RequestBatch, claim: str, problems: Sequence[Mapping[str, Any]]) -> bool:
        """End a batch whose input file cannot be used; return whether the claim still held."""
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, 0):
                return False
            await session.execute(delete(BatchLineRow).where(BatchLineRow.batch_id == batch.batch_id))
            errors = without_nul([dict(problem) for problem in problems])
            await _enter(session, batch.batch_id, BatchStatus.FAILED, await _now(session), errors=errors)
            return True

    async def finalize(self, batch: RequestBatch, claim: str) -> bool:
        """Begin the last step of a batch; return whether the claim still held."""
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, 0):
                return False
            await _enter(session, batch.batch_id, BatchStatus.FINALIZING, await _now(session))
            return True

    async def unanswered(self, batch: RequestBatch, most: int) -> Sequence[tuple[int, str]]:
        """Return number and `custom_id` of lines without a result, the first ones."""
        query = (
            select(BatchLineRow.number, BatchLineRow.custom_id)
            .where(BatchLineRow.batch_id == batch.batch_id, ~BatchLineRow.is_done)
            .order_by(BatchLineRow.number)
            .limit(most)
        )
        async with transaction(self._sessions) as session:
            return [(number, custom_id) for number, custom_id in (await session.execute(query)).all()]

    async def give_up(self, batch: RequestBatch, claim: str, lease_s: float, errors: Mapping[int, bytes]) -> bool:
        """Store errors of lines, by number, that get no answer; return whether the claim still held."""
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, lease_s):
                return False
            ending = (
                update(BatchLineRow)
                .where(
                    BatchLineRow.batch_id == batch.batch_id,
                    BatchLineRow.number.in_(errors),
                    ~BatchLineRow.is_done,
                )
                .values(is_done=True, claim="")
                .returning(BatchLineRow.number)
            )
            ended = (await session.scalars(ending)).all()
            if ended:
                rows = [{"file_id": batch.error_file_id, "number": n, "content": errors[n]} for n in ended]
                await session.execute(insert(FileLineRow), rows)
                count = BatchRow.failed_count + len(ended)
                await session.execute(
                    update(BatchRow).where(BatchRow.batch_id == batch.batch_id).values(failed_count=count)
                )
            return True

    async def end(self, batch: RequestBatch, claim: str, status: BatchStatus) -> bool:
        """Close the files of results, of which an empty one is deleted, and end a batch; return if the claim held."""
        async with transaction(self._sessions) as session:
            if not await _renew(session, batch, claim, 0):
                return False
            now = await _now(session)
            files = {
                "output_file_id": await _close(session, batch.output_file_id, now, batch.output_expires_s),
                "error_file_id": await _close(session, batch.error_file_id, now, batch.output_expires_s),
            }
            await session.execute(delete(BatchLineRow).where(BatchLineRow.batch_id == batch.batch_id))
            await _enter(session, batch.batch_id, status, now, **files)
            return True

    async def lines_left(self) -> int:
        """Return how many lines of all batches have no result yet."""
        left = BatchRow.total_count - BatchRow.completed_count - BatchRow.failed_count
        async with transaction(self._sessions) as session:
            counting = select(func.coalesce(func.sum(left), 0)).where(BatchRow.status.in_(ACTIVE))
            return int((await session.scalars(counting)).one())

    async def delete_old(self, age: timedelta, most: int) -> int:
        """Delete at most `most` batches that have ended and are older than an age; return how many."""
        old = (
            select(BatchRow.batch_id).where(BatchRow.status.in_(ENDED), BatchRow.created_at < NOW - age).limit(most)
        ).scalar_subquery()
        async with transaction(self._sessions) as session:
            deleting = delete(BatchRow).where(BatchRow.batch_id.in_(old)).returning(BatchRow.batch_id)
            return len((await session.scalars(deleting)).all())


def batch_of(row: BatchRow) -> RequestBatch:
    """Return the batch of a row; its files of results are named once it has ended."""
    return RequestBatch(
        batch_id=row.batch_id,
        key_name=row.key_name,
        endpoint=row.endpoint,
        input_file_id=row.input_file_id,
        output_file_id=row.output_file_id,
        error_file_id=row.error_file_id,
        has_ended=row.status in ENDED,
        labels=row.labels,
        errors=row.errors,
        status=BatchStatus(row.status),
        times={name: getattr(row, name) for name in ("created_at", "expires_at", *TIMES)},
        total=row.total_count,
        completed=row.completed_count,
        failed=row.failed_count,
        output_expires_s=row.output_expires_s,
    )


def _lines(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(BatchLineRow.batch_id == BatchRow.batch_id, *conditions)


async def _row(session: AsyncSession, batch_id: str, key_name: str, *, field: str = "", lock: bool = False) -> BatchRow:
    row = await session.get(BatchRow, without_nul(batch_id), with_for_update=lock or None)
    if row is None or row.key_name != key_name:
        named = {"field": field} if field else {}
        raise BatchNotFound(f"there is no batch {batch_id!r} of this key", batch_id=batch_id, **named)
    return row


async def _now(session: AsyncSession) -> datetime:
    now: datetime = (await session.scalars(select(NOW))).one()
    return now


async def _renew(session: AsyncSession, batch: RequestBatch, claim: str, lease_s: float) -> bool:
    """Lock the row of a batch, and renew the claim of its step; return whether the claim still holds."""
    renewing = (
        update(BatchRow)
        .where(BatchRow.batch_id == batch.batch_id, BatchRow.claim == claim, BatchRow.status == batch.status)
        .values(claimed_until=NOW + timedelta(seconds=lease_s))
    )
    return (await session.scalars(renewing.returning(BatchRow.batch_id))).first() is not None


async def _enter(session: AsyncSession, batch_id: str, status: BatchStatus, now: object, **values: object) -> None:
    given = {**values, "status": status, f"{status}_at": now, "claim": ""}
    await session.execute(update(BatchRow).where(BatchRow.batch_id == batch_id).values(given))


async def _close(session: AsyncSession, file_id: str | None, now: datetime, expires_s: int | None) -> str | None:
    """Make a file of results ready, as created now, and return its name; None, and delete it, where it has no line."""
    if file_id is None:
        return None
    size = func.octet_length(FileLineRow.content)
    counting = select(func.count(), func.coalesce(func.sum(size), 0)).where(FileLineRow.file_id == file_id)
    count, size_bytes = (await session.execute(counting)).one()
    if not count:
        await session.execute(delete(FileRow).where(FileRow.file_id == file_id))
        return None
    values: dict[str, Any] = {"is_ready": True, "created_at": now, "line_count": count, "size_bytes": size_bytes}
    if expires_s is not None:
        values["expires_at"] = now + timedelta(seconds=expires_s)
    await session.execute(update(FileRow).where(FileRow.file_id == file_id).values(values))
    return file_id


async def _delete_oldest(session: AsyncSession, key_name: str, most: int) -> None:
    """Delete the oldest batches of a key that have ended, and let their files of results be gone."""
    ended = select(BatchRow.batch_id).where(BatchRow.key_name == key_name, BatchRow.status.in_(ENDED))
    oldest = ended.order_by(BatchRow.batch_id).limit(most).scalar_subquery()
    deleting = delete(BatchRow).where(BatchRow.batch_id.in_(oldest))
    deleted = (await session.execute(deleting.returning(BatchRow.output_file_id, BatchRow.error_file_id))).all()
    files = [file_id for row in deleted for file_id in row if file_id is not None]
    await session.execute(update(FileRow).where(FileRow.file_id.in_(files)).values(expires_at=NOW))


def _too_many(what: str, setting: str, most: int, advice: str) -> TooManyBatches:
    return TooManyBatches(
        f"this key has {what}, as many as it may ({setting}); {advice}", most=str(most), setting=setting
    )
