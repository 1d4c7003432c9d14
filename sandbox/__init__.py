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
from contextlib import suppress
from pathlib import Path

from kernel.values import value

RUNNER = Path(__file__).with_name("runner.py")
MEMORY_BYTES = 512 * 1024 * 1024
# Characters of a failure that are kept for the verdict, and bytes that the process may write at most [count].
MOST_DETAIL = 500
MOST_OUTPUT = 1 << 20
# Code that runs in the sandbox at once; more waits.
AT_ONCE = 4
CHECK_S = 10.0
# What the runner says when it cannot lock itself in.
NOT_LOCKED = 77


@value
class Ran:
    """How code did; `passed` is None when the sandbox itself failed."""

    passed: bool | None
    detail: str


class Locked:
    """Runs code in processes that are locked in."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self._problem: str | None = None

    def problem(self) -> str:
        """Return why it cannot be used here; empty when it can. Tried with code that does nothing until there is an answer."""
        if self._problem is None:
            try:
                self._problem = _tried()
            except subprocess.TimeoutExpired:
                return f"it did not start within {CHECK_S:g} s; try again"
        return self._problem

    async def run(self, code: str, tests: str, *, timeout_s: float) -> Ran:
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
                    said = await _said(process, given)
            except TimeoutError:
                return Ran(passed=False, detail=f"not done within {timeout_s:g} s")
            finally:
                await _ended(process)
        if len(said) > MOST_OUTPUT:
            return Ran(passed=False, detail=f"the code wrote more than {MOST_OUTPUT} bytes")
        return _read(process.returncode, said, word, timeout_s)


def _read(status: int | None, said: bytes, word: str, timeout_s: float) -> Ran:
    """Return what the runner's end means: without the word of this run the code has ended the process by itself.

    The word is no secret from the code, which shares the runner's process and finds it there if it sets out to cheat.
    """
    if status == NOT_LOCKED:
        return Ran(passed=None, detail=f"the sandbox failed: {said.decode(errors='replace')[:MOST_DETAIL]}")
    if status == -signal.SIGXCPU:
        return Ran(passed=False, detail=f"not done within {timeout_s:g} s")
    try:
        told = json.loads(said.splitlines()[-1]) if said.strip() else {}
    except ValueError:
        told = {}
    if not isinstance(told, dict) or told.get("word") != word:
        return Ran(passed=False, detail=f"the code ended the process by itself, with status {status}")
    failure = str(told.get("failure", ""))
    return Ran(passed=not failure, detail=failure[:MOST_DETAIL] or "all tests passed")


def _command(timeout_s: float) -> list[str]:
    limits = [str(MEMORY_BYTES), str(max(1, int(timeout_s + 0.999)))]
    return [sys.executable, "-I", "-S", "-B", str(RUNNER), *limits]


def _tried() -> str:
    """Return why the sandbox cannot be used here; empty when it can."""
    given = json.dumps({"code": "", "tests": "", "word": "tried"}).encode()
    try:
        done = subprocess.run(
            _command(CHECK_S), input=given, capture_output=True, env={}, cwd="/", timeout=CHECK_S, check=False
        )
    except OSError as wrong:
        return str(wrong)
    tested = _read(done.returncode, done.stdout, "tried", CHECK_S)
    return "" if tested.passed else tested.detail


async def _said(process: asyncio.subprocess.Process, given: bytes) -> bytes:
    """Return what the process writes until it ends, or until it has written more than it may."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):  # a process that ends at once does not listen
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    said = bytearray()
    while len(said) <= MOST_OUTPUT and (part := await process.stdout.read(MOST_OUTPUT)):
        said += part
    if len(said) <= MOST_OUTPUT:
        await process.wait()
    return bytes(said)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
