"""The processes of the suite: recorded in pid files, found again without the supervisor, and terminated."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from embedded.supervision.parts import write_atomically

SUITE_VARIABLE = "METACOG_SUITE"  # every process of a suite has the suite's home in this variable
SAME_START_S = 2.0  # a pid that started at another time is another process; the system's boot time may be corrected
ROTATE_AT_BYTES = 8_000_000
KILL_WITHIN_S = 5.0
TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Home:
    """The home of a suite holds its folders."""

    path: Path

    @property
    def run(self) -> Path:
        """The folder of the pid files, the plan and the state."""
        return self.path / "run"

    @property
    def logs(self) -> Path:
        """The folder of the logs, one file a part."""
        return self.path / "logs"

    @property
    def data(self) -> Path:
        """The folder of the embedded database."""
        return self.path / "postgres"

    def log(self, name: str) -> Path:
        """Return the log file of part `name`."""
        return self.logs / f"{name}.log"

    def make(self) -> None:
        """Create the folders; only this user may read the pid files."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(mode=0o700, exist_ok=True)
        self.logs.mkdir(exist_ok=True)


def record_pid(home: Home, name: str, pid: int) -> None:
    """Record process `pid` as part `name`, with its start time."""
    try:
        created = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return
    write_atomically(home.run / f"{name}.pid", json.dumps({"pid": pid, "create_time": created}))


def delete_pid(home: Home, name: str) -> None:
    """Delete the record of part `name`."""
    (home.run / f"{name}.pid").unlink(missing_ok=True)


def recorded_process(home: Home, name: str) -> psutil.Process | None:
    """Return the running process that is recorded as part `name`; None if it has ended."""
    try:
        record = json.loads((home.run / f"{name}.pid").read_text())
        process = psutil.Process(int(record["pid"]))
        same = abs(process.create_time() - float(record["create_time"])) < SAME_START_S
    except (OSError, ValueError, KeyError, psutil.NoSuchProcess):
        return None
    return process if same and not has_ended(process) else None


def all_recorded_processes(home: Home) -> dict[str, psutil.Process]:
    """Return every running process that is recorded, by part."""
    names = [path.stem for path in home.run.glob("*.pid")]
    found = {name: recorded_process(home, name) for name in names}
    return {name: process for name, process in found.items() if process is not None}


def suite_processes(home: Home) -> list[psutil.Process]:
    """Return every running process with this suite's variable, except this process and its ancestors."""
    own = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in own and _is_member(process, home)]


def _is_member(process: psutil.Process, home: Home) -> bool:
    try:
        return process.environ().get(SUITE_VARIABLE) == str(home.path) and not has_ended(process)
    except (psutil.Error, OSError):  # the process belongs to another user, or has ended
        return False


def has_ended(process: psutil.Process) -> bool:
    """Return whether `process` has ended; a zombie has."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """Terminate `processes`: send SIGTERM to all, and after `grace_s` SIGKILL to those that still run."""
    left = [process for process in processes if not has_ended(process)]
    for process in left:
        _signal(process, kill=False)
    left = _wait(left, grace_s)
    for process in left:
        _signal(process, kill=True)
    _wait(left, KILL_WITHIN_S)


def _signal(process: psutil.Process, *, kill: bool) -> None:
    try:
        process.kill() if kill else process.terminate()
    except psutil.NoSuchProcess:
        return


def _wait(processes: list[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Return those of `processes` that still run after `within_s` seconds."""
    until = time.monotonic() + within_s
    left = [process for process in processes if not has_ended(process)]
    while left and time.monotonic() < until:
        time.sleep(TICK_S)
        left = [process for process in left if not has_ended(process)]
    return left


def rotate(log: Path) -> None:
    """Rename a log that has grown large; its predecessor is overwritten."""
    if log.exists() and log.stat().st_size > ROTATE_AT_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def last_lines(log: Path, count: int = 15) -> list[str]:
    """Return the last lines of `log`; empty if there is no such file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
