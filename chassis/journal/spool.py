"""Documents wait in a bounded file, one a line, which only this user can read: they hold conversations."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

# Size of the lines that are read at once [bytes].
CHUNK = 1024 * 1024


class Spool:
    """The spool holds documents on disk.

    Every method but the constructor may raise `OSError`, and may be called from any thread.

    Args:
        path: The file.
        max_bytes: Its largest size [bytes].
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # Bytes at the start of the file that were dropped; they leave the disk when nothing waits behind them.
        self._dropped = 0

    def size(self) -> int:
        """Return the size of what waits [bytes, >= 0]."""
        return max(0, self._length() - self._dropped)

    def put(self, documents: Sequence[bytes]) -> list[bytes]:
        """Append `documents`, and return those that had no room.

        Each append begins a line of its own, so that a line which an earlier one left torn spoils no other.
        """
        left: list[bytes] = []
        with self._lock, open_private(self.path) as file:
            room = self._max_bytes - self._length() - 1
            file.write(b"\n")
            for document in documents:
                if len(document) + 1 > room:
                    left.append(document)
                    continue
                file.write(document + b"\n")
                room -= len(document) + 1
            file.flush()
            os.fsync(file.fileno())
        return left

    def read(self, most: int = CHUNK) -> list[bytes]:
        """Return the first lines that wait, with their line ends: about `most` bytes of them, one at least."""
        with self._lock, self.path.open("rb") as file:
            file.seek(self._dropped)
            return file.readlines(most)

    def drop(self, count: int) -> None:
        """Drop the first `count` bytes that wait."""
        with self._lock:
            self._dropped += count
            if self._dropped >= min(self._length(), self._max_bytes // 2):
                self._shorten()

    def _length(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _shorten(self) -> None:
        """Remove the dropped bytes from disk."""
        with self.path.open("r+b") as file:
            file.seek(self._dropped)
            rest = file.read()
            file.seek(0)
            file.write(rest)
            file.truncate()
        self._dropped = 0


def open_private(path: Path) -> BinaryIO:
    """Open `path` to append to it, readable by this user alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def is_whole(document: bytes) -> bool:
    """Return whether a document is JSON, which a line that a crash tore is not."""
    try:
        return isinstance(orjson.loads(document), dict)
    except orjson.JSONDecodeError:
        return False
