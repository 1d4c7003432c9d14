"""Files are stored in PostgreSQL, one row a line; every method is one short transaction."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, without_nul
from services.router.core.batch_states import ACTIVE
from services.router.errors import FileInUse, FileNotFound, TooManyFiles
from services.router.service.batches.values import INPUT, ListFilesRequest, StoredFile
from services.router.store.batches.tables import BatchRow, FileLineRow, FileRow

# Age from which an upload that never ended is deleted.
LOST_AFTER = timedelta(hours=1)
FILE_COLUMNS = (
    "file_id",
    "purpose",
    "filename",
    "size_bytes",
    "line_count",
    "longest_line",
    "created_at",
    "expires_at",
)
ADD_LINES = text(
    "INSERT INTO router.file_lines (file_id, number, content) SELECT :file_id, :first + i - 1, content "
    "FROM unnest(CAST(:lines AS bytea[])) WITH ORDINALITY AS given(content, i)"
)
LOCK_KEY = text("SELECT pg_advisory_xact_lock(1836345958, hashtext(:key_name))")


async def lock_key(session: AsyncSession, key_name: str) -> None:
    """Let one transaction after another count what a key has, and add to it."""
    await session.execute(LOCK_KEY, {"key_name": key_name})


class PostgresFiles:
    """This store keeps files in the router's schema."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def begin(self, file: StoredFile, key_name: str, most: int) -> None:
        """Store a file that has no line yet, and is not ready.

        Raises:
            TooManyFiles: When the key has as many files as it may.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await lock_key(session, key_name)
            counting = select(func.count()).where(FileRow.key_name == key_name, FileRow.purpose == INPUT, _is_there())
            if (await session.scalars(counting)).one() >= most:
                message = f"this key has {most} files, as many as it may (METACOG_ROUTER_FILES_PER_KEY); delete some"
                raise TooManyFiles(message, most=str(most), setting="METACOG_ROUTER_FILES_PER_KEY")
            session.add(
                FileRow(**{name: getattr(file, name) for name in FILE_COLUMNS}, key_name=key_name, is_ready=False)
            )

    async def add_lines(self, file_id: str, first: int, lines: Sequence[bytes]) -> None:
        """Store lines of a file, numbered from `first`.

        Raises:
            StatementRejected: When the file was deleted meanwhile.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await session.execute(ADD_LINES, {"file_id": file_id, "first": first, "lines": list(lines)})

    async def finish(self, file: StoredFile) -> None:
        """Make a file ready.

        Raises:
            FileNotFound: When it was deleted meanwhile.
            DatabaseUnavailable: When the database is away.
        """
        values: dict[str, Any] = {name: getattr(file, name) for name in FILE_COLUMNS}
        finishing = update(FileRow).where(FileRow.file_id == file.file_id).values(**values, is_ready=True)
        async with transaction(self._sessions) as session:
            if (await session.scalars(finishing.returning(FileRow.file_id))).first() is None:
                raise _not_found(file.file_id)

    async def find(self, file_id: str, key_name: str) -> StoredFile:
        """Return a file of a key that is ready.

        Raises:
            FileNotFound: When there is none.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            return _file(await _row(session, file_id, key_name))

    async def page(self, request: ListFilesRequest, key_name: str) -> Sequence[StoredFile]:
        """Return the files of a page, and one more where there are more.

        Raises:
            FileNotFound: When there is no file `after`.
            DatabaseUnavailable: When the database is away.
        """
        query = select(FileRow).where(FileRow.key_name == key_name, FileRow.is_ready, _is_there())
        if request.purpose:
            query = query.where(FileRow.purpose == without_nul(request.purpose))
        is_ascending = request.order == "asc"
        async with transaction(self._sessions) as session:
            if request.after:
                after = (await _row(session, request.after, key_name, field="after")).file_id
                query = query.where(FileRow.file_id > after if is_ascending else FileRow.file_id < after)
            order = FileRow.file_id.asc() if is_ascending else FileRow.file_id.desc()
            rows = (await session.scalars(query.order_by(order).limit(request.limit + 1))).all()
        return [_file(row) for row in rows]

    async def read(self, file_id: str, after: int, most: int) -> Sequence[tuple[int, bytes]]:
        """Return at most `most` lines of a file after the one with the number `after`, each with its number.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        query = (
            select(FileLineRow.number, FileLineRow.content)
            .where(FileLineRow.file_id == file_id, FileLineRow.number > after)
            .order_by(FileLineRow.number)
            .limit(most)
        )
        async with transaction(self._sessions) as session:
            return [(number, content) for number, content in (await session.execute(query)).all()]

    async def delete(self, file_id: str, key_name: str) -> None:
        """Delete a file of a key.

        Raises:
            FileNotFound: When there is none.
            FileInUse: While a batch that has not ended reads it.
            DatabaseUnavailable: When the database is away.
        """
        async with transaction(self._sessions) as session:
            await lock_key(session, key_name)
            reading = select(BatchRow.batch_id).where(
                BatchRow.key_name == key_name,
                BatchRow.input_file_id == without_nul(file_id),
                BatchRow.status.in_(ACTIVE),
            )
            batch_id = (await session.scalars(reading)).first()
            if batch_id is not None:
                message = f"the batch {batch_id} reads the file {file_id!r}; cancel it, or wait until it has ended"
                raise FileInUse(message, file_id=file_id, batch_id=batch_id)
            deleting = delete(FileRow).where(
                FileRow.file_id == without_nul(file_id), FileRow.key_name == key_name, _is_no_result_of_active()
            )
            if (await session.scalars(deleting.returning(FileRow.file_id))).first() is None:
                raise _not_found(file_id)

    async def delete_old(self, age: timedelta | None, most: int) -> int:
        """Delete at most `most` files that are expired, or older than an age, or whose upload never ended.

        Args:
            age: The age, by the database's clock; None: no age is too old.
            most: Files at most [count].

        Returns:
            How many were deleted.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        now = func.clock_timestamp()
        lost = and_(~FileRow.is_ready, FileRow.purpose == INPUT, FileRow.created_at < now - LOST_AFTER)
        conditions = [FileRow.expires_at <= now, lost]
        if age is not None:
            conditions.append(FileRow.created_at < now - age)
        is_read = exists().where(BatchRow.input_file_id == FileRow.file_id, BatchRow.status.in_(ACTIVE))
        old = select(FileRow.file_id).where(or_(*conditions), ~is_read, _is_no_result_of_active()).limit(most)
        async with transaction(self._sessions) as session:
            gone = await session.scalars(
                delete(FileRow).where(FileRow.file_id.in_(old.scalar_subquery())).returning(FileRow.file_id)
            )
            return len(gone.all())


async def _row(session: AsyncSession, file_id: str, key_name: str, field: str = "") -> FileRow:
    row = await session.get(FileRow, without_nul(file_id))
    is_there = row is not None and row.key_name == key_name and row.is_ready
    if row is None or not is_there or (row.expires_at and row.expires_at <= await _now(session)):
        raise _not_found(file_id, field)
    return row


async def _now(session: AsyncSession) -> Any:  # noqa: ANN401 - a time
    return (await session.scalars(select(func.clock_timestamp()))).one()


def _file(row: FileRow) -> StoredFile:
    return StoredFile(**{name: getattr(row, name) for name in FILE_COLUMNS})


def _not_found(file_id: str, field: str = "") -> FileNotFound:
    named = {"field": field} if field else {}
    return FileNotFound(f"there is no file {file_id!r} of this key", file_id=file_id, **named)


def _is_there() -> ColumnElement[bool]:
    return or_(FileRow.expires_at.is_(None), FileRow.expires_at > func.clock_timestamp())


def _is_no_result_of_active() -> ColumnElement[bool]:
    """Return the condition that no batch writes the file now."""
    writes = or_(BatchRow.output_file_id == FileRow.file_id, BatchRow.error_file_id == FileRow.file_id)
    return ~exists().where(writes, BatchRow.status.in_(ACTIVE))
