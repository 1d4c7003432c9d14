"""The account that the database server runs as, and the folders that this account must own or traverse."""

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from embedded.errors import SuiteError
from embedded.postgres.files import programs_folder, sockets_of
from embedded.terminal import print_line

SYSTEM_USER = "metacog-postgres"
PASSED_ON = ("PATH", "TZ", "METACOG_SUITE")


class Identity(TypedDict, total=False):
    """An identity holds the arguments of `subprocess` that run a child as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The account that PostgreSQL's programs run as, and their environment, which contains no secret of the suite."""

    uid: int
    gid: int
    identity: Identity = field(default_factory=lambda: Identity())

    @property
    def environment(self) -> dict[str, str]:
        """The environment of PostgreSQL's programs."""
        return {"LC_ALL": "C"} | {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def server_account() -> Account:
    """Return this process's own account; for root, that of a system user, which is created if it is missing.

    Raises:
        SuiteError: The user cannot be created.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        entry = _add_user()
    identity = Identity(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
    return Account(entry.pw_uid, entry.pw_gid, identity)


def _add_user() -> pwd.struct_passwd:
    """Create the system user of the database server."""
    print_line(f"NOTICE: PostgreSQL does not run as root, so the system user {SYSTEM_USER} is created for it")
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        raise SuiteError(
            "PostgreSQL does not run as root, and this system has no useradd to create a user for it. Create a system "
            f"user named {SYSTEM_USER}, run as another user, or set METACOG_DATABASE_URL to a server of your own"
        )
    command = [useradd, "--system", "--no-create-home", "--home-dir", "/", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 9):  # 9: another process has just created it
        raise SuiteError(f"the system user {SYSTEM_USER} cannot be created: {done.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)


def own_folder(path: Path, account: Account) -> None:
    """Make `path` a folder that the server owns (0700), and let its account reach it and the programs."""
    path.mkdir(mode=0o700, exist_ok=True)
    if not account.identity:
        return
    if path.stat().st_uid != account.uid:
        os.chown(path, account.uid, account.gid)
    _allow_traversal(path)
    programs = programs_folder()
    _allow_traversal(programs)
    for item in (programs.parent, *programs.parent.rglob("*")):
        _add_permission(item, stat.S_IROTH | (stat.S_IXOTH if item.is_dir() or item.parent == programs else 0))


def _allow_traversal(path: Path) -> None:
    """Let every user traverse (not list) the folders above `path`."""
    for folder in path.absolute().parents:
        if _add_permission(folder, stat.S_IXOTH):
            print_line(f"NOTICE: every user may now traverse {folder}, because the database server has its own user")


def _add_permission(path: Path, bits: int) -> bool:
    """Add permission `bits` to `path`; return whether any was missing."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & bits == bits:
        return False
    path.chmod(mode | bits)
    return True


def socket_folder(data: Path, account: Account) -> Path:
    """Return the folder of the server's socket, after creating it if it is not the data folder itself.

    Raises:
        SuiteError: Another user owns a folder of that name.
    """
    sockets = sockets_of(data)
    if sockets == data:
        return sockets
    sockets.mkdir(mode=0o700, exist_ok=True)
    found = sockets.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), account.uid):
        raise SuiteError(
            f"{data} is too long for a Unix socket, and its replacement {sockets} belongs to another user; "
            "set METACOG_HOME to a shorter path",
            path=str(data),
        )
    os.chown(sockets, account.uid, account.gid)
    sockets.chmod(0o700)
    return sockets
