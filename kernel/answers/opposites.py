"""Words that turn a statement around: where one answer has a word and the other its opposite, they differ.

A table of common pairs in their forms, not a dictionary: what is not in it is left to the judgement of meaning.
"""

import re
from collections.abc import Mapping

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
_WORD = re.compile(r"[^\W\d_]+")


def _sides() -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Pairs that a word belongs to, and its side in each."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for pair, line in enumerate(_TABLE.strip().splitlines()):
        for side, words in enumerate(line.split("/")):
            for word in words.split():
                found[word] = (*found.get(word, ()), (pair, side))
    return found


_SIDES = _sides()


def are_opposed(a: str, b: str) -> bool:
    """Whether two texts mention a pair of opposites, and not the same sides of it in the same order.

    A text that mentions neither side of a pair is not opposed by it. Symmetric.

    Example:
        >>> are_opposed("It rose last year.", "It fell last year."), are_opposed("It rose.", "It grew.")
        (True, False)
    """
    first, second = _mentioned(a), _mentioned(b)
    return any(sides != second[pair] for pair, sides in first.items() if pair in second)


def _mentioned(text: str) -> dict[int, tuple[int, ...]]:
    """Sides of each pair that `text` mentions, in the order of their first mention."""
    found: dict[int, tuple[int, ...]] = {}
    for word in _WORD.findall(text.casefold()):
        for pair, side in _SIDES.get(word, ()):
            if side not in found.get(pair, ()):
                found[pair] = (*found.get(pair, ()), side)
    return found
