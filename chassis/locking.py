"""One process at a time works on a file."""

import fcntl
from typing import IO


def locked(file: IO[bytes]) -> bool:
    """Return whether `file` is this opener's alone from now until it is closed; False where another one has it.

    Raises:
        OSError: When the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
