"""A bounded file in which documents wait, one a line, for nobody else to read: runs hold conversations."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

# Lines that are read at once [bytes].
CHUNK = 1024 * 1024


class Spool:
    """Documents on disk. Every method but the constructor may raise `OSError`, and may be called from any thread.

    Args:
        path: The file.
        max_bytes: Its largest size [bytes].
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # Bytes at its beginning that are forgotten; they go from disk when nothing waits behind them.
        self._forgotten = 0

    def size(self) -> int:
        """Bytes that wait [bytes, >= 0]."""
        return max(0, self._length() - self._forgotten)

    def put(self, documents: Sequence[bytes]) -> int:
        """Append `documents`, and return how many found no room.

        Each append begins a line of its own: what an earlier one left torn spoils nothing else.
        """
        lost = 0
        with self._lock, _private(self.path) as file:
            room = self._max_bytes - self._length() - 1
            file.write(b"\n")
            for document in documents:
                if len(document) + 1 > room:
                    lost += 1
                    continue
                file.write(document + b"\n")
                room -= len(document) + 1
            file.flush()
            os.fsync(file.fileno())
        return lost

    def read(self, most: int = CHUNK) -> list[bytes]:
        """The first lines that wait, with their line ends: about `most` bytes of them, one at least."""
        with self._lock, self.path.open("rb") as file:
            file.seek(self._forgotten)
            return file.readlines(most)

    def drop(self, count: int) -> None:
        """Forget the first `count` bytes that wait."""
        with self._lock:
            self._forgotten += count
            if self._forgotten >= min(self._length(), self._max_bytes // 2):
                self._shorten()

    def _length(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _shorten(self) -> None:
        """Take what is forgotten from disk."""
        with self.path.open("r+b") as file:
            file.seek(self._forgotten)
            rest = file.read()
            file.seek(0)
            file.write(rest)
            file.truncate()
        self._forgotten = 0

    def set_aside(self, documents: Sequence[bytes]) -> Path:
        """Keep documents that nobody will take in a file of their own, and return it."""
        aside = self.path.with_suffix(".rejected")
        with _private(aside) as file:
            file.writelines(document + b"\n" for document in documents)
        return aside


def _private(path: Path) -> BinaryIO:
    """`path` opened to append to, for this user alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
