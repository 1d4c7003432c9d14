"""Documents that the database will never take are kept for a person to look at, in bounded files beside the spool."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from chassis.journal.metrics import JOURNAL_REJECTED, JOURNAL_REJECTED_REMOVED
from chassis.journal.spool import open_private
from chassis.log import logger

FILE_BYTES = 16 * 1024 * 1024
# What all files of a spool may hold together [bytes], and how many they may be [count].
MOST_BYTES = 64 * 1024 * 1024
MOST_FILES = 100
# A file gets no more documents after this time, so that those in it are of nearly one age [s].
FILE_S = 24 * 3600.0

_log = logger(__name__)


class RejectedDocuments:
    """These files hold what the database will never take, one document a line; the oldest file is removed first.

    Every method may raise `OSError`, and may be called from any thread.

    Args:
        spool: The file of the spool; the others lie beside it as `<its name>.<time>.rejected`.
        name: What the documents are, for logs, such as `runs`.
    """

    def __init__(self, spool: Path, name: str) -> None:
        self._name = name
        self._folder, self._stem = spool.parent, spool.stem
        self._lock = threading.Lock()

    def keep(self, documents: Sequence[bytes]) -> None:
        """Keep documents, and count and log them; one larger than a file may be is counted and logged alone."""
        with self._lock:
            kept = [document for document in documents if len(document) < FILE_BYTES]
            for document in kept:
                self._append(document + b"\n")
            _log.error(
                f"{self._name} cannot be recorded", count=len(documents), kept_in=str(self._folder / self._pattern)
            )
            removed = len(documents) - len(kept) + self._remove_what_is_over()
        self._count_removed(removed, f"the files of rejected {self._name} are full")
        JOURNAL_REJECTED.inc(len(documents))

    def remove_older(self, days: float) -> None:
        """Remove the files with a document that was set aside longer ago than `days` [days]."""
        newest = time.time() - days * 24 * 3600 + FILE_S
        with self._lock:
            removed = sum(_removed(file) for file in self._files() if file.stat().st_mtime < newest)
        self._count_removed(removed, f"older than {days:g} days")

    @property
    def _pattern(self) -> str:
        return f"{self._stem}.*rejected"  # with the one file that versions before kept, which has no time

    def _files(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self._folder.glob(self._pattern), key=lambda file: (file.stat().st_mtime_ns, file.name))

    def _append(self, line: bytes) -> None:
        now_ms = time.time_ns() // 1_000_000
        newest = max(self._folder.glob(f"{self._stem}.*.rejected"), default=None)
        if newest is not None:
            began_ms = int(newest.suffixes[-2][1:])
            is_usable = now_ms - began_ms < 1000 * FILE_S and newest.stat().st_size + len(line) <= FILE_BYTES
            now_ms = began_ms if is_usable else max(now_ms, began_ms + 1)
        with open_private(self._folder / f"{self._stem}.{now_ms:015d}.rejected") as file:
            file.write(line)

    def _remove_what_is_over(self) -> int:
        """Remove the oldest files until the rest is within the bounds; return how many documents were in them."""
        files, removed = self._files(), 0
        sizes = [file.stat().st_size for file in files]
        while len(files) > MOST_FILES or sum(sizes) > MOST_BYTES:
            sizes.pop(0)
            removed += _removed(files.pop(0))
        return removed

    def _count_removed(self, count: int, why: str) -> None:
        if count:
            JOURNAL_REJECTED_REMOVED.inc(count)
            _log.error(f"rejected {self._name} were removed", count=count, problem=why)


def _removed(file: Path) -> int:
    """Remove a file, and return how many documents were in it."""
    count = file.read_bytes().count(b"\n")
    file.unlink()
    return count
