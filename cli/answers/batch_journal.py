"""The journal of a batch stores its results on disk: after an interruption no answered request is sent again."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from cli.answers.batch_lines import BatchRequest, BatchResult, result_line
from cli.terminal.journal_file import JournalFile, not_a_journal, open_journal_file


class BatchJournal:
    """A journal has one line for each result.

    Attributes:
        path: Path of the journal: that of the final file, with `.part`.
        name: Name of the batch, which an interruption does not change.
    """

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self.path = file.path
        self.name = ""
        self._answered: dict[str, BatchResult] = {}
        for entry in file.entries:
            self._add(entry)
        if not self.name:
            self.name = uuid4().hex
            file.append({"batch": self.name})

    def results(self, batch_requests: Sequence[BatchRequest]) -> dict[str, BatchResult]:
        """Return the results of exactly these requests, by custom_id."""
        digests = {one.custom_id: one.digest for one in batch_requests}
        return {name: done for name, done in self._answered.items() if digests.get(name) == done.digest}

    def record(self, answered: BatchResult) -> None:
        """Store a result durably."""
        self._answered[answered.custom_id] = answered
        self._file.append(asdict(answered))

    def delete_if_empty(self) -> None:
        """Delete the journal, unless it contains results."""
        if not self._answered:
            self.path.unlink()

    def _add(self, entry: Mapping[str, Any]) -> None:
        if "batch" in entry:
            self.name = str(entry["batch"])
        else:
            answered = BatchResult(**entry)
            self._answered[answered.custom_id] = answered


@contextmanager
def open_journal(out: Path) -> Iterator[BatchJournal]:
    """Open the journal of the batch with the results file `out`, for one process at a time.

    Raises:
        UnusableInput: Another process has it open, it cannot be written, or the file is not a journal.
    """
    path = out.with_name(f"{out.name}.part")
    with open_journal_file(path, result=out, kind="a batch") as file:
        try:
            opened = BatchJournal(file)
        except TypeError as error:
            raise not_a_journal(path, "a batch", error) from error
        yield opened


def write_results(
    out: Path, stored: BatchJournal, batch_requests: Sequence[BatchRequest], results: Mapping[str, BatchResult]
) -> None:
    """Write the final file atomically: a line for each request, in their order."""
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as file:
        for number, one in enumerate(batch_requests, start=1):
            file.write(result_line(f"batch_req_{stored.name[:12]}_{number}", results[one.custom_id]))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(out)
