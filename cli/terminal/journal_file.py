"""A journal file stores what a command has done, one JSON object a line, so that an interruption loses nothing."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from chassis.locking import try_lock
from cli.terminal.exits import UnusableInput


class JournalFile:
    """A journal file is open for one process; the last line of a killed one is left out where it is incomplete.

    Attributes:
        path: Path of the file.
        entries: Entries of earlier processes, in their order.

    Raises:
        ValueError: On construction, when a line is not a JSON object.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self.path = path
        self.entries: Sequence[Mapping[str, Any]] = self._read()

    def append(self, entry: Mapping[str, object]) -> None:
        """Store an entry; it is on disk when this returns."""
        self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> list[Mapping[str, Any]]:
        entries: list[Mapping[str, Any]] = []
        complete = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                if not entries and not line.startswith(b'{"'):  # it is a file of another kind: nothing is cut off
                    raise ValueError("line 1 is not a JSON object")
                break
            complete += len(line)
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise ValueError(f"line {len(entries) + 1} is not a JSON object")
            entries.append(entry)
        self._file.truncate(complete)
        self._file.seek(complete)
        return entries


@contextmanager
def open_journal_file(path: Path, *, result: Path, kind: str) -> Iterator[JournalFile]:
    """Open the journal at `path`, which exists from then on, for one process at a time.

    Args:
        path: Path of the journal.
        result: File that the user knows, which the journal belongs to; it may be the journal itself.
        kind: What it is a journal of, in words.

    Raises:
        UnusableInput: Another process has it open, it cannot be written, or the file is not a journal.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    except OSError as error:
        raise UnusableInput(f"{path} cannot be written: {error.strerror}") from error
    with file:
        if not try_lock(file):
            raise UnusableInput(f"another process works on {result}")
        try:
            opened = JournalFile(file, path)
        except ValueError as error:
            raise not_a_journal(path, kind, error) from error
        yield opened


def not_a_journal(path: Path, kind: str, reason: object) -> UnusableInput:
    """Return the error for a file that is not a journal of `kind`."""
    return UnusableInput(f"{path} is not a journal of {kind}; move it away: {reason}")
