"""Processes of the suite as the system sees them: found again after any death of the supervisor, and ended for good."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from embedded.parts import write_whole

SUITE_VARIABLE = "METACOG_SUITE"  # every process of a suite carries its home in the environment
SAME_START_S = 2.0  # a pid that started at another time is another process; the system's boot time may be corrected
ROTATE_AT_BYTES = 8_000_000
KILL_WITHIN_S = 5.0
TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Home:
    """Folders of one suite."""

    path: Path

    @property
    def run(self) -> Path:
        """Folder of the pid files, the plan and the state."""
        return self.path / "run"

    @property
    def logs(self) -> Path:
        """Folder of the logs, one file a part."""
        return self.path / "logs"

    @property
    def data(self) -> Path:
        """Folder of the embedded database."""
        return self.path / "postgres"

    def log(self, name: str) -> Path:
        """Log of part `name`."""
        return self.logs / f"{name}.log"

    def make(self) -> None:
        """Make the folders; the pid files are nobody else's business."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(mode=0o700, exist_ok=True)
        self.logs.mkdir(exist_ok=True)


def record_pid(home: Home, name: str, pid: int) -> None:
    """Write down process `pid` as part `name`, with the time it started."""
    try:
        created = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return
    write_whole(home.run / f"{name}.pid", json.dumps({"pid": pid, "create_time": created}))


def forget_pid(home: Home, name: str) -> None:
    """Take away the record of part `name`."""
    (home.run / f"{name}.pid").unlink(missing_ok=True)


def recorded(home: Home, name: str) -> psutil.Process | None:
    """The living process that was written down as part `name`; None if it is gone."""
    try:
        record = json.loads((home.run / f"{name}.pid").read_text())
        process = psutil.Process(int(record["pid"]))
        same = abs(process.create_time() - float(record["create_time"])) < SAME_START_S
    except (OSError, ValueError, KeyError, psutil.NoSuchProcess):
        return None
    return process if same and not is_gone(process) else None


def recorded_all(home: Home) -> dict[str, psutil.Process]:
    """Every living process that is written down, by part."""
    names = [path.stem for path in home.run.glob("*.pid")]
    found = {name: recorded(home, name) for name in names}
    return {name: process for name, process in found.items() if process is not None}


def members(home: Home) -> list[psutil.Process]:
    """Every living process that carries this suite's mark in its environment, but this one and those above it."""
    own = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in own and _is_member(process, home)]


def _is_member(process: psutil.Process, home: Home) -> bool:
    try:
        return process.environ().get(SUITE_VARIABLE) == str(home.path) and not is_gone(process)
    except (psutil.Error, OSError):  # not ours to look at, or gone meanwhile
        return False


def is_gone(process: psutil.Process) -> bool:
    """Whether `process` has ended; one that only waits for its parent to take note has."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """End `processes`: SIGTERM to all, after `grace_s` SIGKILL to those that are left."""
    left = [process for process in processes if not is_gone(process)]
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
    """Those of `processes` that are still there after `within_s` seconds."""
    until = time.monotonic() + within_s
    left = [process for process in processes if not is_gone(process)]
    while left and time.monotonic() < until:
        time.sleep(TICK_S)
        left = [process for process in left if not is_gone(process)]
    return left


def rotate(log: Path) -> None:
    """Put a log that has grown large aside; the one before it is dropped."""
    if log.exists() and log.stat().st_size > ROTATE_AT_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def last_lines(log: Path, count: int = 15) -> list[str]:
    """Last lines of `log`; none if there is no such file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
