"""Raw records of an evaluation: JSON lines, one fact a line, appended as they arrive, and read again after a kill."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from chassis.json_text import loads
from chassis.locking import try_lock
from evals.errors import RecordsUnusable

Record = Mapping[str, Any]


def read_records(file: Path) -> Sequence[Record]:
    """The records of `file`, which may be compressed (`.gz`); without its last line where a kill has cut it off.

    Raises:
        RecordsUnusable: When the file cannot be read, or another line is no record.
    """
    try:
        content = file.read_bytes()
        *whole, _torn = (gzip.decompress(content) if file.suffix == ".gz" else content).split(b"\n")
    except (OSError, EOFError) as error:
        raise RecordsUnusable(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return [_record(line, f"{file}, line {number}") for number, line in enumerate(whole, 1)]


def _record(line: bytes, place: str) -> Record:
    try:
        record = loads(line)
    except ValueError as error:
        raise RecordsUnusable(f"{place}: no record: {error}") from error
    if not isinstance(record, dict) or "kind" not in record:
        raise RecordsUnusable(f"{place}: no record: it has no kind")
    return record


class RecordFile:
    """Appends records to a file; a context manager. A line that a kill has cut off is dropped first.

    One run has the file at a time.

    Args:
        file: Where to; made with its folder if missing.

    Raises:
        RecordsUnusable: On entering, when another run writes to it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> Self:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._lines = self._file.open("ab+")
        if not try_lock(self._lines):
            self._lines.close()
            raise RecordsUnusable(f"another run writes to {self._file}; wait for its end, or take another --out")
        self._lines.seek(0)
        self._lines.truncate(self._lines.read().rfind(b"\n") + 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()

    def add(self, record: Record) -> None:
        """Append one record; it is in the file when this returns."""
        self._lines.write(orjson.dumps(record) + b"\n")
        self._lines.flush()
