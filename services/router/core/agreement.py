"""Which short answers agree with one another, and with the conclusion of a longer text. Pure.

Source: SPEC 1.1 (internal consistency, source agreement). Nobody says here what kind of answer a question wants, so
every answer is read for what it is: an option's letter, a number, a yes or no, or words.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from kernel.answers.numbers import rational, spelled
from kernel.answers.words import normalised
from kernel.answers.wrapping import boxed, unwrapped, without_thinking
from kernel.values import value

# Cosine from which two short answers in words are taken to mean the same.
SAME_MEANING = 0.8
# Characters at the end of a long text in which its conclusion is looked for.
CONCLUSION = 400
# Characters of a text that is an answer as it stands.
SHORT = 120

_MARKED = re.compile(r"final answer\W{0,4}\s*(?:is\b)?[:\s*]*(\S[^\n]*)", re.IGNORECASE)
_OPTION = re.compile(r"\(?([A-Z])(?:\)|[.:](?=\s|$)|$)")
_VERDICT = re.compile(r"\W*(yes|no|true|false)\b", re.IGNORECASE)
_VERDICTS = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}


class Kind(StrEnum):
    """What an answer is read as."""

    OPTION = "OPTION"
    NUMBER = "NUMBER"
    VERDICT = "VERDICT"
    WORDS = "WORDS"


@value
class Key:
    """An answer in the form in which it is compared."""

    kind: Kind
    text: str


@value
class Grouped:
    """Samples by what they say.

    Attributes:
        members: Places of the samples in each group, the largest group first, then by first place.
        representatives: The first sample of each group, as it was written.
        are_words: Whether every group is one of words, which may mean the same in other words.
    """

    members: Sequence[Sequence[int]]
    representatives: Sequence[str]
    are_words: bool

    @property
    def sizes(self) -> list[int]:
        """Samples in each group [count]."""
        return [len(group) for group in self.members]

    @property
    def share(self) -> float | None:
        """Share of the samples in the largest group [0..1]; None without samples."""
        return len(self.members[0]) / sum(self.sizes) if self.members else None


def key_of(text: str) -> Key | None:
    """What a short answer says; None when it says nothing.

    Example:
        >>> [key_of(text).text for text in ("Final Answer: B", "(B) gaggle", "$1,250.00", "Yes, it is.", "The Nile")]
        ['B', 'B', '1250', 'yes', 'nile']
    """
    said = unwrapped(_marked(text) or _first_line(text))
    option = _OPTION.match(said)
    if option:
        return Key(kind=Kind.OPTION, text=option[1])
    number = rational(said.rstrip("."))
    if number is not None:
        return Key(kind=Kind.NUMBER, text=spelled(number))
    verdict = _VERDICT.match(said)
    if verdict:
        return Key(kind=Kind.VERDICT, text=_VERDICTS[verdict[1].lower()])
    words = normalised(said)
    return None if words is None else Key(kind=Kind.WORDS, text=words)


def grouped(samples: Sequence[str]) -> Grouped:
    """The samples by what they say; one that says nothing agrees with none.

    Example:
        >>> groups = grouped(["12", "Final Answer: 12", "10"])
        >>> groups.sizes, groups.representatives, groups.are_words
        ([2, 1], ['12', '10'], False)
    """
    keys = [key_of(sample) for sample in samples]
    places: dict[object, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(place if key is None else key, []).append(place)
    return _grouped(samples, list(places.values()), all(key is None or key.kind is Kind.WORDS for key in keys))


def merged(groups: Grouped, cosines: Sequence[Sequence[float]], samples: Sequence[str]) -> Grouped:
    """The groups, with those put together whose representatives mean the same.

    Args:
        groups: Groups by words.
        cosines: How near their representatives are to one another, in their order [-1..1].
        samples: The samples.

    Returns:
        Groups of which none is as near as `SAME_MEANING` to the first of another.
    """
    kept: list[tuple[int, list[int]]] = []
    for place, members in enumerate(groups.members):
        near = next((held for first, held in kept if cosines[first][place] >= SAME_MEANING), None)
        if near is None:
            kept.append((place, list(members)))
        else:
            near.extend(members)
    return _grouped(samples, [sorted(members) for _, members in kept], groups.are_words)


def support(draft: str, samples: Sequence[str]) -> float | None:
    r"""Share of the samples that say what `draft` concludes [0..1]; None without samples.

    A draft that marks its answer, or is as short as one, is compared as an answer. Of any other the last part is
    searched for what each sample says.

    Example:
        >>> support("2 * 6 = 12.\nFinal Answer: 12", ["12", "12.0", "10", "12 apples"])
        0.75
        >>> support("It was built in Paris, " + "as is well known. " * 10, ["Paris", "Lyon"])
        0.5
    """
    if not samples:
        return None
    text = without_thinking(draft)
    concluded = conclusion(text)
    keys = [key_of(sample) for sample in samples]
    if concluded is not None:
        return sum(key == concluded for key in keys) / len(keys)
    words = f" {normalised(text[-CONCLUSION:]) or ''} {normalised(text[:CONCLUSION]) or ''} "
    return sum(key is not None and f" {key.text} " in words for key in keys) / len(keys)


def conclusion(text: str) -> Key | None:
    r"""What `text` marks as its answer, or says as a whole when it is short; None where neither tells.

    Example:
        >>> conclusion("So it is \\boxed{7}.").text, conclusion("No, because it is too cold there.").text
        ('7', 'no')
    """
    marked = _marked(text) or boxed(text)
    if marked:
        return key_of(marked)
    said = text.strip()
    if len(said) <= SHORT and "\n" not in said:
        return key_of(said)
    verdict = _VERDICT.match(said)
    return Key(kind=Kind.VERDICT, text=_VERDICTS[verdict[1].lower()]) if verdict else None


def _grouped(samples: Sequence[str], members: list[list[int]], are_words: bool) -> Grouped:
    ordered = sorted(members, key=lambda group: (-len(group), group[0]))
    return Grouped(members=ordered, representatives=[samples[group[0]] for group in ordered], are_words=are_words)


def _marked(text: str) -> str | None:
    found = _MARKED.findall(text[-CONCLUSION * 10 :])
    return found[-1].strip() if found else None


def _first_line(text: str) -> str:
    return next((line for line in without_thinking(text).strip().splitlines() if line.strip()), "")
