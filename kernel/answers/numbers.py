r"""Numbers are read exactly: every number is a fraction, none is a float.

Thousands separators are dropped, and what is beside the number is separated from it: a currency, or words that may
be a unit (`kernel.answers.units` knows which are). A percent sign is dropped, so that 50% is the number 50 and not 0.5
(questions ask "what percentage"; `is_right` also accepts the other reading).
"""

import re
import unicodedata
from fractions import Fraction

from kernel.answers.wrapping import unwrapped
from kernel.values import value

# Bounds of what is read as a number: characters of its text, digits of its parts, power of ten.
LONGEST_NUMBER = 1_000
MOST_DIGITS = 400
LARGEST_POWER = 400
_POWER_DIGITS = 8
# Decimal places up to which a canonical number is written as a decimal; above it is a fraction.
MOST_DECIMALS = 12

_CURRENCIES = "$€£¥₹₩"
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBER_WORDS = {word: number for number, word in enumerate(_WORDS.split())}
MAGNITUDES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
# Units that are too short to be distinguished from algebra by their length.
_SHORT_UNIT_NAMES = (
    "m g s h l L J N W V A K C F cm mm km kg mg ml mL ft in lb oz hr Hz kW MB GB TB KB am pm AM PM mi yd sq cu % ° ¢"
)
_SHORT_UNITS = frozenset(_SHORT_UNIT_NAMES.split())
_LONG_UNIT_NAMES = "lbs min mins hrs kmh mph kWh kHz MHz GHz USD EUR GBP cents percent"
_LONG_UNITS = frozenset(_LONG_UNIT_NAMES.split())
_NO_UNIT_NAMES = (
    "or and to not no nor than more less fewer between plus minus times over divided by is are was were if but "
    "out sqrt log sin cos tan exp mod at point below under above beneath past before after choose "
    "squared cubed factorial halved doubled tripled"
)
# Fractions ("2 thirds", "5 thousandths") and magnitudes ("4 hundred thousand") are part of the number, and no unit.
_PART_NAMES = (
    "half halve third quarter fourth fifth sixth seventh eighth ninth tenth eleventh twelfth twentieth hundredth "
    "thousandth millionth billionth trillionth"
)
_NO_UNITS = frozenset([*_NO_UNIT_NAMES.split(), *_PART_NAMES.split(), *(f"{part}s" for part in _PART_NAMES.split())])
# Letters that are magnitudes beside a currency: $50K, 2.5M USD.
_MONEY = {"k": 10**3, "m": 10**6, "mn": 10**6, "mm": 10**6, "b": 10**9, "bn": 10**9, "t": 10**12, "tn": 10**12}
_MONEY_NAMES = frozenset(["usd", "eur", "gbp", "dollar", "dollars", "euro", "euros", "pound", "pounds"])
_UNIT = re.compile(r"[^\W\d_]{1,20}\.?(?:\^?\{?-?[1-3]\}?)?|°[CF]?|[%¢$€£¥₹₩]")
_MOST_UNITS = 4

_SPELLINGS = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"[\u2212\u2013\u2010\u2011]", "-"),
        (r"\\[!,;: ]|\\left|\\right|~", ""),
        (r"\{,\}", ","),
        (r"\\\$", "$"),
        (r"\\%", "%"),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\(?:times|cdot)|[\u00d7·⋅]", "*"),
        (r"\^\{?\\circ\}?", "°"),
        (r"(?<=[\d\s])([aApP])\.[ ]?([mM])\b\.?", r" \1\2"),
        (r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}", r" \1"),
        (r"\\frac\{\s*(-?\d+)\s*\}\{\s*(\d+)\s*\}|\\frac(\d)(\d)", r" \1\3/\2\4 "),
    )
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?!,?\d)|(?<![\d,.])\d{1,2}(?:,\d{2})+,\d{3}(?!,?\d)")
# Points between groups of three and a comma after them: 1.250,00 has one reading only; 1,5 and 1.250 have two.
_DECIMAL_COMMA = re.compile(r"(?<![\d,.])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d.,]*\d)")
_SPACED = re.compile(r"(?<![\d,.])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d/])")
_ABOUT = re.compile(r"^(?:about|approximately|approx\.?|roughly|around|~)\s*", re.IGNORECASE)
# A chain of equalities ends in its value; several of them in a row (x = 3, y = 5) have no single one.
_VALUE = re.compile(r"^(?:(?!\b(?:or|and)\b)[^,;])*(?:(?<![<>!])=|≈|\\approx)\s*")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<currency>[$€£¥₹₩]?)\s*(?P<inner>-?)(?:"
    r"(?P<whole>\d+)\s+(?P<part>\d+)\s*/\s*(?P<parts>\d+)"
    r"|(?P<top>\d+)\s*/\s*(?P<bottom>\d+)"
    r"|10\s*\^\s*\{?\s*(?P<pure>[-+]?\d+)\s*\}?"
    r"|(?P<decimal>\d+\.?\d*|\.\d+)"
    r"(?:\s*(?:\*|x)\s*10\s*\^\s*\{?\s*(?P<power>[-+]?\d+)\s*\}?|[eE](?P<exponent>[-+]?\d+))?"
    r")(?P<unit>.*)",
    re.DOTALL,
)
_SUPERSCRIPT = re.compile(r"[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@value
class NumberInText:
    """A number as a text has it, with what stands beside it.

    Attributes:
        number: The number, its magnitude included.
        currency: The currency sign before it; empty without one.
        beside: The words after it, without its magnitude; empty without any.
        shown: Its digits as they are written; empty where its value has other digits (a fraction, a magnitude).
    """

    number: Fraction
    currency: str = ""
    beside: str = ""
    shown: str = ""


@value
class _Beside:
    """The words after a number: what they multiply it by, and those that are left."""

    scale: int
    words: str


def rational(text: str) -> Fraction | None:
    r"""Return the number that `text` as a whole is; None when it is none, or one beyond the bounds.

    Example:
        >>> rational("$1,234.50"), rational("1 3/4 cups"), rational(r"-\frac{3}{4}"), rational("1.5 * 10^3")
        (Fraction(2469, 2), Fraction(7, 4), Fraction(-3, 4), Fraction(1500, 1))
        >>> rational("1.250,00"), rational("1,250.5")
        (Fraction(1250, 1), Fraction(2501, 2))
        >>> rational("50%"), rational("3 million"), rational("x = 5"), rational("5 or 6"), rational("2ab")
        (Fraction(50, 1), Fraction(3000000, 1), Fraction(5, 1), None, None)
    """
    found = number_in(text)
    return None if found is None else found.number


def number_in(text: str) -> NumberInText | None:
    r"""Return the number that `text` as a whole is, with what stands beside it; None as for `rational`.

    Example:
        >>> found = number_in("$1.5 million per year")
        >>> found.number, found.currency, found.beside, number_in("3.10 km").shown
        (Fraction(1500000, 1), '$', 'per year', '3.10')
    """
    plain = _plain(text) if len(text) <= LONGEST_NUMBER else ""
    if plain.casefold() in NUMBER_WORDS:
        return NumberInText(number=Fraction(NUMBER_WORDS[plain.casefold()]))
    found = _NUMBER.fullmatch(plain)
    beside = _beside(found["unit"], money=bool(found["currency"])) if found else None
    number = _read(found, beside.scale) if found and beside else None
    if number is None or found is None or beside is None:
        return None
    digits = found["decimal"] if beside.scale == 1 and not (found["power"] or found["exponent"]) else None
    return NumberInText(number=number, currency=found["currency"], beside=beside.words, shown=digits or "")


def is_percentage(text: str) -> bool:
    """Return whether a percent sign, or the word, ends `text`.

    Example:
        >>> is_percentage("50 %"), is_percentage("50")
        (True, False)
    """
    return unwrapped(text).rstrip("$ ").casefold().endswith(("%", "percent", "per cent"))


def decimal_places(text: str) -> int | None:
    """Return the decimal places that `text` shows, where it is a plain decimal of three or more significant digits.

    Returns:
        Digits after the point [count, >= 1]; None for any other text.

    Example:
        >>> decimal_places("0.333"), decimal_places("0.33"), decimal_places("1/3")
        (3, None, None)
    """
    shown = re.fullmatch(r"-?(\d*)\.(\d+)%?", _plain(text)) if len(text) <= LONGEST_NUMBER else None
    if shown is None or len((shown[1] + shown[2]).lstrip("0")) < 3:
        return None
    return len(shown[2])


def spelled(number: Fraction) -> str:
    """Return the canonical text of `number`: an integer, a decimal where it has a short one, else a fraction a/b.

    Example:
        >>> spelled(Fraction(3, 2)), spelled(Fraction(-1, 3)), spelled(Fraction(4))
        ('1.5', '-1/3', '4')
    """
    places = _decimals(number.denominator)
    if not 0 < places <= MOST_DECIMALS:
        return str(number)
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def has_finite_decimal(number: Fraction) -> bool:
    """Return whether `number` can be written as a decimal without rounding it.

    Example:
        >>> has_finite_decimal(Fraction(3, 8)), has_finite_decimal(Fraction(1, 3))
        (True, False)
    """
    return _decimals(number.denominator) <= LONGEST_NUMBER


def _decimals(denominator: int) -> int:
    """Return the decimal places of a fraction with this denominator; beyond every bound when they do not end."""
    counts = []
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator //= prime
            count += 1
        counts.append(count)
    return max(counts) if denominator == 1 else LONGEST_NUMBER + 1


def _plain(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda raised: "^" + raised[0].translate(_RAISED), unwrapped(text))
    text = "".join(_opened(character) for character in text)
    for pattern, plain in _SPELLINGS:
        text = pattern.sub(plain, text)
    text = _DECIMAL_COMMA.sub(lambda number: f"{_joined(number)[: -len(number[2])]}.{number[2]}", text)
    text = _ABOUT.sub("", _VALUE.sub("", text).strip())
    return _SPACED.sub(_joined, _THOUSANDS.sub(_joined, text)).strip()


def _opened(character: str) -> str:
    """Return `character`, or a fraction such as ½ as ` 1/2`."""
    if unicodedata.category(character) != "No":
        return unicodedata.normalize("NFKC", character)
    return " " + unicodedata.normalize("NFKC", character).replace("\u2044", "/")


def _joined(digits: re.Match[str]) -> str:
    return re.sub(r"\D", "", digits[0])


def _beside(unit: str, *, money: bool) -> _Beside | None:
    """Return what the words after a number are: its magnitude, if any, and what may be its unit; None for others."""
    words = [word for word in re.split(r"[\s/*-]+", unit) if word]
    if not words:
        return None if unit.strip() else _Beside(scale=1, words="")
    if money or any(word[0] in _CURRENCIES or word.casefold() in _MONEY_NAMES for word in words):
        scale = _MONEY.get(words[0].casefold(), _magnitude(words[0]))
    else:
        scale = _magnitude(words[0])
    units = words if scale is None else words[1:]
    attached = units is words and not unit[0].isspace()
    if len(words) > _MOST_UNITS or not all(_is_unit(word, attached=attached) for word in units):
        return None
    return _Beside(scale=scale or 1, words=(unit if scale is None else unit.split(words[0], 1)[1]).strip())


def _magnitude(word: str) -> int | None:
    return MAGNITUDES.get(word.casefold(), MAGNITUDES.get(word.casefold().removesuffix("s")))


def _is_unit(word: str, *, attached: bool) -> bool:
    bare = re.sub(r"\.?(?:\^?\{?-?[1-3]\}?)?$", "", word)
    if bare in _SHORT_UNITS or bare in _LONG_UNITS or bare[:1] in (*_CURRENCIES, "°"):
        return _UNIT.fullmatch(word) is not None
    long_enough = len(bare) >= 3 and not attached and _magnitude(bare) is None
    return long_enough and bare.casefold() not in _NO_UNITS and _UNIT.fullmatch(word) is not None


def _read(found: re.Match[str], scale: int) -> Fraction | None:
    power = found["pure"] or found["power"] or found["exponent"] or "0"
    if len(power) > _POWER_DIGITS or abs(int(power)) > LARGEST_POWER:
        return None
    digits = (found[part] or "" for part in ("whole", "part", "parts", "top", "bottom", "decimal"))
    size = _size(found) if max(map(len, digits)) <= MOST_DIGITS else None
    sign = -1 if (found["sign"] == "-") != (found["inner"] == "-") else 1
    return sign * size * scale * Fraction(10) ** int(power) if size is not None else None


def _size(found: re.Match[str]) -> Fraction | None:
    if found["pure"]:
        return Fraction(1)
    if found["decimal"]:
        return Fraction(found["decimal"].removesuffix("."))
    bottom = int(found["parts"] or found["bottom"])
    if bottom == 0:
        return None
    return int(found["whole"] or "0") + Fraction(int(found["part"] or found["top"]), bottom)
