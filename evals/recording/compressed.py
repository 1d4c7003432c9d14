"""Compressed records: each is a gzip member of its own, so that a file can grow, and be read again after a kill."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from chassis.locking import try_lock
from evals.errors import RecordsUnusable
from evals.records import Record

# Bytes that one file may have after decompression.
MOST_BYTES = 256 * 1024**2
GZIP = 31


def read_compressed(file: Path) -> Sequence[Record]:
    """The records of `file`; without its last one where a kill has cut it off.

    Raises:
        RecordsUnusable: When the file cannot be read, or holds something else.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise RecordsUnusable(f"{file} cannot be read: {error.strerror}") from error
    return _records(raw, file)[0]


class CompressedRecords:
    """Appends records to a compressed file; a context manager. One that a kill has cut off is dropped first.

    One run has the file at a time.

    Args:
        file: Where to; made with its folder if missing.

    Attributes:
        records: What the file held on entering.

    Raises:
        RecordsUnusable: On entering, when another run writes to it, or it holds something else.
    """

    records: Sequence[Record]

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> Self:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._opened = self._file.open("ab+")
        try:
            if not try_lock(self._opened):
                raise RecordsUnusable(
                    f"another run writes to {self._file}; wait for its end, or take another --recording"
                )
            self._opened.seek(0)
            self.records, whole = _records(self._opened.read(), self._file)
            self._opened.truncate(whole)
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def add(self, record: Record) -> None:
        """Append one record; it is in the file when this returns."""
        self._opened.write(gzip.compress(orjson.dumps(record) + b"\n", mtime=0))
        self._opened.flush()


def _records(raw: bytes, file: Path) -> tuple[Sequence[Record], int]:
    """Return the records in `raw`, and the bytes that they take; an incomplete last one is left out."""
    records: list[Record] = []
    start, size = 0, 0
    while start < len(raw):
        member = zlib.decompressobj(wbits=GZIP)
        try:
            lines = member.decompress(raw[start:], MOST_BYTES - size)
            found = [orjson.loads(line) for line in lines.splitlines()] if member.eof else []
        except (zlib.error, orjson.JSONDecodeError) as error:
            raise RecordsUnusable(f"{file}, byte {start}: no compressed record: {error}") from error
        if not member.eof:
            if member.unconsumed_tail:
                raise RecordsUnusable(f"{file} holds more than {MOST_BYTES} bytes after decompression")
            break
        if not all(isinstance(record, dict) and "kind" in record for record in found):
            raise RecordsUnusable(f"{file}, byte {start}: no record: it has no kind")
        records += found
        size += len(lines)
        start = len(raw) - len(member.unused_data)
    return records, start
