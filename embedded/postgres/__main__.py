"""Runs the database server as a process: `python -m embedded.postgres --data DIR`.

It starts the server, or adopts the one that runs on DIR; it ends with status 1 when the server ends, and stops the
server on SIGTERM.
"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from embedded.errors import SuiteError
from embedded.postgres.server import start, stop, watch
from embedded.terminal import print_line


def main() -> int:
    """Run a server on the given folder until SIGTERM; return 0, or 1 if it cannot start or has ended."""
    parser = argparse.ArgumentParser(prog="python -m embedded.postgres", description="PostgreSQL with pgvector.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--ready-file", type=Path, help="file to create once the database accepts connections")
    options = parser.parse_args()
    data = options.data.absolute()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        print_line(f"ready: {start(data)}")
        if options.ready_file is not None:
            options.ready_file.touch()
        status = watch(data, stopping)
        stop(data)
    except SuiteError as error:
        print_line(error.message)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
