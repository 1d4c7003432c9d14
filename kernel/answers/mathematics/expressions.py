r"""Expressions are answers that are mathematics, and no plain number: roots, intervals, sets, matrices, polynomials.

Two of them are compared by `math-verify`, on a normalised LaTeX text. Its time limits rest on signals, which only a
main thread has, so they are off. What reaches it is bounded first: length, nesting, commands, digits, powers and the
terms of what is multiplied out; and expressions that differ as numbers are distinguished before anything is simplified.
These bounds keep the time short, and promise none: reading and simplifying have no bound of their own. A service that
must stay responsive compares in a process that can be killed (`Mathematics`, `sandbox.mathematics`).
What is not understood is no expression, and is compared by its words.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from kernel.answers.mathematics.bounds import LARGEST_DEGREE, is_small_enough, largest_power
from kernel.answers.wrapping import closing, unwrapped

LONGEST_EXPRESSION = 200
DEEPEST = 5
MOST_DIGITS = 30
# Digits to which values are computed, and to which equal ones must agree.
_PRECISION = 30
_AGREED = 15
_CACHED = 512

_FUNCTION_NAMES = "sin cos tan cot sec csc arcsin arccos arctan log ln"
_FUNCTIONS = _FUNCTION_NAMES.split()
_SYMBOL_NAMES = (
    "frac sqrt pi infty cup cap in pm mp cdot times div le leq ge geq ne neq circ emptyset varnothing mathbb "
    "alpha beta gamma theta lambda mu phi omega begin end"
)
_COMMANDS = frozenset([*_FUNCTIONS, *_SYMBOL_NAMES.split()])
_CHARACTERS = re.compile(r"[0-9A-Za-z\s+\-*/^_=<>(){}\[\],.|\\&]+")
_UNICODE = {
    ord(sign): plain
    for sign, plain in {
        "π": "\\pi ", "∞": "\\infty ", "√": "\\sqrt ", "θ": "\\theta ", "°": "^\\circ ", "²": "^2", "³": "^3",
        "\u00d7": "\\cdot ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "\u2212": "-", "\u2013": "-", "±": "\\pm ",
        "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "∈": "\\in ", "\u222a": "\\cup ", "∩": "\\cap ", "∅": "\\emptyset ",
        "\u211d": "\\mathbb{R}",
    }.items()
}  # fmt: skip
_SPELLINGS = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|(?<!\\)\\[!,;: ]|~", " "),
        (r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\varnothing", r"\\emptyset"),
        (r"\s*\\text\{\s*(?:and|or)\s*\}\s*|(?<=[\w)}\]])\s+(?:and|or)\s+(?=[-\w(\\\[])", ", "),
        (r"\^\s*\{?\s*\\circ\s*\}?", ""),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (r"(?<![\\A-Za-z])(?:infinity|infty|inf|oo)(?![A-Za-z])", r"\\infty "),
        (r"(?<![\\A-Za-z])(pi|sqrt|" + "|".join(_FUNCTIONS) + r")(?![A-Za-z])", r"\\\1 "),
        (r"\\sqrt\s*([0-9A-Za-z])", r"\\sqrt{\1}"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"(?<!log)_\{(\w)\}", r"_\1"),
        (r"\^\{(\w)\}", r"^\1"),
        (r"\\log\s*_\s*(?:\{(\w+)\}|(\w))", r"\\log_{\1\2}"),
    )
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{([pbvBV]?matrix)\}")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\\S|\S")
# Letters that stand between spaces are words ("5 am"), and so are three in a row.
_WORDS = re.compile(r"[A-Za-z]{3,}|(?<!\S)[A-Za-z]{2,}(?!\S)")
_MATHEMATICAL_SIGN = re.compile(r"\\[A-Za-z{]|\d[A-Za-z]|[A-Za-z]\(|[+\-/^=<>|,]|\d_\d")
# Two numbers side by side, a grade (A+), an exponent of nothing, a date (3/4/2020), a division by zero.
_MALFORMED = re.compile(r"\d\s+\d|(?:^|[(\[{,=])\s*[\^/_]|[\^/_+\-=]\s*(?:$|[)\]},])|\d/\d+/\d|/0(?![\d.])")
# Digits joined by signs alone may be a date, a score or a range of years.
_AMBIGUOUS = re.compile(r"[\d\s.,+\-/]*\d\s*[-+/]\s*\d[\d\s.,+\-/]*")
_BASED = re.compile(r"\d_\{?\d")
_DECIMAL = re.compile(r"(\d*)\.(\d+)")
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
# What a single number has not: lists, relations, matrices, sets.
_NO_CONSTANT = re.compile(r"[,=<>&\[\]|]|\\(?:[lg]eq?|neq?|in|cup|cap|mathbb|pm|mp|emptyset)(?![A-Za-z])")
# The imaginary unit is recognised only where it stands alone.
_IMAGINARY = re.compile(r"(?<=[\d)}])i(?![A-Za-z])")
_ROUND = str.maketrans("[]", "()")


class Mathematics(Protocol):
    """An implementation compares normalised expressions; one that runs out of time returns that they differ.

    Attributes:
        undecided: Comparisons that were given up for lack of time [count].
    """

    undecided: int

    def same(self, a: str, b: str) -> bool:
        """Return whether two mean the same."""

    def value(self, plain: str) -> Fraction | None:
        """Return the value of a constant; None when it has no finite real one."""


class InThisProcess:
    """This implementation compares in the calling process, however long it takes.

    Attributes:
        undecided: 0: it gives up no comparison.
    """

    undecided = 0

    def same(self, a: str, b: str) -> bool:
        """Return whether two mean the same."""
        return same_expression(a, b)

    def value(self, plain: str) -> Fraction | None:
        """Return the value of a constant; None when it has no finite real one."""
        return approximate(plain)


IN_THIS_PROCESS = InThisProcess()


def expression(text: str) -> str | None:
    r"""Return the normalised LaTeX of `text`, where it is mathematics within the bounds; None otherwise.

    Example:
        >>> expression("sqrt(3)/2"), expression(r"$\left( 3, 4 \right]$"), expression("2 and -1")
        ('\\sqrt{3}/2', '(3,4]', '2,-1')
        >>> expression("no 5"), expression("1990-1995"), expression("x" * 1000)
        (None, None, None)
    """
    form = _form(text)
    # Where normalising does not settle at once the text is broken, and no mathematics.
    return form if form is not None and _form(form) == form else None


def constant(text: str) -> str | None:
    r"""Return the normalised LaTeX of `text`, where it is one number: no variables, no lists, no relations.

    Example:
        >>> constant(r"\frac{\sqrt{3}}{2}"), constant("3+4"), constant("x+1"), constant("1,2")
        ('\\frac{\\sqrt{3}}{2}', '(3+4)', None, None)
    """
    plain = expression(text) or expression(f"({text})")
    if plain is None or _NO_CONSTANT.search(plain):
        return None
    return plain if _letters(plain) <= {"e", "i"} else None


def same_expression(a: str, b: str) -> bool:
    r"""Return whether two normalised expressions mean the same mathematics, exactly.

    A decimal is the fraction it spells.

    An ordered pair or interval is never a bare list, and a number written in another base equals only itself.

    Example:
        >>> same_expression(r"\frac{\sqrt{3}}{2}", r"\sqrt{3}/2"), same_expression("(1,2)", "1,2")
        (True, False)
    """
    if a == b:
        return True
    if _BASED.search(a) or _BASED.search(b) or _shape(a) != _shape(b) or _differ_in_case(a, b):
        return False
    first, second = _tree(a), _tree(b)
    if first is None or second is None or _clearly_differ(a, b):
        return False
    from math_verify import verify  # type: ignore[import-untyped]

    # `verify` reads an equation on one side as its right-hand side; compared both ways, it does so for neither alone.
    return all(bool(verify(one, other, timeout_seconds=None)) for one, other in ((first, second), (second, first)))


def approximate(plain: str) -> Fraction | None:
    r"""Return the value of a normalised constant expression to about 30 digits; None when it has no finite real one.

    Example:
        >>> float(approximate(r"\sqrt{2}"))
        1.4142135623730951
    """
    tree = _tree(plain) if not _BASED.search(plain) else None
    try:
        value = tree.evalf(_PRECISION) if tree is not None else None
        return Fraction(str(value)) if value is not None and value.is_Number and value.is_finite else None
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return None


def _form(text: str) -> str | None:
    bare = unwrapped(text) if len(text) <= LONGEST_EXPRESSION else ""
    plain = _latex(bare.translate(_UNICODE))
    if not _is_mathematics(plain) or _AMBIGUOUS.fullmatch(bare) is not None:
        return None
    tokens = _TOKEN.findall(plain)
    return "".join(_spaced(token, after) for token, after in zip(tokens, [*tokens[1:], ""], strict=True))


def _latex(text: str) -> str:
    for pattern, plain in _SPELLINGS:
        text = pattern.sub(plain, text)
    return _braced(_braced(text, "\\sqrt"), "^").strip()


def _braced(text: str, before: str) -> str:
    """Return `text` with braces for the parentheses that follow `before`: of a root, and of an exponent."""
    head, *rest = re.split(re.escape(before) + r"\s*\(", text)
    for piece in rest:
        end = closing(piece, "(", ")")
        head += f"{before}({piece}" if end is None else f"{before}{{{piece[:end]}}}{piece[end + 1 :]}"
    return head


def _is_mathematics(plain: str) -> bool:
    bare = _ENVIRONMENT.sub(" ", plain)
    commands = re.findall(r"\\([A-Za-z]+)", bare)
    letters = re.sub(r"\\[A-Za-z]+", " + ", bare)
    return (
        _CHARACTERS.fullmatch(plain) is not None
        and _COMMANDS.issuperset(commands)
        and _WORDS.search(letters) is None
        and _MATHEMATICAL_SIGN.search(plain) is not None
        and _MALFORMED.search(plain) is None
        and _is_bounded(plain)
    )


def _is_bounded(plain: str) -> bool:
    depths = [0]
    for character in plain:
        depths.append(depths[-1] + (character in "([{") - (character in ")]}"))
    balanced = min(depths) == depths[-1] == 0
    longest = max(map(len, re.findall(r"\d+", plain)), default=0)
    return balanced and max(depths) <= DEEPEST and longest <= MOST_DIGITS


def _spaced(token: str, after: str) -> str:
    return f"{token} " if re.fullmatch(r"\\[A-Za-z]+", token) and after[:1].isalpha() else token


def _shape(plain: str) -> str:
    """Return whether an expression is a sequence in brackets, a set (also a list without brackets) or neither."""
    bare = re.sub(r"^[a-z](?:=|\\in)", "", plain)
    if "," not in bare:
        return "set" if "\\pm" in bare else "single"
    end = closing(bare[1:].translate(_ROUND), "(", ")")
    return "sequence" if bare[0] in "([" and end == len(bare) - 2 else "set"


def _letters(plain: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", plain)))


def _differ_in_case(a: str, b: str) -> bool:
    """Return whether one uses R where the other uses r."""
    return any(letter.swapcase() in _letters(b) - _letters(a) for letter in _letters(a) - _letters(b))


@lru_cache(maxsize=_CACHED)
def _tree(plain: str) -> Any:  # noqa: ANN401 - sympy has no types
    """Return what `math-verify` reads in a normalised expression.

    It is None when that is nothing, or too large to be worked on.
    """
    if largest_power(plain) > LARGEST_DEGREE:
        return None
    number = _whole(plain)
    if number is not None:
        return number
    from math_verify import LatexExtractionConfig, LatexNormalizationConfig, grader, parse, parser

    # Without a time limit it warns once that no other limit holds; the bounds of this module do.
    parser.TIMEOUT_WARNING_SHOWN = grader.TIMEOUT_WARNING_SHOWN = True
    # Its own treatment of units would turn 2ab into 2.
    normalization = LatexNormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none", equations=False
    )
    config = LatexExtractionConfig(normalization_config=normalization)
    exact = _IMAGINARY.sub(" i", _DECIMAL.sub(_fraction, plain))
    read = parse(f"${exact}$", extraction_config=[config], fallback_mode="no_fallback", parsing_timeout=None)
    return read[0] if len(read) == 1 and is_small_enough(read[0]) else None


def _whole(plain: str) -> Any:  # noqa: ANN401 - sympy has no types
    """Return a whole number as sympy has it: there are many of them, and parsing takes long."""
    from sympy import Integer  # type: ignore[import-untyped]

    return Integer(int(plain)) if _WHOLE.fullmatch(plain) else None


def _fraction(decimal: re.Match[str]) -> str:
    return f"\\frac{{{int(decimal[1] + decimal[2])}}}{{1{'0' * len(decimal[2])}}}"


def _clearly_differ(a: str, b: str) -> bool:
    """Return whether both are scalars whose values differ at a point without any special property."""
    first, second = _sampled(a), _sampled(b)
    if first is None or second is None:
        return False
    return bool(abs(first - second) * 10**_AGREED > abs(first) + abs(second))


@lru_cache(maxsize=_CACHED)
def _sampled(plain: str) -> Any:  # noqa: ANN401 - sympy has no types
    """Return the value of a scalar expression where each variable has a value that only its name decides."""
    from sympy import Expr, Rational

    tree = _tree(plain)
    if not isinstance(tree, Expr):
        return None
    point = {symbol: Rational(97 + 10 * (sum(map(ord, symbol.name)) % 61), 89) for symbol in tree.free_symbols}
    try:
        value = tree.subs(point).evalf(_PRECISION)
        return value if abs(value).is_finite and abs(value).is_Number else None
    except (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError):
        return None
