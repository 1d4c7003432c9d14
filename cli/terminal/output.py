"""Output of the commands: tables and texts on standard output, notes on standard error, JSON for programs."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

UNKNOWN = "unknown"
SNIPPET = 160
# The first color marks high activation and warnings, the second low activation.
HOT, COOL = "dark_orange", "cyan"

# Width of the tables where standard output is not a terminal.
WIDTH_OF_FILES = 160

_wide = not sys.stdout.isatty() and not os.environ.get("COLUMNS")
stdout = Console(highlight=False, markup=False, width=WIDTH_OF_FILES if _wide else None)
stderr = Console(stderr=True, highlight=False, markup=False)


def print_json(document: object) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write(piece: str) -> None:
    """Write a piece of text at once, without control characters."""
    sys.stdout.write(safe(piece))
    sys.stdout.flush()


def safe(content: str) -> str:
    r"""Replace the control characters in `content`, which could control the terminal.

    Example:
        >>> safe("so\x1b[31m!\n")
        'so�[31m!\n'
    """
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in content)


def text(content: str, style: str = "") -> Text:
    """Return `content` as Rich text, without markup and control characters."""
    return Text(safe(content), style=style)


def number(item: float | None, digits: int = 2, nothing: str = "") -> str:
    """Format a number, or return `nothing` for None.

    Example:
        >>> number(0.4567), number(None), number(None, nothing="unknown")
        ('0.46', '', 'unknown')
    """
    return nothing if item is None else f"{item:.{digits}f}"


def cost(amount: float | None) -> str:
    """Format a cost in the currency of the prices; empty if it is unknown.

    Example:
        >>> cost(0.00021), cost(None)
        ('0.00021', '')
    """
    return "" if amount is None else f"{amount:.6g}"


def moment(time: "Timestamp | None") -> str:
    """Format a time in UTC, to the second.

    Example:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> moment(Timestamp(seconds=1_772_368_200))
        '2026-03-01 12:30:00'
        >>> moment(None)
        'unknown'
    """
    return UNKNOWN if time is None else f"{time.ToDatetime():%Y-%m-%d %H:%M:%S}"


def bar(share: float, width: int = 20) -> str:
    """Draw a share as a bar.

    Example:
        >>> bar(0.5, 4), bar(1.2, 4)
        ('██··', '████')
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "·" * (width - full)


def snippet(content: str, limit: int = SNIPPET) -> str:
    r"""Return the beginning of a text, on one line.

    Example:
        >>> snippet("one two\nthree", 9)
        'one two …'
    """
    line = " ".join(content.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table of untrusted texts; names in its first column are folded where they are too long, never cut."""
    first, *others = columns
    headings: list[Column | str] = [Column(first, overflow="fold"), *others]
    return _filled(Table(*headings, box=None, pad_edge=False, header_style="bold"), rows)


def plain_table(rows: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table of untrusted texts without column headings."""
    return _filled(Table(show_header=False, box=None, pad_edge=False), rows)


def _filled(empty: Table, rows: Sequence[Sequence[str | Text]]) -> Table:
    for row in rows:
        empty.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return empty


def facts(found: Mapping[str, str]) -> Table:
    """Return a table of names and values, without the empty values."""
    return plain_table([[Text(name, style="dim"), fact] for name, fact in found.items() if fact.strip()])


class ProgressLine:
    """A progress line shows the current step on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._status: Any = None

    def show(self, step: str) -> None:
        """Show the current step."""
        if not stderr.is_terminal:
            return
        if self._status is None:
            self._status = stderr.status(text(step))
            self._status.start()
        else:
            self._status.update(text(step))

    def clear(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def progress_line() -> Iterator[ProgressLine]:
    """Yield a progress line, and clear it at the end or on an exception."""
    line = ProgressLine()
    try:
        yield line
    finally:
        line.clear()
