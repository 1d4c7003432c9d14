"""Files are stored in PostgreSQL, one row a line; every method is one short transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from chassis.database import Sessions, transaction, without_nul
from services.router.core.batch_states import ACTIVE
from services.router.errors import FileInUse, FileNotFound, TooManyFiles
from services.router.service.batches.values import INPUT, ListFilesRequest, StoredFile
from services.router.store.batches.tables import BatchRow, FileRow

# Age from which an upload that never ended is gone.
LOST_AFTER = timedelta(hours=1)
# Lines that are read at once at most [count].
READ_LINES = 2000
FILE_COLUMNS = (
    "file_id",
    "purpose",
    "filename",
    "size_bytes",
    "line_count",
    "created_at",
    "expires_at",
)
ADD_LINES = text(
    "INSERT INTO router.file_lines (file_id, number, content) SELECT :file_id, :first + i - 1, content "
    "FROM unnest(CAST(:lines AS bytea[])) WITH ORDINALITY AS given(content, i)"
)
READ = text(
    "SELECT number, content FROM (SELECT number, content, octet_length(content) AS size,"
    " sum(octet_length(content)) OVER (ORDER BY number) AS up_to_it FROM (SELECT number, content FROM router.file_lines"
    " WHERE file_id = :file_id AND number > :after ORDER BY number LIMIT :most_lines) AS next) AS sized"
    " WHERE up_to_it <= :most_bytes OR up_to_it = size ORDER BY number"
)
DELETE_LINES = text(
    "DELETE FROM router.file_lines WHERE file_id = :file_id AND number IN"
    " (SELECT number FROM router.file_lines WHERE file_id = :file_id ORDER BY number LIMIT :most)"
)
NOW = func.clock_timestamp()
# The same while files are looked for: an index finds what is before a time that stands still.
STILL = func.statement_timestamp()
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
            given: dict[str, Any] = {name: getattr(file, name) for name in FILE_COLUMNS}
            given["expires_at"] = await _now(session) + LOST_AFTER
            session.add(FileRow(**given, key_name=key_name, is_ready=False))

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
        finishing = update(FileRow).where(FileRow.file_id == file.file_id, ~FileRow.is_ready, _is_there())
        finishing = finishing.values(**values, is_ready=True)
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

    async def read(self, file_id: str, after: int, most_bytes: int) -> Sequence[tuple[int, bytes]]:
        """Return lines of a file after the one with the number `after`, each with its number: what fits, or one.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        given = {"file_id": file_id, "after": after, "most_lines": READ_LINES, "most_bytes": most_bytes}
        async with transaction(self._sessions) as session:
            return [(number, content) for number, content in (await session.execute(READ, given)).all()]

    async def delete(self, file_id: str, key_name: str) -> None:
        """Let a file of a key be gone at once; `delete_gone` deletes it.

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
            ending = update(FileRow).where(
                FileRow.file_id == without_nul(file_id),
                FileRow.key_name == key_name,
                _is_there(),
                _is_no_result_of_active(),
            )
            ending = ending.values(expires_at=NOW).returning(FileRow.file_id)
            if (await session.scalars(ending)).first() is None:
                raise _not_found(file_id)

    async def end_old(self, age: timedelta, most: int) -> int:
        """Let at most `most` files that are older than an age, by the database's clock, be gone; return how many.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        old = (
            select(FileRow.file_id)
            .where(FileRow.created_at < STILL - age, FileRow.is_ready, _is_there(), _is_not_read())
            .limit(most)
        )
        ending = update(FileRow).where(FileRow.file_id.in_(old.scalar_subquery())).values(expires_at=NOW)
        async with transaction(self._sessions) as session:
            return len((await session.scalars(ending.returning(FileRow.file_id))).all())

    async def delete_gone(self, most_lines: int) -> bool:
        """Delete a piece of a file that is gone, and with the last one the file; return whether there was one.

        Raises:
            DatabaseUnavailable: When the database is away.
        """
        choosing = (
            select(FileRow.file_id)
            .where(FileRow.expires_at <= STILL, _is_not_read())
            .order_by(FileRow.expires_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        async with transaction(self._sessions) as session:
            file_id = (await session.scalars(choosing)).first()
            if file_id is None:
                return False
            deleting: Any = await session.execute(DELETE_LINES, {"file_id": file_id, "most": most_lines})
            if deleting.rowcount < most_lines:
                await session.execute(delete(FileRow).where(FileRow.file_id == file_id))
            return True


async def _row(session: AsyncSession, file_id: str, key_name: str, field: str = "") -> FileRow:
    row = await session.get(FileRow, without_nul(file_id))
    is_there = row is not None and row.key_name == key_name and row.is_ready
    if row is None or not is_there or (row.expires_at and row.expires_at <= await _now(session)):
        raise _not_found(file_id, field)
    return row


async def _now(session: AsyncSession) -> datetime:
    now: datetime = (await session.scalars(select(NOW))).one()
    return now


def _file(row: FileRow) -> StoredFile:
    return StoredFile(**{name: getattr(row, name) for name in FILE_COLUMNS})


def _not_found(file_id: str, field: str = "") -> FileNotFound:
    named = {"field": field} if field else {}
    return FileNotFound(f"there is no file {file_id!r} of this key", file_id=file_id, **named)


def _is_there() -> ColumnElement[bool]:
    return or_(FileRow.expires_at.is_(None), FileRow.expires_at > NOW)


def _is_no_result_of_active() -> ColumnElement[bool]:
    """Return the condition that no batch writes the file now."""
    writes = or_(BatchRow.output_file_id == FileRow.file_id, BatchRow.error_file_id == FileRow.file_id)
    return ~exists().where(writes, BatchRow.status.in_(ACTIVE))


def _is_not_read() -> ColumnElement[bool]:
    """Return the condition that no batch reads the file, or will."""
    return ~exists().where(BatchRow.input_file_id == FileRow.file_id, BatchRow.status.in_(ACTIVE))
