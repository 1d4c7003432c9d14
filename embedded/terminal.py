"""Lines for the person at the terminal, and for the log of a part."""

import sys


def say(line: str = "") -> None:
    """Write one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
