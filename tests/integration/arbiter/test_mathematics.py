"""Expressions compared in a process of their own, which is killed when it is late."""

import asyncio
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction

import pytest

from chassis.admission import CALLER_KEY
from kernel.answers import AnswerType, cluster, is_right
from sandbox.mathematics import Calculator, Calculators, LimitedMathematics, TooLate, always


@pytest.fixture(scope="module")
def calculator() -> Iterator[Calculator]:
    """A process that is ready."""
    made = Calculator()
    made.warm()
    yield made
    made.close()


def test_it_returns_what_the_kernel_returns(calculator: Calculator) -> None:
    question = calculator.within()

    clusters = cluster([r"\frac{\sqrt{3}}{2}", "sqrt(3)/2", "2"], AnswerType.NUMBER, mathematics=question)

    assert [one.count for one in clusters] == [2, 1]
    assert is_right("1.41", r"\sqrt{2}", AnswerType.NUMBER, mathematics=question) is True
    assert question.value("x") is None
    assert question.undecided == 0


def test_a_process_that_is_late_is_killed_and_another_one_goes_on(calculator: Calculator) -> None:
    calculator.warm()
    late = calculator.process_id
    assert late is not None
    os.kill(late, signal.SIGSTOP)

    with pytest.raises(TooLate):
        calculator.ask(("same", r"\sqrt{11}", r"\sqrt{13}"), 0.1)
    calculator.warm()

    assert calculator.process_id != late
    assert calculator.ask(("same", r"\sqrt{11}", r"\sqrt{44}/2"), 30.0) is True


def test_a_process_that_died_is_started_again(calculator: Calculator) -> None:
    calculator.close()

    assert calculator.ask(("value", r"\sqrt{4}"), 60.0) == "2"


def test_a_question_has_so_much_time_and_no_more() -> None:
    asked: list[float] = []

    def never(job: tuple[str, ...], seconds: float) -> bool:
        asked.append(seconds)
        raise TooLate

    left = iter([2.0, 0.0, 0.0])
    question = LimitedMathematics(always(never), lambda: next(left))

    assert [question.same("a", "b"), question.same("a", "c"), question.value("a")] == [False, False, None]
    assert len(asked) == 1
    assert 0 < asked[0] <= 2.0
    assert question.undecided == 3


async def test_a_question_on_the_event_loop_is_a_mistake_that_is_found() -> None:
    with pytest.raises(RuntimeError, match="not on an event loop"):
        Calculators().within().same(r"\sqrt{2}", r"\sqrt{3}")


async def test_the_start_of_a_process_takes_nothing_from_the_time_of_a_question() -> None:
    calculators = Calculators()
    question = calculators.within()
    try:
        same = await question.run(question.same, r"\sqrt{8}", r"2\sqrt{2}")  # which starts the first process
    finally:
        calculators.close()

    assert (same, question.undecided, question.timeout_reason) == (True, 0, "")


async def test_a_long_comparison_delays_no_other_count_of_its_key() -> None:
    calculators, go_on = Calculators(), threading.Event()
    long = asyncio.create_task(calculators.run(go_on.wait, 20.0))
    await asyncio.sleep(0)  # it has its thread first
    question = calculators.within()

    clusters = await question.run(cluster, ["A", "A", "B"], AnswerType.CHOICE, mathematics=question)
    is_running = not long.done()
    go_on.set()

    assert ([one.count for one in clusters], is_running, await long) == ([2, 1], True, True)


async def test_one_key_leaves_a_process_to_the_next_key() -> None:
    calculators = Calculators(processes=2)

    async def compared(key: str, number: int) -> bool:
        CALLER_KEY.set(key)
        question = calculators.within()
        return await question.run(question.same, rf"\sqrt{{{number}}}+1", rf"1+\sqrt{{{number}}}")

    try:
        async with asyncio.TaskGroup() as group:
            greedy = [group.create_task(compared("greedy", number)) for number in range(2, 12)]
        of_greedy = len(calculators.process_ids)
        os.kill(calculators.process_ids[0], signal.SIGSTOP)  # whoever has it waits for seconds
        async with asyncio.TaskGroup() as group:
            held_up = [group.create_task(compared("greedy", number)) for number in range(20, 28)]
            modest = await group.create_task(compared("modest", 40))
            for each in held_up:
                each.cancel()
    finally:
        calculators.close()

    assert ([each.result() for each in greedy], of_greedy, modest) == ([True] * 10, 1, True)


@pytest.fixture
def crowded() -> Iterator[None]:
    """A process that has over 1,024 open files, so that further ones have numbers that select does not take."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(2_048, before[1])), before[1]))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < 1_100:
        opened.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for each in opened:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("crowded")
async def test_it_compares_in_a_process_with_many_open_files() -> None:
    calculators = Calculators()
    question = calculators.within()
    try:
        same = await question.run(question.same, r"\sqrt{8}", r"2\sqrt{2}")
    finally:
        calculators.close()

    assert (same, question.undecided) == (True, 0)


async def test_a_process_that_cannot_be_started_is_late_and_is_started_later() -> None:
    calculators = Calculators(processes=1)
    question = calculators.within()
    try:
        with no_more_files():
            refused = await question.run(question.same, r"\sqrt{8}", r"2\sqrt{2}")
        same = False
        while not same:  # until it is started
            later = calculators.within()
            same = await later.run(later.same, r"\sqrt{8}", r"2\sqrt{2}")
    finally:
        calculators.close()

    assert (refused, question.undecided) == (False, 1)


@contextmanager
def no_more_files() -> Iterator[None]:
    """Leave this process no further file descriptor, so that no process can be started (`EMFILE`)."""
    opened = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in opened:
            os.close(each)


def test_what_it_found_is_remembered(calculator: Calculator) -> None:
    question = calculator.within()
    assert question.value(r"\sqrt{9}") == Fraction(3)

    assert calculator.within(lambda: 1e-9).value(r"\sqrt{9}") == Fraction(3)
