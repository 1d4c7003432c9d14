"""These bounds limit how large an expression may be that is parsed and worked on.

Bounds that keep work short: powers, and the terms of what is multiplied out.
"""

import re
from math import comb, prod
from typing import Any

from kernel.answers.wrapping import closing

# The largest product of nested exponents; in equations and inequalities, which may get solved, a small one.
LARGEST_DEGREE = 200
QUADRATIC = 2
# The most terms of anything multiplied out, and the largest power of a sum.
MOST_TERMS = 500
LARGEST_POWER_OF_A_SUM = 20

_NUMERAL = re.compile(r"\d+")


def largest_power(plain: str) -> float:
    r"""Return the largest product of nested numeric exponents in a text; infinite for a power in an exponent.

    Looked at before anything is read: the ends of an interval are evaluated while it is.

    Returns:
        The product [>= 1]; infinite for a power in an exponent.

    Example:
        >>> largest_power(r"(x^{20}+1)^3+2"), largest_power("9^{9^9}")
        (60.0, inf)
    """
    best, last = [1.0], [1.0]
    place = 0
    while place < len(plain):
        sign, place = plain[place], place + 1
        if sign == "^":
            exponent = _group(plain, place)
            place += len(exponent)
            last[-1] *= _numeric(exponent)
        elif sign in "([{":
            best.append(1.0)
            last.append(1.0)
        elif sign in ")]}":
            last.pop()
            last[-1] = best.pop()
        else:
            last[-1] = 1.0
        best[-1] = max(best[-1], last[-1])
    return best[0]


def _group(plain: str, start: int) -> str:
    """Return the text at `start`: a group in braces, or one character."""
    end = closing(plain[start + 1 :], "{", "}") if plain[start : start + 1] == "{" else None
    return plain[start : start + 1] if end is None else plain[start : start + end + 2]


def _numeric(exponent: str) -> float:
    if "^" in exponent:
        return float("inf")
    return max(1.0, float(prod(map(int, _NUMERAL.findall(exponent)))))


def is_small_enough(tree: Any) -> bool:  # noqa: ANN401 - sympy has no types
    """Return whether `tree` is defined (no division by zero) and small enough to be worked on.

    Equations and inequalities may be solved in the comparison, so theirs are at most quadratic.
    """
    from sympy import Function, nan, zoo  # type: ignore[import-untyped]
    from sympy.core.relational import Relational  # type: ignore[import-untyped]

    if tree.has(nan, zoo) or _degree(tree) > LARGEST_DEGREE or _terms(tree) > MOST_TERMS:
        return False
    return not tree.has(Relational) or (
        _degree(tree) <= QUADRATIC and not tree.has(Function) and _has_whole_powers(tree)
    )


def _terms(tree: Any) -> float:  # noqa: ANN401 - sympy has no types
    """Return the terms of `tree` multiplied out, or of its largest part; infinite for a high power of a sum."""
    from sympy import Add, Mul, Pow

    parts = list(map(_terms, tree.flat() if hasattr(tree, "flat") else tree.args))
    largest = max(parts, default=1.0)
    if isinstance(tree, Add):
        return float(sum(parts))
    if isinstance(tree, Mul):
        return float(prod(parts))
    if isinstance(tree, Pow) and parts[0] > 1:
        power = _weight(tree.args[1])
        if power > LARGEST_POWER_OF_A_SUM or parts[0] > MOST_TERMS:
            return float("inf")
        return max(parts[0], float(comb(int(power + parts[0]) - 1, int(power))))
    return largest


def _has_whole_powers(tree: Any) -> bool:  # noqa: ANN401 - sympy has no types
    from sympy import Pow

    return all(power.args[1].is_integer or not power.args[0].free_symbols for power in tree.atoms(Pow))


def _degree(tree: Any) -> float:  # noqa: ANN401 - sympy has no types
    """Return the largest product of nested exponents in `tree`; infinite for a power in an exponent."""
    parts = tree.flat() if hasattr(tree, "flat") else tree.args
    below = max(map(_degree, parts), default=1.0)
    if getattr(tree, "is_Pow", False) or type(tree).__name__ == "exp":
        return below * _weight(tree.args[-1])
    return below


def _weight(exponent: Any) -> float:  # noqa: ANN401 - sympy has no types
    if _degree(exponent) > 1.0:
        return float("inf")
    if exponent.free_symbols:
        return 2.0
    return max(1.0, abs(complex(exponent.evalf(5))))
