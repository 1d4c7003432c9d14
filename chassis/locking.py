"""This module lets one process at a time work on a file."""

import fcntl
from typing import IO


def try_lock(file: IO[bytes]) -> bool:
    """Return whether this process has locked `file` until it is closed; False where another one has.

    Raises:
        OSError: When the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
