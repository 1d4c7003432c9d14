"""These rules say when a failed delivery is tried again, and when it is given up."""

from kernel.errors import Code

FIRST_S = 1.0
MOST_S = 300.0

# The receiver has understood, and will never accept it.
REJECTED = frozenset(
    {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE}
)
# The receiver is away, busy, not yet able, or does not yet know our key: a later attempt may succeed.
AWAY = frozenset(
    {
        Code.UNAVAILABLE,
        Code.UNIMPLEMENTED,
        Code.DEADLINE_EXCEEDED,
        Code.RESOURCE_EXHAUSTED,
        Code.ABORTED,
        Code.CANCELLED,
        Code.UNAUTHENTICATED,
        Code.PERMISSION_DENIED,
    }
)
# Attempts after which a delivery to a receiver that keeps failing is given up [count].
MOST_ATTEMPTS = 20


def is_final(code: Code, attempts: int) -> bool:
    """Return whether a delivery that failed with `code` is given up after so many attempts [count, >= 1].

    Args:
        code: Code of the last failure.
        attempts: Attempts so far [count, >= 1].

    Example:
        >>> is_final(Code.NOT_FOUND, 1), is_final(Code.UNAVAILABLE, 1000), is_final(Code.INTERNAL, MOST_ATTEMPTS)
        (True, False, True)
    """
    return code in REJECTED or (code not in AWAY and attempts >= MOST_ATTEMPTS)


def pause_s(attempts: int, chance: float, *, first_s: float = FIRST_S, most_s: float = MOST_S) -> float:
    """Return the time until the next attempt [s]: doubled each time up to a bound, and spread by half of it either way.

    Args:
        attempts: Attempts so far [count, >= 1].
        chance: A random number [0 <= chance < 1].
        first_s: The first pause [s].
        most_s: The longest [s].

    Example:
        >>> [pause_s(attempts, 0.5) for attempts in (1, 2, 3, 100)]
        [1.0, 2.0, 4.0, 300.0]
        >>> pause_s(1, 0.0), round(pause_s(1, 0.999), 2)
        (0.5, 1.5)
    """
    return min(most_s, first_s * 2.0 ** min(attempts - 1, 30)) * (0.5 + chance)
