"""The sandbox runs untrusted code that a model wrote.

The code runs in a process of its own that can only compute: no files but Python's own library to read
(Landlock), no network, no other processes, no signals (a seccomp list of the calls that are allowed), limits on memory,
processor time and output, an empty environment, and an end at the deadline. It needs Linux with Landlock and seccomp on
x86-64 or ARM64, and no privilege. Where one of them is missing, the sandbox is unavailable and reports the reason;
there is no weaker fallback.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kernel.errors import Code, MetacogError
from kernel.values import value
from sandbox.comparisons import MOST_COMPARED, MOST_ITEMS, ComparedTest, comparisons

RUNNER = Path(__file__).with_name("runner.py")
MEMORY_BYTES = 512 * 1024 * 1024
# Characters of a failure that are reported, and bytes that the process may write at most [count].
MOST_DETAIL = 500
MOST_OUTPUT = 1 << 20
# Code that runs in the sandbox at once; more waits.
AT_ONCE = 4
CHECK_S = 10.0
# Status of a runner that cannot restrict itself.
NOT_LOCKED = 77
# Detail of tests that passed beside the code because what it returned could not be compared.
NOT_COMPARED = (
    "all tests passed beside the code: what it returned cannot be compared, because it is no literal, has a set or "
    f"dict of more than {MOST_ITEMS} items, or has more than {MOST_COMPARED} bytes"
)


class SandboxUnavailable(MetacogError):
    """The request needs the sandbox, which is off or missing."""

    code = Code.FAILED_PRECONDITION
    reason = "SANDBOX_UNAVAILABLE"


@value
class CodeResult:
    """The result of code.

    Attributes:
        passed: Whether code and tests ran without a failure; None when the sandbox itself failed.
        detail: What failed, or that all passed.
        printed: The last characters that the code printed; empty where it failed.
        is_compared: Whether this process compared what the code computed with what is expected, which the code never
            saw. Else the tests ran beside the code, which could have written their result itself.
    """

    passed: bool | None
    detail: str
    printed: str = ""
    is_compared: bool = False


class CodeSandbox:
    """The sandbox runs code in restricted processes.

    Args:
        at_once: Code that runs at once; more waits [count, >= 1].
        memory_bytes: Memory that each process may use [bytes].
    """

    def __init__(self, *, at_once: int = AT_ONCE, memory_bytes: int = MEMORY_BYTES) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._memory_bytes = memory_bytes
        self._problem: str | None = None

    def problem(self) -> str:
        """Return the reason why it cannot be used here; empty when it can. Empty code is run once to find out."""
        if self._problem is None:
            try:
                self._problem = _start_problem(self._memory_bytes)
            except subprocess.TimeoutExpired:
                return f"it did not start within {CHECK_S:g} s; try again"
        return self._problem

    async def run(self, code: str, tests: str, *, timeout_s: float, as_main: bool = False) -> CodeResult:
        """Run `code`, then `tests`, which raise when it is wrong.

        Tests of the usual form are compared here (see `sandbox.comparisons`). Where they have another form, or the code
        returns an object of its own or more than is compared, they run beside the code.

        Args:
            code: The code.
            tests: The tests.
            timeout_s: Time that both get [s].
            as_main: Whether the code runs as a program does, with what it does as `__main__`.
        """
        wanted = await asyncio.to_thread(comparisons, tests) if tests.strip() else ()
        if wanted:
            given = {"code": code, "tests": "", "expressions": [one.expression for one in wanted]}
            result, values = await self._ran(given, timeout_s=timeout_s, as_main=as_main)
            compared = await asyncio.to_thread(_compared, result, values, wanted)
            if compared is not None:
                return compared
        result, _ = await self._ran({"code": code, "tests": tests}, timeout_s=timeout_s, as_main=as_main)
        return replace(result, detail=NOT_COMPARED) if wanted and result.passed else result

    async def _ran(
        self, parts: Mapping[str, object], *, timeout_s: float, as_main: bool
    ) -> tuple[CodeResult, Sequence[object] | None]:
        """Return what running `parts` gave, and the values of their expressions; None where they are too large."""
        nonce = secrets.token_hex(16)
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *_command(timeout_s, self._memory_bytes),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
            name = "__main__" if as_main else "__answer__"
            given = json.dumps({**parts, "word": nonce, "name": name}).encode()
            try:
                async with asyncio.timeout(timeout_s + 1.0):
                    output = await _output(process, given)
            except TimeoutError:
                return CodeResult(passed=False, detail=f"not done within {timeout_s:g} s"), ()
            finally:
                await _ended(process)
        if len(output) > MOST_OUTPUT:
            return CodeResult(passed=False, detail=f"the code wrote more than {MOST_OUTPUT} bytes"), ()
        return _read(process.returncode, output, nonce, timeout_s)


def _compared(result: CodeResult, values: Sequence[object] | None, wanted: Sequence[ComparedTest]) -> CodeResult | None:
    """Return the result of comparing all values with what is expected; None where one cannot be compared."""
    if not result.passed:
        return result
    if values is None:
        return None
    if len(values) != len(wanted):
        return CodeResult(passed=False, detail="the code ended the tests by itself", is_compared=True)
    met = [one.is_met_by(computed) for one, computed in zip(wanted, values, strict=True)]
    if False in met:
        failed = wanted[met.index(False)].expression
        detail = f"tests: {failed} does not give what is expected"
        return CodeResult(passed=False, detail=detail[:MOST_DETAIL], is_compared=True)
    return None if None in met else replace(result, is_compared=True)


def _read(
    status: int | None, output: bytes, nonce: str, timeout_s: float
) -> tuple[CodeResult, Sequence[object] | None]:
    """Return the result of a runner that has ended, and the values that it computed; None where they are too large.

    Without the nonce of this run, the code has ended the process by itself. The nonce is no secret from the code, which
    shares the runner's process and can find it there.
    """
    if status == NOT_LOCKED:
        detail = f"the sandbox failed: {output.decode(errors='replace')[:MOST_DETAIL]}"
        return CodeResult(passed=None, detail=detail), ()
    if status == -signal.SIGXCPU:
        return CodeResult(passed=False, detail=f"not done within {timeout_s:g} s"), ()
    written = output.splitlines()[-1] if output.strip() else b"{}"
    try:
        report = json.loads(written)
    except (ValueError, RecursionError):
        report = {}
    if not isinstance(report, dict) or report.get("word") != nonce:
        return CodeResult(passed=False, detail=f"the code ended the process by itself, with status {status}"), ()
    failure, printed, values = str(report.get("failure", "")), str(report.get("printed", "")), report.get("values")
    result = CodeResult(passed=not failure, detail=failure[:MOST_DETAIL] or "all tests passed", printed=printed)
    if len(written) > MOST_COMPARED:
        return result, None
    return result, values if isinstance(values, list) else ()


def _command(timeout_s: float, memory_bytes: int) -> list[str]:
    limits = [str(memory_bytes), str(max(1, int(timeout_s + 0.999)))]
    return [sys.executable, "-I", "-S", "-B", str(RUNNER), *limits]


def _start_problem(memory_bytes: int) -> str:
    """Return the reason why the sandbox cannot be used here; empty when it can."""
    given = json.dumps({"code": "", "tests": "", "word": "tried"}).encode()
    try:
        done = subprocess.run(
            _command(CHECK_S, memory_bytes),
            input=given,
            capture_output=True,
            env={},
            cwd="/",
            timeout=CHECK_S,
            check=False,
        )
    except OSError as error:
        return str(error)
    tested, _ = _read(done.returncode, done.stdout, "tried", CHECK_S)
    return "" if tested.passed else tested.detail


async def _output(process: asyncio.subprocess.Process, given: bytes) -> bytes:
    """Return what the process writes until it ends, or until it exceeds its limit."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError, RuntimeError):  # a process that ends at once does not read; uvloop has its own error
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    output = bytearray()
    while len(output) <= MOST_OUTPUT and (part := await process.stdout.read(MOST_OUTPUT)):
        output += part
    if len(output) <= MOST_OUTPUT:
        await process.wait()
    return bytes(output)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kill the process and wait for its end.

    What it has written is read to its end: asyncio reports the end of a process only once its pipes are closed, and a
    pipe that is no longer read is never closed.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        while await process.stdout.read(MOST_OUTPUT):
            pass
        await process.wait()
