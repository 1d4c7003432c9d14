"""This module compares expressions in a process of its own, which is killed when it takes too long.

Reading and simplifying what a model wrote has no bound of its own, a thread cannot be stopped, and the imports alone
take more than a second. So a service has `python -m sandbox.mathematics` do it, and calls that from threads.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from fractions import Fraction
from functools import partial
from itertools import count
from math import inf
from select import POLLIN, poll
from typing import IO, Any, ParamSpec, Protocol, TypeVar

from chassis.admission import CALLER_KEY
from chassis.shared_results import FairThreads
from kernel.answers import IN_THIS_PROCESS

P = ParamSpec("P")
T = TypeVar("T")

# Time that the expressions of one question may take together [s].
MOST_SECONDS = 5.0
# Processes of a service that compare at once [count]: about 100 MB each, and started when they are first needed.
PROCESSES = 2
# Threads of a service that count answers [count]; those that compare expressions wait there for a process.
THREADS = 8
# Why an answer is less than what was requested, and why a label is unknown, when comparisons were given up.
TIMEOUT = "COMPARISON_TIMEOUT"
# Time that a fresh process may take until it is ready [s].
START_SECONDS = 60.0
# Time after which the process ends itself [s], and memory that it may use [bytes].
LONGEST_JOB = 30
MOST_MEMORY = 2 * 1024**3
_REMEMBERED = 4_096
# One of each kind of expression: the first of its kind takes longest to read.
_WARMING = ("\\frac{1}{2}", "\\sqrt{2}+1", "((x+1)(x+2))^2", "(1,2]", "1,2", "x=2", "\\log_{2}9", "2\\pi", "x<3")

Job = tuple[str, ...]
# Has an expression compared within a time [s].
Ask = Callable[[Job, float], Any]


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
        """Wait until it is ready.

        Raises:
            TooLate: When it is not within `START_SECONDS`, ends, or cannot be started.
        """
        with self._lock:
            try:
                self._ready(time.monotonic() + START_SECONDS)
            except (OSError, ValueError) as failure:
                raise TooLate from failure

    @property
    def is_ready(self) -> bool:
        """Return whether the process takes the next job at once."""
        return self._process is not None and not self._is_starting

    @property
    def process_id(self) -> int | None:
        """Return the identifier of the process; None without one."""
        return self._process.pid if self._process else None

    def within(self, seconds_left: Callable[[], float] = lambda: MOST_SECONDS) -> "LimitedMathematics":
        """Return the mathematics of one question.

        Args:
            seconds_left: Time that the question has left [s]; never more than `MOST_SECONDS` are used in all.
        """
        return LimitedMathematics(always(self.ask), seconds_left)

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
            with suppress(OSError):  # the next question tries again
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
                with suppress(OSError):  # what was not sent cannot be
                    pipe.close()
        self._process = None


def always(ask: Ask) -> Callable[[float], AbstractContextManager[Ask]]:
    """Return what a `LimitedMathematics` takes, for an `ask` that is always ready."""
    return lambda _seconds: nullcontext(ask)


class MathematicsSource(Protocol):
    """A calculator gives each question its mathematics, and threads in which it is used."""

    def within(self, seconds_left: Callable[[], float] = ...) -> "LimitedMathematics":
        """Return the mathematics of one question."""

    async def run(self, compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `compute` returns, computed in a thread."""


class _ReadyCalculators:
    """The calculators that are ready are taken by threads of API keys in turn; it is thread-safe.

    Args:
        of_one_key: Calculators that one key may hold at once [count, >= 1].
    """

    def __init__(self, of_one_key: int) -> None:
        self._of_one_key = of_one_key
        self._changed = threading.Condition()
        # The last one that was used is used next, since it remembers what it compared.
        self._ready: list[Calculator] = []
        # Numbers of the questions that wait, by key: the key whose turn is next comes first, of it the oldest question.
        self._waiting: OrderedDict[str, list[int]] = OrderedDict()
        self._held: dict[str, int] = {}

    def put(self, calculator: Calculator) -> None:
        """Add one that is ready, or that whoever takes it starts."""
        with self._changed:
            self._ready.append(calculator)
            self._changed.notify_all()

    @contextmanager
    def taken(self, question: int, seconds: float, prepare: Callable[[], None]) -> Iterator[Calculator]:
        """Hold one for the caller's key, which its user puts back.

        Args:
            question: Number of the question, by the order in which they began.
            seconds: Time to wait for it [s].
            prepare: Prepares another one. It is called when none is ready and the key may hold another one, for which
                no thread of it waits yet.

        Raises:
            TooLate: When it is not the caller's turn within `seconds`.
        """
        key = CALLER_KEY.get()
        calculator = self._take(key, question, seconds, prepare)
        try:
            yield calculator
        finally:
            with self._changed:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
                self._changed.notify_all()

    def _take(self, key: str, question: int, seconds: float, prepare: Callable[[], None]) -> Calculator:
        with self._changed:
            self._waiting.setdefault(key, []).append(question)
            try:
                if not self._ready and self._held.get(key, 0) + len(self._waiting[key]) <= self._of_one_key:
                    prepare()
                # Without a limit it ends too: each start and each comparison has one.
                limit = None if seconds == inf else max(0.0, seconds)
                if not self._changed.wait_for(lambda: self._next() == question, limit):
                    raise TooLate
                self._waiting.move_to_end(key)
                self._held[key] = self._held.get(key, 0) + 1
                return self._ready.pop()
            finally:
                self._waiting[key].remove(question)
                if not self._waiting[key]:
                    del self._waiting[key]
                self._changed.notify_all()

    def _next(self) -> int | None:
        """Return the question whose turn it is; None where none is ready, or no key that waits may hold another one."""
        allowed = (min(numbers) for key, numbers in self._waiting.items() if self._held.get(key, 0) < self._of_one_key)
        return next(allowed, None) if self._ready else None


class Calculators:
    """The calculators of a service compare in several processes, in which the questions of API keys take turns.

    One key uses all processes but one. Its other threads count what needs no comparison of expressions meanwhile.

    Args:
        processes: Comparisons that run at once [count, >= 1].

    Example:
        calculators = Calculators()
        question = calculators.within(spend.seconds_left)
        groups = await question.run(cluster, answers, AnswerType.NUMBER, mathematics=question)
    """

    def __init__(self, processes: int = PROCESSES) -> None:
        self._all = [Calculator() for _ in range(processes)]
        self._ready = _ReadyCalculators(of_one_key=max(1, processes - 1))
        self._unused = list(self._all)
        self._lock = threading.Lock()
        self._is_closed = False
        self._numbers = count()
        self._threads = FairThreads("comparisons", threads=THREADS)

    def start(self) -> None:
        """Start the first process, which gets ready on its own; without it the first question does."""
        self._prepare_another()

    @property
    def process_ids(self) -> list[int]:
        """Return the identifiers of the processes that were started."""
        return [calculator.process_id for calculator in self._all if calculator.process_id is not None]

    def within(self, seconds_left: Callable[[], float] = lambda: inf) -> "LimitedMathematics":
        """Return the mathematics of one question, to be used in threads of it (`run`).

        Args:
            seconds_left: Time that the question has left [s]; never more than `MOST_SECONDS` are used in all, beside
                the time until a process is ready.
        """
        return LimitedMathematics(partial(self._taken, next(self._numbers)), seconds_left, threads=self.run)

    async def run(self, compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `compute` returns, computed in a thread when it is the caller's turn.

        Raises:
            Overloaded: When as many comparisons of this API key wait as may.
        """
        return await self._threads.run(compute, *args, **named)

    def close(self) -> None:
        """Kill the processes."""
        self._is_closed = True
        for calculator in self._all:
            calculator.close()

    @contextmanager
    def _taken(self, question: int, seconds: float) -> Iterator[Ask]:
        """Hold a process that is ready.

        Raises:
            TooLate: When there is none within `seconds`.
            RuntimeError: On an event loop, which would wait for it: a mistake of the caller.
        """
        _check_thread()
        with self._ready.taken(question, seconds, self._prepare_another) as calculator:
            try:
                yield calculator.ask
            finally:
                if calculator.is_ready:
                    self._ready.put(calculator)
                else:
                    self._prepare(calculator)  # it was killed: the next question does not wait for its start

    def _prepare_another(self) -> None:
        with self._lock:
            calculator = self._unused.pop(0) if self._unused else None
        if calculator is not None:
            self._prepare(calculator)

    def _prepare(self, calculator: Calculator) -> None:
        """Start a process, which is taken once it is ready."""
        try:
            threading.Thread(target=self._warm, args=(calculator,), daemon=True).start()
        except RuntimeError:  # the system has no further thread: whoever takes it starts it
            self._ready.put(calculator)

    def _warm(self, calculator: Calculator) -> None:
        try:
            with suppress(TooLate):  # whoever takes it finds out
                calculator.warm()
            if self._is_closed:
                calculator.close()
        finally:
            self._ready.put(calculator)


def _check_thread() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("expressions are compared in a thread (Calculators.run), and not on an event loop")


class InProcessCalculator:
    """This calculator compares in the process of its caller: for tools and tests, which read nothing hostile."""

    async def run(self, compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `compute` returns, computed in a thread."""
        return await asyncio.to_thread(compute, *args, **named)

    def within(self, seconds_left: Callable[[], float] = lambda: inf) -> "LimitedMathematics":
        """Return the mathematics of one question; whatever time it has, a comparison goes on to its end."""
        return LimitedMathematics(always(lambda job, _: _compute(list(job))), lambda: inf, most=inf)


class LimitedMathematics:
    """Limited mathematics belong to one question; comparisons that exceed its time count as different.

    Args:
        taken: Holds who compares, once it is ready, for at most a time [s].
        seconds_left: Time that the question has left [s].
        most: Time that its comparisons may take together [s].
        threads: Runs a function in a thread.

    Attributes:
        undecided: Comparisons that were given up [count].
    """

    def __init__(
        self,
        taken: Callable[[float], AbstractContextManager[Ask]],
        seconds_left: Callable[[], float],
        *,
        most: float = MOST_SECONDS,
        threads: Callable[..., Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        self._taken = taken
        self._seconds_left = seconds_left
        self._most = most
        self._threads = threads
        self._used = 0.0
        self.undecided = 0

    @property
    def timeout_reason(self) -> str:
        """Return why what was compared is less than what was requested; empty when no comparison was given up."""
        if not self.undecided:
            return ""
        return f"{TIMEOUT}: {self.undecided} comparisons of mathematical expressions took too long"

    async def run(self, compute: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `compute` returns, computed in a thread of the calculator.

        Raises:
            Overloaded: When as many comparisons of this API key wait as may.
        """
        result: T = await self._threads(compute, *args, **named)
        return result

    def same(self, a: str, b: str) -> bool:
        """Return whether two mean the same."""
        return self._ask_process(("same", *sorted((a, b)))) is True

    def value(self, plain: str) -> Fraction | None:
        """Return value of a constant; None when it has no finite real one."""
        reply = self._ask_process(("value", plain))
        return None if reply is None else Fraction(reply)

    def _ask_process(self, job: Job) -> Any:  # noqa: ANN401
        seconds = self._seconds_left()
        until = time.monotonic() + seconds
        try:
            if min(self._most - self._used, seconds) <= 0:
                raise TooLate
            with self._taken(seconds) as ask:
                return self._timed(ask, job, until)
        except TooLate:
            self.undecided += 1
            return None

    def _timed(self, ask: Ask, job: Job, until: float) -> Any:  # noqa: ANN401
        began = time.monotonic()
        try:
            return ask(job, min(self._most - self._used, until - began))
        finally:
            self._used += time.monotonic() - began


def _send(pipe: IO[bytes] | None, document: object) -> None:
    assert pipe is not None
    pipe.write(json.dumps(document).encode() + b"\n")
    pipe.flush()


def _received(pipe: IO[bytes] | None, until: float) -> Any:  # noqa: ANN401
    """Return one line of the process. Replies are short and written at once."""
    assert pipe is not None
    ready = poll()  # unlike select, it takes file descriptors of any number
    ready.register(pipe, POLLIN)
    if not ready.poll(1000 * max(0.0, until - time.monotonic())):
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
