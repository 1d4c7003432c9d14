"""This module compares expressions in a process of its own, which is killed when it takes too long.

Reading and simplifying what a model wrote has no bound of its own, a thread cannot be stopped, and the imports alone
take more than a second. So a service starts one `python -m sandbox.mathematics` when it starts, and calls it from
threads.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from math import inf
from select import select
from typing import IO, Any, Protocol

from kernel.answers import IN_THIS_PROCESS

# Time that the expressions of one question may take together [s].
MOST_SECONDS = 5.0
# Time that a fresh process may take until it is ready [s].
START_SECONDS = 60.0
# Time after which the process ends itself [s], and memory that it may use [bytes].
LONGEST_JOB = 30
MOST_MEMORY = 2 * 1024**3
_REMEMBERED = 4_096
# One of each kind of expression: the first of its kind takes longest to read.
_WARMING = ("\\frac{1}{2}", "\\sqrt{2}+1", "((x+1)(x+2))^2", "(1,2]", "1,2", "x=2", "\\log_{2}9", "2\\pi", "x<3")

Job = tuple[str, ...]


class TooLate(Exception):
    """The process did not reply in time, or ended."""


class Calculator:
    """A calculator runs a process that compares expressions; it is thread-safe, one job at a time.

    Example:
        calculator = Calculator()
        await asyncio.to_thread(calculator.warm)
        question = calculator.within(lambda: 5.0)
        cluster(answers, AnswerType.NUMBER, mathematics=question)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._known: OrderedDict[Job, Any] = OrderedDict()
        self._is_starting = False

    def start(self) -> None:
        """Start the process, which gets ready on its own; without it the first question does."""
        with self._lock:
            if self._process is None:
                self._start()

    def warm(self) -> None:
        """Wait until it is ready."""
        with self._lock:
            self._ready(time.monotonic() + START_SECONDS)

    @property
    def process_id(self) -> int | None:
        """Return the identifier of the process; None without one."""
        return self._process.pid if self._process else None

    def within(self, seconds_left: Callable[[], float] = lambda: MOST_SECONDS) -> "LimitedMathematics":
        """Return the mathematics of one question.

        Args:
            seconds_left: Time that the question has left [s]; never more than `MOST_SECONDS` are used in all.
        """
        return LimitedMathematics(self.ask, seconds_left)

    def ask(self, job: Job, seconds: float) -> Any:  # noqa: ANN401
        """Return the reply of the process.

        Raises:
            TooLate: When it does not within `seconds`; it is killed, and another one started.
        """
        if job in self._known:
            return self._known[job]
        until = time.monotonic() + seconds
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            raise TooLate
        try:
            reply = self._replied(job, until)
        finally:
            self._lock.release()
        self._known[job] = reply
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return reply

    def close(self) -> None:
        """Kill the process."""
        with self._lock:
            self._kill()

    def _replied(self, job: Job, until: float) -> Any:  # noqa: ANN401
        try:
            process = self._ready(until)
            _send(process.stdin, job)
            return _received(process.stdout, until)
        except (TooLate, OSError, ValueError) as failure:
            if isinstance(failure, TooLate) and self._is_starting:
                raise  # what was not ready yet is left to get ready
            self._kill()
            self._start()
            raise TooLate from failure

    def _ready(self, until: float) -> subprocess.Popen[bytes]:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        if self._is_starting:
            _received(process.stdout, until)
            self._is_starting = False
        return process

    def _start(self) -> subprocess.Popen[bytes]:
        self._is_starting = True
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.mathematics"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return self._process

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


class MathematicsSource(Protocol):
    """A calculator gives each question its mathematics."""

    def within(self, seconds_left: Callable[[], float] = ...) -> "LimitedMathematics":
        """Return the mathematics of one question."""


class InProcessCalculator:
    """This calculator compares in the process of its caller: for tools and tests, which read nothing hostile."""

    def within(self, seconds_left: Callable[[], float] = lambda: inf) -> "LimitedMathematics":
        """Return the mathematics of one question; whatever time it has, a comparison goes on to its end."""
        return LimitedMathematics(lambda job, _: _compute(list(job)), lambda: inf, most=inf)


class LimitedMathematics:
    """Limited mathematics belong to one question; comparisons that exceed its time count as different.

    Attributes:
        undecided: Comparisons that were given up [count].
    """

    def __init__(
        self, ask: Callable[[Job, float], Any], seconds_left: Callable[[], float], *, most: float = MOST_SECONDS
    ) -> None:
        self._ask = ask
        self._seconds_left = seconds_left
        self._most = most
        self._used = 0.0
        self.undecided = 0

    def same(self, a: str, b: str) -> bool:
        """Return whether two mean the same."""
        return self._ask_process(("same", *sorted((a, b)))) is True

    def value(self, plain: str) -> Fraction | None:
        """Return value of a constant; None when it has no finite real one."""
        reply = self._ask_process(("value", plain))
        return None if reply is None else Fraction(reply)

    def _ask_process(self, job: Job) -> Any:  # noqa: ANN401
        seconds = min(self._most - self._used, self._seconds_left())
        began = time.monotonic()
        try:
            if seconds <= 0:
                raise TooLate
            return self._ask(job, seconds)
        except TooLate:
            self.undecided += 1
            return None
        finally:
            self._used += time.monotonic() - began


def _send(pipe: IO[bytes] | None, document: object) -> None:
    assert pipe is not None
    pipe.write(json.dumps(document).encode() + b"\n")
    pipe.flush()


def _received(pipe: IO[bytes] | None, until: float) -> Any:  # noqa: ANN401
    """Return one line of the process. Replies are short and written at once."""
    assert pipe is not None
    if not select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        raise TooLate
    line = pipe.readline()
    if not line:
        raise TooLate
    return json.loads(line)


def _compute(job: list[str]) -> object:
    if job[0] == "same":
        return IN_THIS_PROCESS.same(*job[1:])
    found = IN_THIS_PROCESS.value(job[1])
    return None if found is None else str(found)


def main() -> None:
    """Read jobs, write replies, and end with the calling process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for one in _WARMING:
        IN_THIS_PROCESS.same(one, "\\sqrt{3}")
        IN_THIS_PROCESS.same(one, f"{one}+0")
    _send(sys.stdout.buffer, "ready")
    for line in sys.stdin.buffer:
        signal.alarm(LONGEST_JOB)
        try:
            reply = _compute(json.loads(line))
        except (ArithmeticError, AttributeError, MemoryError, RecursionError, TypeError, ValueError):
            reply = None
        signal.alarm(0)
        _send(sys.stdout.buffer, reply)


if __name__ == "__main__":
    main()
