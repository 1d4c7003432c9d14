"""The supervisor runs the parts of a suite, restarts those that end, and stops all of them on SIGTERM.

Run as `python -m embedded.supervision.supervisor --home DIR`; it reads the parts from DIR/run/plan.json.
"""

import argparse
import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from embedded.down import sweep
from embedded.supervision.parts import ProcessSpec, read_plan
from embedded.supervision.processes import SUITE_VARIABLE, Home, delete_pid, end, record_pid, rotate
from embedded.supervision.state import PartState, Stage, write_state
from embedded.terminal import print_line

ATTEMPTS = 3  # consecutive starts after which a part that was never ready has failed
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0  # after so much time ready, a part's next pause is the first one again
PROBE_EVERY_S = 0.15


def pause_before(attempt: int) -> float:
    """Return the pause before the `attempt`-th consecutive restart (from 1) [s]; it doubles up to a cap.

    Example:
        >>> [pause_before(attempt) for attempt in (1, 2, 3, 8)]
        [0.5, 1.0, 2.0, 30.0]
    """
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(attempt - 1, 10)))


class Supervisor:
    """The supervisor keeps a list of parts running.

    Args:
        home: Folders of the suite.
        parts: Parts to run.
    """

    def __init__(self, home: Home, parts: Sequence[ProcessSpec]) -> None:
        self._home = home
        self._parts = list(parts)
        self._states = {part.name: PartState(name=part.name, url=part.url) for part in parts}
        self._once_up = {part.name: asyncio.Event() for part in parts}
        self._began = time.monotonic()

    async def run(self) -> None:
        """Run all parts until cancelled; then stop them, the highest wave first."""
        self._write_state()
        try:
            async with asyncio.TaskGroup() as group:
                for part in self._parts:
                    group.create_task(self._run_part(part), name=part.name)
                group.create_task(asyncio.Event().wait(), name="until cancelled")
        finally:
            await asyncio.to_thread(self._stop_all)

    async def _run_part(self, part: ProcessSpec) -> None:
        """Run `part`, and restart it each time it ends, unless it is never ready."""
        for name in part.after:
            await self._once_up[name].wait()
        failures = 0
        while True:
            process = await self._start(part)
            lasted = await self._wait_for_end(part, process)
            self._record_end(part, process)
            if self._states[part.name].stage in (Stage.DONE, Stage.FAILED):
                return
            failures = 1 if lasted > STEADY_S else failures + 1
            if failures >= ATTEMPTS and not self._once_up[part.name].is_set():
                self._change(part, stage=Stage.FAILED)
                return
            await asyncio.sleep(pause_before(failures))
            self._change(part, restarts=self._states[part.name].restarts + 1)

    async def _start(self, part: ProcessSpec) -> asyncio.subprocess.Process:
        """Start the process of `part` in its own process group, with its output in its log."""
        log = self._home.log(part.name)
        _prepare_start(part, log)
        environment = {**os.environ, **part.environment, SUITE_VARIABLE: str(self._home.path), "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *part.command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=asyncio.subprocess.STDOUT,
                env=environment, start_new_session=True)  # fmt: skip
        record_pid(self._home, part.name, process.pid)
        self._change(part, stage=Stage.STARTING, pid=process.pid, note="")
        return process

    async def _wait_for_end(self, part: ProcessSpec, process: asyncio.subprocess.Process) -> float:
        """Wait until `process` has ended; return how long it was ready [s]."""
        ended = asyncio.create_task(process.wait())
        try:
            in_time = await (self._wait_for_step(part, ended) if part.once else self._wait_for_ready(part, ended))
            if not in_time:
                self._change(part, note=f"was not ready within {part.ready_within_s:.0f} s")
                await asyncio.to_thread(self._stop, part)
            since = time.monotonic()
            await ended
            return time.monotonic() - since if in_time else 0.0
        finally:
            ended.cancel()

    async def _wait_for_step(self, part: ProcessSpec, ended: "asyncio.Task[int]") -> bool:
        """Wait until the step `part` has ended; return False if it exceeds its time."""
        await asyncio.wait([ended], timeout=part.ready_within_s)
        return ended.done()

    async def _wait_for_ready(self, part: ProcessSpec, ended: "asyncio.Task[int]") -> bool:
        """Wait until `part` is ready or has ended; return False if it exceeds its time."""
        until = time.monotonic() + part.ready_within_s
        while not ended.done() and time.monotonic() < until:
            if await asyncio.to_thread(part.is_ready) and not ended.done():
                self._change(part, stage=Stage.READY, after_s=time.monotonic() - self._began)
                self._once_up[part.name].set()
                return True
            await asyncio.wait([ended], timeout=PROBE_EVERY_S)
        return ended.done()

    def _record_end(self, part: ProcessSpec, process: asyncio.subprocess.Process) -> None:
        """Record how the process of `part` ended, and kill the rest of its process group."""
        status = process.returncode or 0
        _kill_group(process.pid)
        delete_pid(self._home, part.name)
        how = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        note = self._states[part.name].note or how
        print_line(f"{part.name} {note}")
        if part.once:
            stage = Stage.DONE if status == 0 else Stage.FAILED
            self._change(part, stage=stage, pid=None, note=note, after_s=time.monotonic() - self._began)
            if status == 0:
                self._once_up[part.name].set()
        else:
            self._change(part, stage=Stage.RESTARTING, pid=None, note=note)

    def _change(self, part: ProcessSpec, **values: object) -> None:
        for name, value in values.items():
            setattr(self._states[part.name], name, value)
        if "stage" in values:
            print_line(f"{part.name} {values['stage']}")
        self._write_state()

    def _write_state(self) -> None:
        write_state(self._home, list(self._states.values()))

    def _stop_all(self) -> None:
        """Stop every part that runs, wave by wave."""
        for wave in sorted({part.wave for part in self._parts}, reverse=True):
            together = [part for part in self._parts if part.wave == wave]
            processes = [process for part in together for process in self._processes(part)]
            end(processes, max(part.grace_s for part in together))
            for part in together:
                pid = self._states[part.name].pid
                if pid is not None:
                    _kill_group(pid)
                delete_pid(self._home, part.name)
                self._change(part, stage=Stage.STOPPED, pid=None)

    def _stop(self, part: ProcessSpec) -> None:
        end(self._processes(part), part.grace_s)

    def _processes(self, part: ProcessSpec) -> list[psutil.Process]:
        """Return the process of `part` as a list, empty if it has none."""
        pid = self._states[part.name].pid
        try:
            return [psutil.Process(pid)] if pid is not None else []
        except psutil.NoSuchProcess:
            return []


def _prepare_start(part: ProcessSpec, log: Path) -> None:
    """Rotate the log and remove the ready file of the last run of `part`."""
    rotate(log)
    if part.ready_file is not None:
        Path(part.ready_file).unlink(missing_ok=True)


def _kill_group(pid: int) -> None:
    """Kill the rest of the process group of `pid`."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


async def supervise(home: Home, parts: Sequence[ProcessSpec]) -> None:
    """Run `parts` until SIGTERM or SIGINT, then stop them all."""
    task = asyncio.create_task(Supervisor(home, parts).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def main() -> int:
    """Supervise the suite of the given home; return 0 after SIGTERM, 1 if another supervisor runs."""
    parser = argparse.ArgumentParser(
        prog="python -m embedded.supervision.supervisor", description="Run the parts of a suite."
    )
    parser.add_argument("--home", type=Path, required=True)
    home = Home(parser.parse_args().home)
    home.make()
    with (home.run / "supervisor.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line("another supervisor runs this suite")
            return 1
        record_pid(home, "supervisor", os.getpid())
        asyncio.run(supervise(home, read_plan(home.run / "plan.json")))
        sweep(home)
        delete_pid(home, "supervisor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
