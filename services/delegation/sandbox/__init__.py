"""A place to run code that a model wrote and nobody trusts.

The code runs in a process of its own that can do nothing but compute: no files but Python's own library to read
(Landlock), no network, no other processes, no signals (a seccomp list of the calls that are allowed), limits on memory,
processor time and output, an empty environment, and an end at the deadline. It needs Linux with Landlock and seccomp on
x86-64 or ARM64, and no privilege. Where one of them is missing, the sandbox is unavailable, and says so; there is no
weaker one in its place.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from services.delegation.core.errors import SandboxUnavailable
from services.delegation.service.judging import Tested

RUNNER = Path(__file__).with_name("runner.py")
MEMORY_BYTES = 512 * 1024 * 1024
# Characters of output that are kept for the verdict [count].
MOST_DETAIL = 500
# Code that runs in the sandbox at once; more waits.
AT_ONCE = 4
CHECK_S = 10.0
# What the runner says when it cannot lock itself in.
NOT_LOCKED = 77


class Sandbox:
    """Runs code in a process that is locked in.

    Args:
        enabled: Whether code may be run at all.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._free = asyncio.Semaphore(AT_ONCE)
        self._problem: str | None = None

    def check(self) -> None:
        """Return if the sandbox can be used; tried once, with code that does nothing.

        Raises:
            SandboxUnavailable: When it is off or missing; says why.
        """
        if not self._enabled:
            raise SandboxUnavailable("unit tests are switched off; METACOG_DELEGATION_SANDBOX=true switches them on")
        if self._problem is None:
            self._problem = _tried()
        if self._problem:
            raise SandboxUnavailable(f"this system has no sandbox for unit tests: {self._problem}")

    async def run(self, code: str, tests: str, *, timeout_s: float) -> Tested:
        """Run `code`, then `tests`, which raise when it is wrong.

        Args:
            code: The code.
            tests: The tests.
            timeout_s: Time that both get [s].
        """
        word = secrets.token_hex(16)
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *_command(timeout_s),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
            given = json.dumps({"code": code, "tests": tests, "word": word}).encode()
            try:
                async with asyncio.timeout(timeout_s + 1.0):
                    said, _ = await process.communicate(given)
            except TimeoutError:
                return Tested(passed=False, detail=f"not done within {timeout_s:g} s")
            finally:
                await _ended(process)
        return _read(process.returncode, said, word, timeout_s)


def _read(status: int | None, said: bytes, word: str, timeout_s: float) -> Tested:
    """What the runner's end means: only one that knows the word of this run has passed."""
    if status == NOT_LOCKED:
        return Tested(passed=None, detail=f"the sandbox failed: {said.decode(errors='replace')[:MOST_DETAIL]}")
    if status == -signal.SIGXCPU:
        return Tested(passed=False, detail=f"not done within {timeout_s:g} s")
    try:
        told = json.loads(said.splitlines()[-1]) if said.strip() else {}
    except ValueError:
        told = {}
    if not isinstance(told, dict) or told.get("word") != word:
        return Tested(passed=False, detail=f"the code ended the process by itself, with status {status}")
    failure = str(told.get("failure", ""))
    return Tested(passed=not failure, detail=failure[:MOST_DETAIL] or "all tests passed")


def _command(timeout_s: float) -> list[str]:
    limits = [str(MEMORY_BYTES), str(max(1, int(timeout_s + 0.999)))]
    return [sys.executable, "-I", "-S", "-B", str(RUNNER), *limits]


def _tried() -> str:
    """Why the sandbox cannot be used here; empty when it can."""
    given = json.dumps({"code": "", "tests": "", "word": "tried"}).encode()
    try:
        done = subprocess.run(
            _command(CHECK_S), input=given, capture_output=True, env={}, cwd="/", timeout=CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as wrong:
        return str(wrong)
    tested = _read(done.returncode, done.stdout, "tried", CHECK_S)
    return "" if tested.passed else tested.detail


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
