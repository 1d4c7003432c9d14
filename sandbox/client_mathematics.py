"""Tools compare the expressions of models in one process that is killed when it takes too long, as services do.

A tool asks one question at a time, so it needs no threads and no turns of callers (`sandbox.mathematics.Calculators`).
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import inf

from sandbox.mathematics import Ask, Calculator, LimitedMathematics


def client_mathematics() -> LimitedMathematics:
    r"""Return the mathematics of one question; the process starts with the first expression that is compared.

    Example:
        >>> from kernel.answers import AnswerType, same_canonical
        >>> same_canonical(r"\sqrt{4}", "2", AnswerType.NUMBER, client_mathematics())
        True
    """
    return LimitedMathematics(_ready, lambda: inf)


@contextmanager
def _ready(_seconds: float) -> Iterator[Ask]:
    """Hold the process once it is ready; that time is not the question's.

    Raises:
        TooLate: When it cannot be started.
    """
    calculator = _calculator()
    calculator.warm()
    yield calculator.ask


@cache
def _calculator() -> Calculator:
    calculator = Calculator()
    atexit.register(calculator.close)
    return calculator
