"""Which short answers agree with one another, and with the conclusion of a longer text. Pure.

Source: SPEC 1.1 (internal consistency, source agreement). Nobody says here what kind of answer a question wants, so
every answer is read for what it is: an option's letter, a number, a yes or no, or words.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from kernel.answers import may_be_merged
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
# What people put before an answer: "so I think the answer is", "it's", "there are".
_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore|well|ok|okay|sure|probably|certainly|definitely)\b,?\s+"
    r"|i(?:'d| would)?\s+(?:think|believe|guess|say)(?:\s+that)?\s+"
    r"|(?:(?:the|my)\s+)?(?:(?:final|correct|right|best)\s+){0,2}(?:answer|result|total|solution|option|choice)"
    r"(?:\s+(?:is|are|was|would be|should be)\b|\s*[:=])\s*"
    r"|(?:it|that|this)(?:'s|\u2019s|\s+(?:is|was|would be|will be|must be))\s+"
    r"|there\s+(?:is|are|was|were|will be)\s+|option\s+(?=\W?[a-z]\b)|letter\s+(?=\W?[a-z]\b)"
    r"|(?:=|equals)\s*)",
    re.IGNORECASE,
)
_LEAD_INS = 4
_OPTION = re.compile(r"\(?([A-Z])(?:\)(?=\s|$)|[.:]?$)")
# "B. Paris" is an option, or somebody's initial: other answers tell.
_OPTION_OR_INITIAL = re.compile(r"([A-Z])[.:]\s+\S")
# "No." is one, "No. 5" and "True Grit" are not.
_VERDICT = re.compile(
    r"\W*(yes|no|true|false)\b(?=\W*$|\s*[,;:!]|\s*\.(?!\s?\d)|\s+[-\u2013\u2014(]"
    r"|\s+(?:because|since|as|it|he|she|they|this|that|there|we|you|i)\b)",
    re.IGNORECASE,
)
_VERDICTS = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_LAST_VERDICT = re.compile(r"\b(not\s+)?(yes|no|true|false)\W*$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,-])-?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?(?![\w/])")
_NEGATIONS = frozenset(["not", "no", "never", "neither", "nor", "none"])


class Kind(StrEnum):
    """What an answer is read as."""

    OPTION = "OPTION"
    NUMBER = "NUMBER"
    VERDICT = "VERDICT"
    WORDS = "WORDS"


@value
class Key:
    """An answer in the form in which it is compared.

    Attributes:
        kind: What it is read as.
        text: Its letter, number, verdict or words.
        maybe: What it is where another answer is that, as it stands: "B. Paris" where another is "B".
    """

    kind: Kind
    text: str
    maybe: "Key | None" = None


@value
class GroupedAnswers:
    """Samples by what they say.

    Attributes:
        members: Places of the samples in each group, the largest group first, then by first place.
        representatives: The first sample of each group, as it was written.
        words: Places, in `members`, of the groups in words, of which some may mean the same.
    """

    members: Sequence[Sequence[int]]
    representatives: Sequence[str]
    words: Sequence[int]

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
        >>> [key_of(text).text for text in ("The answer is B.", "(B) gaggle", "$1,250.00", "Yes, it is.", "The Nile")]
        ['B', 'B', '1250', 'yes', 'nile']
    """
    said = _without_lead_in(_marked(text) or _first_line(text))
    option = _OPTION.match(said)
    if option:
        return Key(kind=Kind.OPTION, text=option[1])
    number = rational(said.rstrip("."))
    if number is not None:
        return Key(kind=Kind.NUMBER, text=spelled(number))
    label = _VERDICT.match(said)
    if label:
        return Key(kind=Kind.VERDICT, text=_VERDICTS[label[1].lower()])
    words = normalised(said)
    return None if words is None else Key(kind=Kind.WORDS, text=words, maybe=_maybe(said))


def keys_of(texts: Iterable[str]) -> list[Key | None]:
    """What each of these answers to one question says; one that is unclear by itself is read by the others.

    Example:
        >>> [key.text for key in keys_of(["B", "B. Paris", "He has 12 left"])]
        ['B', 'B', 'he has 12 left']
        >>> [key.text for key in keys_of(["J. Verne", "J. S. Bach"])]
        ['j verne', 'j s bach']
    """
    keys = [key_of(text) for text in texts]
    clear = {(key.kind, key.text) for key in keys if key is not None}
    return [
        key.maybe if key is not None and key.maybe is not None and (key.maybe.kind, key.maybe.text) in clear else key
        for key in keys
    ]


def grouped(samples: Sequence[str]) -> GroupedAnswers:
    """The samples by what they say; one that says nothing agrees with none.

    Example:
        >>> groups = grouped(["12", "It is 12.", "a dozen", "10"])
        >>> groups.sizes, groups.representatives, groups.words
        ([2, 1, 1], ['12', 'a dozen', '10'], [1])
    """
    keys = keys_of(samples)
    places: dict[object, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(place if key is None else (key.kind, key.text), []).append(place)
    in_words = {place for place, key in enumerate(keys) if key is not None and key.kind is Kind.WORDS}
    return _grouped(samples, list(places.values()), in_words)


def merged(groups: GroupedAnswers, cosines: Sequence[Sequence[float]], samples: Sequence[str]) -> GroupedAnswers:
    """The groups, with those in words put together whose representatives mean the same.

    However near they are, two are kept apart that differ in a number, a name or a negation.

    Args:
        groups: Groups by words.
        cosines: How near the representatives of `groups.words` are to one another, in their order [-1..1].
        samples: The samples.

    Returns:
        Groups of which none in words may be taken for another one.

    Source:
        SPEC 2.3.
    """
    kept: list[tuple[int, list[int]]] = []
    for row, place in enumerate(groups.words):
        near = next((held for first, held in kept if _same(groups, first, row, cosines[first][row])), None)
        if near is None:
            kept.append((row, list(groups.members[place])))
        else:
            near.extend(groups.members[place])
    others = [list(members) for place, members in enumerate(groups.members) if place not in groups.words]
    together = [sorted(members) for _, members in kept]
    return _grouped(samples, [*together, *others], {place for members in together for place in members})


def _same(groups: GroupedAnswers, first: int, row: int, cosine: float) -> bool:
    one, other = (groups.representatives[groups.words[place]] for place in (first, row))
    return cosine >= SAME_MEANING and may_be_merged(one, other, small_names=False)


def support(draft: str, samples: Sequence[str]) -> float | None:
    r"""Share of the samples that say what `draft` concludes [0..1]; None without samples that say anything.

    A draft that marks its answer, or is as short as one, is compared as an answer. Of any other the beginning and the
    end are searched for what each sample says.

    Example:
        >>> support("2 * 6 = 12.\nFinal Answer: 12", ["12", "12.0", "10", "12 apples"])
        0.75
        >>> support("The capital is Oslo.", ["Oslo", "Bergen"])
        0.5
        >>> support("It was built in Paris, " + "as is well known. " * 10, ["Paris", "Lyon"])
        0.5
    """
    text = without_thinking(draft)
    concluded = _concluded(text)
    keys = keys_of([*samples, concluded] if concluded is not None else samples)
    answer = keys.pop() if concluded is not None else None
    said = [key for key in keys if key is not None]
    if not said:
        return None
    if answer is None:
        return sum(_is_in(key, text) for key in said) / len(said)
    return sum(_agree(answer, key) for key in said) / len(said)


def _agree(answer: Key, key: Key) -> bool:
    """Whether two answers are the same, or one in words holds the other."""
    if (answer.kind, answer.text) == (key.kind, key.text):
        return True
    if Kind.WORDS not in (answer.kind, key.kind):
        return False
    return _holds(answer, key) or _holds(key, answer)


def _holds(whole: Key, part: Key) -> bool:
    """Whether the words of `whole` hold `part`, and negate nothing beside it."""
    if whole.kind is not Kind.WORDS or part.kind in (Kind.OPTION, Kind.VERDICT):
        return False
    beside = f" {whole.text} ".replace(f" {part.text} ", "  ")
    return beside != f" {whole.text} " and not _NEGATIONS.intersection(beside.split())


def _is_in(key: Key, text: str) -> bool:
    """Whether a text without a marked conclusion says `key` at its beginning or its end."""
    edges = (text[-CONCLUSION:], text[:CONCLUSION])
    if key.kind is Kind.OPTION:
        named = (
            rf"\({key.text}\)|(?<!\w){key.text}\)|(?:answer|option|choice)\W+(?:is\W+)?{key.text}\b|\b{key.text}\W*$"
        )
        return any(re.search(named, edge) for edge in edges)
    if key.kind is Kind.VERDICT:
        last = _LAST_VERDICT.search(text.rstrip()[-SHORT:])
        return last is not None and (_VERDICTS[last[2].lower()] == key.text) is not bool(last[1])
    return any(f" {key.text} " in f" {normalised(edge) or ''} " for edge in edges)


def conclusion(text: str) -> Key | None:
    r"""What `text` marks as its answer, or says as a whole when it is short; None where neither tells.

    Example:
        >>> conclusion("So it is \\boxed{7}.").text, conclusion("No, because it is too cold there.").text
        ('7', 'no')
    """
    concluded = _concluded(text)
    return None if concluded is None else key_of(concluded)


def _concluded(text: str) -> str | None:
    """The part of a text that is its answer, as it is written there."""
    marked = _marked(text) or boxed(text)
    if marked:
        return marked
    said = text.strip()
    if len(said) <= SHORT and "\n" not in said:
        return said if key_of(said) is not None else None
    label = _VERDICT.match(said)
    return label[1] if label else None


def _grouped(samples: Sequence[str], members: list[list[int]], in_words: set[int]) -> GroupedAnswers:
    ordered = sorted(members, key=lambda group: (-len(group), group[0]))
    return GroupedAnswers(
        members=ordered,
        representatives=[samples[group[0]] for group in ordered],
        words=[place for place, group in enumerate(ordered) if group[0] in in_words],
    )


def _maybe(said: str) -> Key | None:
    """What an answer in words may also be: an option with its text, or the one number in it."""
    option = _OPTION_OR_INITIAL.match(said)
    if option:
        return Key(kind=Kind.OPTION, text=option[1])
    numbers = [rational(found) for found in _NUMBER.findall(said)]
    only = numbers[0] if len(numbers) == 1 else None
    return None if only is None else Key(kind=Kind.NUMBER, text=spelled(only))


def _without_lead_in(text: str) -> str:
    said = unwrapped(text)
    for _ in range(_LEAD_INS):
        found = _LEAD_IN.match(said)
        if found is None or not said[found.end() :].strip():
            break
        said = unwrapped(said[found.end() :])
    return said


def _marked(text: str) -> str | None:
    found = _MARKED.findall(text[-CONCLUSION * 10 :])
    return found[-1].strip() if found else None


def _first_line(text: str) -> str:
    return next((line for line in without_thinking(text).strip().splitlines() if line.strip()), "")
