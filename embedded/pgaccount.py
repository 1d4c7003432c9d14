"""As whom the database server runs, and the folders that this account must own or pass through."""

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from embedded.errors import SuiteError
from embedded.pgfiles import programs_folder, sockets_of
from embedded.terminal import say

SYSTEM_USER = "metacog-postgres"
PASSED_ON = ("PATH", "TZ", "METACOG_SUITE")


class Identity(TypedDict, total=False):
    """Arguments of `subprocess` that make a child run as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """As whom PostgreSQL's programs run, and with which environment (no secret of ours is in it)."""

    uid: int
    gid: int
    identity: Identity = field(default_factory=lambda: Identity())

    @property
    def environment(self) -> dict[str, str]:
        """Environment of PostgreSQL's programs."""
        return {"LC_ALL": "C"} | {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def server_account() -> Account:
    """This process's own account; for root, that of a system user, made if it is missing.

    Raises:
        SuiteError: The user cannot be made.
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
    """Make the system user of the database server."""
    say(f"NOTICE: PostgreSQL refuses to run as root, so the system user {SYSTEM_USER} is made for it")
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        raise SuiteError(
            "PostgreSQL refuses to run as root, and there is no useradd here to make a user for it. Make a system "
            f"user named {SYSTEM_USER}, run as another user, or set METACOG_DATABASE_URL to a server of your own"
        )
    command = [useradd, "--system", "--no-create-home", "--home-dir", "/", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 9):  # 9: another process has just made it
        raise SuiteError(f"the system user {SYSTEM_USER} cannot be made: {done.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)


def own_folder(path: Path, account: Account) -> None:
    """Make `path` a folder that is the server's own (0700) and that its account can reach, programs included."""
    path.mkdir(mode=0o700, exist_ok=True)
    if not account.identity:
        return
    if path.stat().st_uid != account.uid:
        os.chown(path, account.uid, account.gid)
    _open_way(path)
    programs = programs_folder()
    _open_way(programs)
    for item in (programs.parent, *programs.parent.rglob("*")):
        _permit(item, stat.S_IROTH | (stat.S_IXOTH if item.is_dir() or item.parent == programs else 0))


def _open_way(path: Path) -> None:
    """Let everyone pass through (not list) the folders above `path`."""
    for folder in path.absolute().parents:
        if _permit(folder, stat.S_IXOTH):
            say(f"NOTICE: {folder} may now be passed through by every user, for the database server runs as its own")


def _permit(path: Path, bits: int) -> bool:
    """Add permission `bits` to `path`; whether any was missing."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & bits == bits:
        return False
    path.chmod(mode | bits)
    return True


def socket_folder(data: Path, account: Account) -> Path:
    """Folder of the server's socket, made if it is not the data folder itself.

    Raises:
        SuiteError: Somebody else's folder has that name.
    """
    sockets = sockets_of(data)
    if sockets == data:
        return sockets
    sockets.mkdir(mode=0o700, exist_ok=True)
    found = sockets.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), account.uid):
        raise SuiteError(
            f"{data} is too long for a Unix socket, and {sockets}, to be used instead, belongs to another user; "
            "set METACOG_HOME to a shorter path",
            path=str(data),
        )
    os.chown(sockets, account.uid, account.gid)
    sockets.chmod(0o700)
    return sockets
