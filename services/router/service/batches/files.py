"""Files are uploaded, listed, read and deleted by the key that they belong to."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol

from chassis.admission import AdmissionLimit, CallerShares
from chassis.errors import RequestOverLimit
from chassis.ids import new_id
from chassis.serving.multipart import FormField, FormFile, FormPiece
from chassis.serving.wire import checked_text, from_plain
from kernel.errors import MalformedRequest, MetacogError
from kernel.values import value
from services.router.core.batch_lines import LineSplitter, LineTooLong
from services.router.errors import FileNotFound
from services.router.service.batches.values import FILE, INPUT, ExpiresAfter, ListFilesRequest, StoredFile

# Uploads at a time, and those of one API key [count]; lines and bytes of one that are stored at once.
UPLOADS, UPLOADS_OF_KEY, STORED_LINES, STORED_BYTES = 8, 4, 1000, 256 * 1024
# Bytes that are read of a file at once, unless one line has more [bytes].
READ_BYTES = 256 * 1024
KEEP_SETTING = "METACOG_ROUTER_KEEP_CONTENTS"
EXPIRY = ("expires_after[anchor]", "expires_after[seconds]")
MOST_FILENAME = 255


@value
class FileLimits:
    """These limits hold for files.

    Attributes:
        size_bytes: Size of a file [bytes].
        lines: Lines of a file [count].
        line_bytes: Size of a line [bytes].
        per_key: Uploaded files of one API key [count].
    """

    size_bytes: int
    lines: int
    line_bytes: int
    per_key: int


class FileStore(Protocol):
    """This store holds files. Every method may raise `DatabaseUnavailable`."""

    async def begin(self, file: StoredFile, key_name: str, most: int) -> None:
        """Store a file that has no line yet, and is not ready; raises `TooManyFiles` beyond `most` of a key."""

    async def add_lines(self, file_id: str, first: int, lines: Sequence[bytes]) -> None:
        """Store lines of a file that is not ready, numbered from `first`."""

    async def finish(self, file: StoredFile) -> None:
        """Make a file ready; raises `FileNotFound` when it was deleted meanwhile."""

    async def find(self, file_id: str, key_name: str) -> StoredFile:
        """Return a file of a key that is ready; raises `FileNotFound`."""

    async def page(self, request: ListFilesRequest, key_name: str) -> Sequence[StoredFile]:
        """Return the files of a page, and one more if there is one; raises `FileNotFound` for an unknown `after`."""

    async def read(self, file_id: str, after: int, most_bytes: int) -> Sequence[tuple[int, bytes]]:
        """Return lines of a file after the one with the number `after`, each with its number: what fits, or one."""

    async def delete(self, file_id: str, key_name: str) -> None:
        """Let a file of a key be gone; raises `FileNotFound`, or `FileInUse` while a batch reads it."""


def not_kept(field: str) -> MalformedRequest:
    """Return the error of a request that needs stored contents where none are."""
    message = f"{field}: {KEEP_SETTING} is false here, so that no file is stored; send each request by itself"
    return MalformedRequest(message, field=field, setting=KEEP_SETTING)


class Files:
    """Files of callers.

    Args:
        store: Where they are.
        limits: Their limits.
        keeps: Whether contents are stored.
        now: Wall clock.
    """

    def __init__(self, store: FileStore, limits: FileLimits, *, keeps: bool, now: Callable[[], datetime]) -> None:
        self._store = store
        self._limits = limits
        self._keeps = keeps
        self._now = now
        self._uploads = AdmissionLimit("file uploads", UPLOADS)
        self._of_keys = CallerShares("file uploads", places=UPLOADS_OF_KEY, waiting=0)

    async def upload(self, pieces: AsyncIterator[FormPiece], key_name: str) -> StoredFile:
        """Store the file of a form as it comes; what is stored of one that fails is deleted.

        Raises:
            MalformedRequest: For another purpose or field, without a file, or where contents are not stored.
            RequestOverLimit: For a file, a line, or a number of lines over its limit.
            TooManyFiles: When the key has as many files as it may.
            Overloaded: When as many uploads are in progress as may be, in all or of the key.
            DatabaseUnavailable: When the database is away.
        """
        if not self._keeps:
            raise not_kept("file")
        async with self._of_keys.place():
            with self._uploads.place():
                return await self._stored(pieces, key_name)

    async def _stored(self, pieces: AsyncIterator[FormPiece], key_name: str) -> StoredFile:
        upload = _Upload(self._store, self._limits, key_name, self._now())
        try:
            async for piece in pieces:
                await upload.take(piece)
            return await upload.finish()
        except BaseException:
            await upload.drop()
            raise

    async def get(self, file_id: str, key_name: str) -> StoredFile:
        """Return a file; raises `FileNotFound`."""
        return await self._store.find(file_id, key_name)

    async def page(self, request: ListFilesRequest, key_name: str) -> tuple[Sequence[StoredFile], bool]:
        """Return a page of files, and whether there are more; raises `FileNotFound` for an unknown `after`."""
        found = await self._store.page(request, key_name)
        return found[: request.limit], len(found) > request.limit

    async def delete(self, file_id: str, key_name: str) -> None:
        """Delete a file; raises `FileNotFound`, or `FileInUse` while a batch reads it."""
        await self._store.delete(file_id, key_name)

    async def content(self, file: StoredFile) -> AsyncGenerator[bytes, None]:
        """Yield a file in pieces.

        Raises:
            FileNotFound: When it was deleted meanwhile.
        """
        async for lines in pages_of(self._store, file):
            yield b"".join(content for _, content in lines)


async def pages_of(store: FileStore, file: StoredFile) -> AsyncIterator[Sequence[tuple[int, bytes]]]:
    """Yield the lines of a file with their numbers, page by page; a page has a bounded size.

    Raises:
        FileNotFound: When it was deleted meanwhile.
    """
    after, left = 0, file.line_count
    while left > 0:
        lines = await store.read(file.file_id, after, READ_BYTES)
        if not lines:
            raise FileNotFound(f"the file {file.file_id!r} was deleted meanwhile", file_id=file.file_id)
        yield lines
        after, left = lines[-1][0], left - len(lines)


class _Upload:
    """An upload stores a file while it comes."""

    def __init__(self, store: FileStore, limits: FileLimits, key_name: str, now: datetime) -> None:
        self._store = store
        self._limits = limits
        self._key_name = key_name
        self._fields: dict[str, str] = {}
        self._file = StoredFile(
            file_id=f"{FILE}{new_id()}",
            purpose=INPUT,
            filename="",
            size_bytes=0,
            line_count=0,
            created_at=now,
        )
        self._splitter = LineSplitter(limits.line_bytes)
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._stored = self._size = 0
        self._filename: str | None = None

    async def take(self, piece: FormPiece) -> None:
        """Take a piece of the form."""
        if isinstance(piece, FormField):
            if piece.name not in ("purpose", *EXPIRY):
                raise MalformedRequest(f"{piece.name}: there is no such field; leave it out", field=piece.name)
            self._fields[piece.name] = piece.text
        elif isinstance(piece, FormFile):
            await self._begin(piece)
        else:
            await self._data(piece)

    async def finish(self) -> StoredFile:
        """Store what is left, and make the file ready."""
        if self._filename is None:
            raise MalformedRequest("file: give a file, as a part of the form with a file name", field="file")
        self._check_purpose()
        await self._add(self._splitter.rest())
        await self._flush()
        file = StoredFile(
            file_id=self._file.file_id,
            purpose=INPUT,
            filename=self._filename,
            size_bytes=self._size,
            line_count=self._splitter.count,
            created_at=self._file.created_at,
            expires_at=self._expires_at(),
        )
        await self._store.finish(file)
        return file

    async def drop(self) -> None:
        """Let what is stored be deleted soon; where that fails, it is later, as every file that never became ready."""
        if self._filename is not None:
            with suppress(MetacogError):
                await self._store.delete(self._file.file_id, self._key_name)

    async def _begin(self, part: FormFile) -> None:
        if part.name != "file" or self._filename is not None:
            raise MalformedRequest("file: give one file, in the field `file`", field="file")
        if "purpose" in self._fields:  # it may also come after the file
            self._check_purpose()
        self._filename = str(checked_text(part.filename))[:MOST_FILENAME]
        await self._store.begin(self._file, self._key_name, self._limits.per_key)

    async def _data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limits.size_bytes:
            raise _over("the file", self._limits.size_bytes, "bytes", "FILE_MAX_BYTES")
        try:
            await self._add(self._splitter.lines(data))
        except LineTooLong as error:
            raise _over(f"line {error.line}", self._limits.line_bytes, "bytes", "FILE_LINE_MAX_BYTES") from error

    async def _add(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._splitter.count > self._limits.lines:
                raise _over("the file", self._limits.lines, "lines", "FILE_MAX_LINES")
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            if len(self._waiting) >= STORED_LINES or self._waiting_bytes >= STORED_BYTES:
                await self._flush()

    async def _flush(self) -> None:
        if self._waiting:
            await self._store.add_lines(self._file.file_id, self._stored + 1, self._waiting)
            self._stored += len(self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def _check_purpose(self) -> None:
        if self._fields.get("purpose") != INPUT:
            given = self._fields.get("purpose", "")[:100]
            raise MalformedRequest(f"purpose: only {INPUT!r} is served, not {given!r}", field="purpose")

    def _expires_at(self) -> datetime | None:
        given: Mapping[str, str] = {name: self._fields[name] for name in EXPIRY if name in self._fields}
        if not given:
            return None
        anchor, seconds = (given.get(name, "") for name in EXPIRY)
        try:
            rule = from_plain({"anchor": anchor, "seconds": seconds}, ExpiresAfter)
        except MalformedRequest as error:
            message = "expires_after: give `anchor` created_at, and `seconds` of 3600 to 2592000"
            raise MalformedRequest(message, field="expires_after") from error
        return self._file.created_at + timedelta(seconds=rule.seconds)


def _over(what: str, most: int, unit: str, setting: str) -> RequestOverLimit:
    name = f"METACOG_ROUTER_{setting}"
    return RequestOverLimit(
        f"file: {what} has more than {most} {unit} ({name}); send a smaller file",
        field="file",
        setting=name,
        most=str(most),
    )
