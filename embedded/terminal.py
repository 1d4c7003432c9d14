"""Writes lines to the terminal, or to the log of a part."""

import sys

from kernel.errors import without_user_info


def print_line(line: str = "") -> None:
    """Write one line at once, without the user information of URLs in it."""
    sys.stdout.write(without_user_info(line) + "\n")
    sys.stdout.flush()
