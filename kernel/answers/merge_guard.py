"""The merge guard keeps two longer answers apart, whatever a judgement of their meaning returns.

Source: ours (papers.md 2.3): answers that differ in a number, a name or a negation are never merged. The signs are
surface signs: numbers, percent signs, capitalised names, negating words and prefixes, and a table of opposites. What no
such sign shows (a name in small letters inside a longer text, a negation by any other word) is left to the judgement of
meaning.
"""

import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction

from kernel.answers.numbers import MAGNITUDES, MOST_DIGITS, NUMBER_WORDS
from kernel.answers.words import is_short, normalised
from kernel.answers.wrapping import LONGEST_ANSWER

_TOKEN = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:/\d+)?|\d+(?:\.\d+)?|[^\W\d_]+")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PERCENT = re.compile(r"\s*(?:%|per\s?cent\b)")
_NO_NUMBER = re.compile(r"\b(?:no|any|every|some|each|this|that|which|the|another)[- ]?one\b|\bone of\b|\bone's\b")
_FURTHER_NUMBERS = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_NUMBERS: Mapping[str, Fraction | int] = {
    **NUMBER_WORDS,
    **_FURTHER_NUMBERS,
    **MAGNITUDES,
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "half": Fraction(1, 2),
}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_PRONOUN = re.compile(r"I(?:['\u2019]\w+)?")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n]\s*|[\"“(*-]\s*)$")
_NEGATING = (
    "no not never none nobody nothing nowhere neither without cannot false incorrect wrong untrue hardly fails "
    "failed fail lacks lack lacked denies denied refuses refused seldom rarely barely scarcely"
)
_NEGATIONS = frozenset(_NEGATING.split())
_PREFIXES = ("un", "in", "im", "il", "ir", "non", "dis", "mis")
_SHORTEST_STEM = 4
# Words that open a sentence in capitals and are no names.
_OPENING = (
    "a an the this that these those it its they their he his she her we our you your i my there here in on at of for "
    "from by with without to as and but or so because since when while where what which who how why if although "
    "though however therefore thus then hence also both all most many some any each every no not yes true false one "
    "two three first second third final answer is are was were do does did can could will would should may might must "
    "have has had be been being after before during under over between according overall generally usually typically "
    "often sometimes always never somebody someone everybody everyone everything something anybody anyone anything "
    "people"
)
_OPENERS = frozenset(_OPENING.split())


def may_be_merged(a: str, b: str, *, small_names: bool = True) -> bool:
    """Return whether no sign on the surface of two answers forbids that they mean the same.

    They may not where one has a number that the other has not, or in another order, or as a percentage; where one has
    a name (a capitalised word that is not a common opener) that the other does not mention in any case; where one
    negates and the other does not; or where they have opposite words (`opposites`). Writing without letter case shows
    no names: it is merged only with its own words. A short answer without capitals may be all names, and each of its
    words counts as one, unless `small_names` is off. True is no statement that they do mean the same, and names in
    small letters inside longer texts are not seen. Symmetric.

    Source:
        Ours (papers.md 2.3); which signs count is ours.

    Example:
        >>> may_be_merged("Einstein proposed it in 1905.", "It was proposed in 1905 by Einstein.")
        True
        >>> may_be_merged("He did it in 1905.", "He did it in 1906."), may_be_merged("It works.", "It does not work.")
        (False, False)
        >>> may_be_merged("Newton found it first.", "Leibniz found it first.")
        False
    """
    if a == b:
        return True
    if max(len(a), len(b)) > LONGEST_ANSWER:
        return False
    a, b = unicodedata.normalize("NFKC", a), unicodedata.normalize("NFKC", b)
    if _is_caseless(a) or _is_caseless(b):
        return normalised(a) == normalised(b)
    same_numbers = _numbers(a) == _numbers(b)
    negated = _negations(a) != _negations(b) or _one_negates(a, b)
    return same_numbers and not negated and not are_opposed(a, b) and _same_names(a, b, small_names)


def _is_caseless(text: str) -> bool:
    return any(unicodedata.category(character) == "Lo" for character in text)


def _numbers(text: str) -> list[tuple[Fraction | str, bool]]:
    """Return the distinct numbers, and whether they are percentages, in the order of their first mention.

    3 apples and 5 pears are not 5 apples and 3 pears.
    """
    plain = _NO_NUMBER.sub(" ", text.casefold())
    found = ((_as_number(token[0]), _PERCENT.match(plain, token.end()) is not None) for token in _TOKEN.finditer(plain))
    return list(dict.fromkeys((number, percent) for number, percent in found if number is not None))


def _as_number(token: str) -> Fraction | str | None:
    if token[0].isalpha():
        known = _NUMBERS.get(token, _NUMBERS.get(token.removesuffix("s")))
        return Fraction(known) if known is not None else None
    digits = token.rstrip(",")
    if len(digits) > MOST_DIGITS or ("," in digits and not _THOUSANDS.fullmatch(digits)):
        return token  # what cannot be read still distinguishes texts
    try:
        return Fraction(digits.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return token


def _words(text: str) -> set[str]:
    return set(map(_stem, _WORD.findall(text)))


def _negations(text: str) -> int:
    words = [word.casefold().replace("\u2019", "'") for word in _WORD.findall(text)]
    return sum(word in _NEGATIONS or word.endswith("n't") for word in words)


def _one_negates(a: str, b: str) -> bool:
    """Return whether a word of one stands in the other with a negating prefix: possible and impossible."""
    first, second = _words(a), _words(b)
    pairs = [(word, second - first) for word in first - second] + [(word, first - second) for word in second - first]
    return any(prefix + word in others for word, others in pairs if len(word) >= _SHORTEST_STEM for prefix in _PREFIXES)


def _same_names(a: str, b: str, small_names: bool) -> bool:
    return _names(a, small_names) <= _words(b) and _names(b, small_names) <= _words(a)


def _names(text: str, small_names: bool) -> set[str]:
    if small_names and is_short(text) and not any(character.isupper() for character in text):
        return _words(text) - _OPENERS
    small = {word for word in _WORD.findall(text) if not word[0].isupper()}
    capital = (word for word in _WORD.finditer(text) if word[0][0].isupper())
    return {_stem(word[0]) for word in capital if not _is_common(word, text, small)}


def _is_common(word: re.Match[str], text: str, small: set[str]) -> bool:
    """Return whether the word is capitalised for its place alone: an opener, or one that is written small elsewhere."""
    if _PRONOUN.fullmatch(word[0]):
        return True
    starts = _SENTENCE_START.search(text[max(0, word.start() - 3) : word.start()]) is not None
    return starts and (_stem(word[0]) in _OPENERS or word[0].lower() in small)


def _stem(word: str) -> str:
    """Return `word` in small letters, without a possessive ending."""
    return _POSSESSIVE.sub("", word.casefold())


_TABLE = """
north northern northward / south southern southward
east eastern eastward / west western westward
left leftward / right rightward
up upward upwards / down downward downwards
upper uppermost / lowermost
top topmost / bottom
above over / below under beneath
before prior preceding / after following
earlier early earliest / later late latest
first / last
more most / less least fewer fewest
higher high highest / lower low lowest
greater larger bigger greatest largest biggest large big / smaller smallest small
longer long longest / shorter short shortest
older old oldest / younger young youngest
faster fast fastest quick quickly / slower slow slowest slowly
stronger strong strongest / weaker weak weakest
heavier heavy heaviest / lighter light lightest
better good best / worse bad worst
hot hotter hottest warm warmer warmest / cold colder coldest cool cooler coolest
heated heating heats warmed warming / cooled cooling cools
rise rises rising rose risen raise raises raised raising / fall falls falling fell fallen lowers lowered lowering
increase increases increased increasing / decrease decreases decreased decreasing reduce reduces reduced reducing
grow grows growing grew grown / shrink shrinks shrinking shrank shrunk
expand expands expanded expanding / contract contracts contracted contracting
gain gains gained gaining / lose loses losing loss
win wins won winning / lose loses lost losing
begin begins began begun start starts started / end ends ended stop stops stopped
open opens opened opening / close closes closed closing shut
enter enters entered / leave leaves exit exits exited
add adds added adding / subtract subtracts subtracted remove removes removed
accept accepts accepted / reject rejects rejected
allow allows allowed permit permits permitted / forbid forbids forbade forbidden prohibit prohibits prohibited banned
cause causes caused / prevent prevents prevented
buy buys bought / sell sells sold
import imports imported / export exports exported
attract attracts attracted / repel repels repelled
maximum max maximal / minimum min minimal
positive positively / negative negatively
inside inner internal interior within / outside outer external exterior
male man men boy boys father husband brother son / female woman women girl girls mother wife sister daughter
alive living / dead
guilty / innocent
cheap cheaper cheapest / expensive
rich richer / poor poorer
wet / dry
thick thicker / thin thinner
hard harder / soft softer easy easier
full / empty
majority / minority
major / minor
odd / even
same identical equal / different unequal
agree agrees agreed / disagree disagrees disagreed
support supports supported / oppose opposes opposed
day / night
summer / winter
ancestor ancestors / descendant descendants
victory victories / defeat defeats
ally allies / enemy enemies
"""
_OPPOSITE_WORD = re.compile(r"[^\W\d_]+")


def _sides() -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Return the pairs that a word belongs to, and its side in each."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for pair, line in enumerate(_TABLE.strip().splitlines()):
        for side, words in enumerate(line.split("/")):
            for word in words.split():
                found[word] = (*found.get(word, ()), (pair, side))
    return found


_SIDES = _sides()


def are_opposed(a: str, b: str) -> bool:
    """Return whether two texts mention a pair of opposites, and not the same sides of it in the same order.

    A text that mentions neither side of a pair is not opposed by it. Symmetric.

    Example:
        >>> are_opposed("It rose last year.", "It fell last year."), are_opposed("It rose.", "It grew.")
        (True, False)
    """
    first, second = _mentioned(a), _mentioned(b)
    return any(sides != second[pair] for pair, sides in first.items() if pair in second)


def _mentioned(text: str) -> dict[int, tuple[int, ...]]:
    """Return the sides of each pair that `text` mentions, in the order of their first mention."""
    found: dict[int, tuple[int, ...]] = {}
    for word in _OPPOSITE_WORD.findall(text.casefold()):
        for pair, side in _SIDES.get(word, ()):
            if side not in found.get(pair, ()):
                found[pair] = (*found.get(pair, ()), side)
    return found
