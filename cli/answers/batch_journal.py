"""The results of a batch so far, on disk: whatever happens to the process, what was answered is not asked again."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from chassis.locking import locked
from cli.answers.batch_lines import Answered, Asked, result_line
from cli.terminal.exits import UnusableInput


class Journal:
    """Results as they come, one line each, next to the file that they will be in.

    Attributes:
        path: Where it is: the final file's name with `.part`.
        name: Name of the batch, kept over interruptions.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self.path = path
        self.name = ""
        self._answered: dict[str, Answered] = {}
        self._read()

    def results(self, asked: Sequence[Asked]) -> dict[str, Answered]:
        """Results of these very requests, by custom_id; those of others do not count."""
        digests = {one.custom_id: one.digest for one in asked}
        return {name: done for name, done in self._answered.items() if digests.get(name) == done.digest}

    def record(self, answered: Answered) -> None:
        """Keep a result, for good when this returns."""
        self._answered[answered.custom_id] = answered
        self._append(asdict(answered))

    def leave(self) -> None:
        """Take the journal away again, unless it holds results."""
        if not self._answered:
            self.path.unlink()

    def _read(self) -> None:
        """Take up what an earlier process has left; a last line that was cut short does not count."""
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            self._take(json.loads(line))
        self._file.truncate(whole)
        self._file.seek(whole)
        if not self.name:
            self.name = uuid4().hex
            self._append({"batch": self.name})

    def _take(self, entry: Mapping[str, Any]) -> None:
        if "batch" in entry:
            self.name = str(entry["batch"])
        else:
            answered = Answered(**entry)
            self._answered[answered.custom_id] = answered

    def _append(self, entry: Mapping[str, object]) -> None:
        self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def journal(out: Path) -> Iterator[Journal]:
    """The journal of the batch whose results go to `out`; one process has it at a time.

    Raises:
        UnusableInput: When another process works on it, it cannot be written, or is none of ours.
    """
    path = out.with_name(f"{out.name}.part")
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    except OSError as wrong:
        raise UnusableInput(f"{path} cannot be written: {wrong.strerror}") from wrong
    with file:
        try:
            if not locked(file):
                raise UnusableInput(f"another process works on {out}")
            kept = Journal(file, path)
        except (ValueError, TypeError) as wrong:
            raise UnusableInput(f"{path} is no journal of a batch; move it away: {wrong}") from wrong
        yield kept


def write_results(out: Path, kept: Journal, asked: Sequence[Asked], results: Mapping[str, Answered]) -> None:
    """Write the final file: a line for each request, in their order, whole or not at all."""
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as file:
        for number, one in enumerate(asked, start=1):
            file.write(result_line(f"batch_req_{kept.name[:12]}_{number}", results[one.custom_id]))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(out)
