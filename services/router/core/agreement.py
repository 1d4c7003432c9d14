"""This module finds how far short answers agree with one another, and with the conclusion of a longer text.

`kernel.answers.untyped` reads the answers, since no request states here which type of answer a question wants. Two
rules differ from those of `kernel.answers.cluster`, which serves answers of a known type:

- A sample without an answer stays, and agrees with none: it is one of the draws that the measures divide by.
- Groups in words merge by the cosine of their first samples alone. A cluster asks for a judgement of every pair, which
  would embed every sample instead of one text for each group, in a measure that has half a second.

Source: MSV, state vector (papers.md 1.1): internal consistency, agreement of sources.
"""

import re
from collections.abc import Sequence

from kernel.answers import AnswerType, may_be_merged, without_thinking
from kernel.answers.truths import closing_truth
from kernel.answers.untyped import UntypedAnswer, concluding_text, untyped_answer, untyped_answers
from kernel.answers.words import SHORT_CHARACTERS, normalised
from kernel.values import value

# Cosine from which two short answers in words are taken to mean the same.
SAME_MEANING = 0.8
# Characters at the end of a long text in which its conclusion is looked for.
CONCLUSION = 400

_NEGATIONS = frozenset(["not", "no", "never", "neither", "nor", "none"])


@value
class GroupedAnswers:
    """These groups hold the samples that give the same answer.

    Attributes:
        members: Places of the samples in each group [0..samples - 1], the largest group first, then by first place.
        representatives: The first sample of each group, as it was written.
        words: Places, in `members`, of the groups in words, of which some may mean the same [0..groups - 1].
    """

    members: Sequence[Sequence[int]]
    representatives: Sequence[str]
    words: Sequence[int]

    @property
    def sizes(self) -> list[int]:
        """Return the samples in each group [count]."""
        return [len(group) for group in self.members]

    @property
    def share(self) -> float | None:
        """Return the share of the samples in the largest group [0..1]; None without samples."""
        return len(self.members[0]) / sum(self.sizes) if self.members else None


def grouped(samples: Sequence[str]) -> GroupedAnswers:
    """Group the samples by their answers; one without an answer agrees with none.

    Example:
        >>> groups = grouped(["12", "It is 12.", "a dozen", "10"])
        >>> groups.sizes, groups.representatives, groups.words
        ([2, 1, 1], ['12', 'a dozen', '10'], [1])
    """
    answers = untyped_answers(samples)
    places: dict[object, list[int]] = {}
    for place, answer in enumerate(answers):
        places.setdefault(place if answer is None else answer.identity, []).append(place)
    in_words = {place for place, answer in enumerate(answers) if _is_in_words(answer)}
    return _grouped(samples, list(places.values()), in_words)


def merged(groups: GroupedAnswers, cosines: Sequence[Sequence[float]], samples: Sequence[str]) -> GroupedAnswers:
    """Merge the groups in words whose representatives mean the same.

    However near they are, two are kept apart that differ in a number, a name or a negation.

    Args:
        groups: Groups by words.
        cosines: Similarity of the representatives of `groups.words` to one another, in their order [-1..1].
        samples: The samples.

    Returns:
        Groups of which none in words may be taken for another one.

    Source:
        Ours (papers.md 2.3).
    """
    merged_rows: list[tuple[int, list[int]]] = []
    for row, place in enumerate(groups.words):
        near = next((held for first, held in merged_rows if _mean_the_same(groups, first, row, cosines)), None)
        if near is None:
            merged_rows.append((row, list(groups.members[place])))
        else:
            near.extend(groups.members[place])
    others = [list(members) for place, members in enumerate(groups.members) if place not in groups.words]
    together = [sorted(members) for _, members in merged_rows]
    return _grouped(samples, [*together, *others], {place for members in together for place in members})


def support(draft: str, samples: Sequence[str]) -> float | None:
    r"""Return the share of the samples that give the answer of `draft` [0..1]; None without samples with an answer.

    A draft that marks its answer, or is as short as one, is compared as an answer. Of any other the beginning and the
    end are searched for the answer of each sample.

    Example:
        >>> support("2 * 6 = 12.\nFinal Answer: 12", ["12", "12.0", "10", "12 apples"])
        0.75
        >>> support("The capital is Oslo.", ["Oslo", "Bergen"])
        0.5
        >>> support("It was built in Paris, " + "as is well known. " * 10, ["Paris", "Lyon"])
        0.5
    """
    text = without_thinking(draft)
    concluded = concluding_text(text)
    answers = untyped_answers([*samples, concluded] if concluded is not None else samples)
    conclusion_answer = answers.pop() if concluded is not None else None
    given = [answer for answer in answers if answer is not None]
    if not given:
        return None
    if conclusion_answer is None:
        return sum(_is_in(answer, text) for answer in given) / len(given)
    return sum(_agree(conclusion_answer, answer) for answer in given) / len(given)


def conclusion(text: str) -> UntypedAnswer | None:
    r"""Return the answer that `text` marks, or gives as a whole when it is short; None where it does neither.

    Example:
        >>> conclusion("So it is \\boxed{7}.").canonical, conclusion("No, because it is too cold there.").canonical
        ('7', 'false')
    """
    concluded = concluding_text(text)
    return None if concluded is None else untyped_answer(concluded)


def _is_in_words(answer: UntypedAnswer | None) -> bool:
    return answer is not None and answer.answer_type is AnswerType.TEXT


def _mean_the_same(groups: GroupedAnswers, first: int, row: int, cosines: Sequence[Sequence[float]]) -> bool:
    one, other = (groups.representatives[groups.words[place]] for place in (first, row))
    return cosines[first][row] >= SAME_MEANING and may_be_merged(one, other, small_names=False)


def _agree(one: UntypedAnswer, other: UntypedAnswer) -> bool:
    """Return whether two answers are the same, or one in words holds the other."""
    if one.identity == other.identity:
        return True
    return _holds(one, other) or _holds(other, one)


def _holds(whole: UntypedAnswer, part: UntypedAnswer) -> bool:
    """Return whether the words of `whole` hold `part`, and negate nothing beside it."""
    if not _is_in_words(whole) or part.answer_type in (AnswerType.CHOICE, AnswerType.BOOLEAN):
        return False
    beside = f" {whole.canonical} ".replace(f" {part.canonical} ", "  ")
    return beside != f" {whole.canonical} " and not _NEGATIONS.intersection(beside.split())


def _is_in(answer: UntypedAnswer, text: str) -> bool:
    """Return whether a text without a marked conclusion gives `answer` at its beginning or its end."""
    edges, form = (text[-CONCLUSION:], text[:CONCLUSION]), answer.canonical
    if answer.answer_type is AnswerType.CHOICE:
        named = rf"\({form}\)|(?<!\w){form}\)|(?:answer|option|choice)\W+(?:is\W+)?{form}\b|\b{form}\W*$"
        return any(re.search(named, edge) for edge in edges)
    if answer.answer_type is AnswerType.BOOLEAN:
        return closing_truth(text.rstrip()[-SHORT_CHARACTERS:]) == form
    return any(f" {form} " in f" {normalised(edge) or ''} " for edge in edges)


def _grouped(samples: Sequence[str], members: list[list[int]], in_words: set[int]) -> GroupedAnswers:
    ordered = sorted(members, key=lambda group: (-len(group), group[0]))
    return GroupedAnswers(
        members=ordered,
        representatives=[samples[group[0]] for group in ordered],
        words=[place for place, group in enumerate(ordered) if group[0] in in_words],
    )
