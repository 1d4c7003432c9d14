"""Writes lines to the terminal, or to the log of a part."""

import sys


def print_line(line: str = "") -> None:
    """Write one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
