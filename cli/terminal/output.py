"""What is shown: tables and texts for a person on standard output, notes on standard error, JSON for a program."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNKNOWN = "unknown"
SNIPPET = 160
# What speaks for thinking hard is drawn in the first, what speaks for calm in the other.
HOT, COOL = "dark_orange", "cyan"

# Where standard output is no terminal nothing is gained by narrow tables.
WIDTH_OF_FILES = 160

_wide = not sys.stdout.isatty() and not os.environ.get("COLUMNS")
shown = Console(highlight=False, markup=False, width=WIDTH_OF_FILES if _wide else None)
told = Console(stderr=True, highlight=False, markup=False)


def emit(document: object) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write(piece: str) -> None:
    """Write a piece of text as it comes, with nothing in it that would steer the terminal."""
    sys.stdout.write(safe(piece))
    sys.stdout.flush()


def safe(said: str) -> str:
    r"""`said` without signs that steer a terminal.

    Example:
        >>> safe("so\x1b[31m!\n")
        'so�[31m!\n'
    """
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in said)


def text(said: str, style: str = "") -> Text:
    """`said` as it is: no markup, and nothing that would steer the terminal."""
    return Text(safe(said), style=style)


def number(item: float | None, digits: int = 2, nothing: str = "") -> str:
    """A number, or what stands for one that is undefined.

    Example:
        >>> number(0.4567), number(None), number(None, nothing="unknown")
        ('0.46', '', 'unknown')
    """
    return nothing if item is None else f"{item:.{digits}f}"


def cost(usage: Mapping[str, Any]) -> str:
    """What something cost, in the currency of the prices; nothing where that is not known.

    Example:
        >>> cost({"cost": 0.00021})
        '0.00021'
    """
    return "" if usage.get("cost") is None else f"{usage['cost']:.6g}"


def bar(share: float, width: int = 20) -> str:
    """A share as a bar.

    Example:
        >>> bar(0.5, 4), bar(1.2, 4)
        ('██··', '████')
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "·" * (width - full)


def snippet(said: str, most: int = SNIPPET) -> str:
    r"""The beginning of a text, on one line.

    Example:
        >>> snippet("one two\nthree", 9)
        'one two …'
    """
    line = " ".join(said.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table of texts that others wrote."""
    made = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return made


def facts(found: Mapping[str, str]) -> Table:
    """Names with what is known of them; what is empty is left out."""
    made = Table(show_header=False, box=None, pad_edge=False)
    for name, fact in found.items():
        if fact.strip():
            made.add_row(Text(name, style="dim"), text(fact))
    return made


class Phase:
    """Says on the terminal what is being waited for; says nothing where standard error is no terminal."""

    def __init__(self) -> None:
        self._status: Any = None

    def say(self, what: str) -> None:
        """Show what is being waited for."""
        if not told.is_terminal:
            return
        if self._status is None:
            self._status = told.status(text(what))
            self._status.start()
        else:
            self._status.update(text(what))

    def done(self) -> None:
        """Clear the line for what comes."""
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def phases() -> Iterator[Phase]:
    """A phase that is cleared away whatever happens."""
    phase = Phase()
    try:
        yield phase
    finally:
        phase.done()
