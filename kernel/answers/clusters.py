"""Samples of one question are clustered by their answers, which shows how far they agree (papers.md 2.1, 2.2, 2.3).

Everything here depends on the answers alone, never on their order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from math import log

from kernel.answers.answer_types import AnswerType, rules_of
from kernel.answers.canonical import canonical
from kernel.answers.equality import is_expression, number_form, same_canonical
from kernel.answers.mathematics.expressions import IN_THIS_PROCESS, Mathematics
from kernel.answers.merge_guard import may_be_merged
from kernel.answers.units import CountedNumber, homes, with_units
from kernel.answers.words import is_short
from kernel.values import value

SameMeaning = Callable[[str, str], bool]

# Distinct expressions of one question that are compared with one another; those after them stand alone.
MOST_EXPRESSIONS = 24


@value
class Cluster:
    """A cluster holds answers that are the same.

    Attributes:
        representative: The most frequent spelling of the answers, of those with a unit where there are any; of several
            the first in code point order.
        canonical: Canonical form of the representative.
        spellings: Distinct spellings, in code point order.
        count: Answers in the cluster [count, >= 1].
        without_unit: Those of the spellings that state no unit, where others do.
    """

    representative: str
    canonical: str
    spellings: tuple[str, ...]
    count: int
    without_unit: tuple[str, ...] = ()


@value
class Agreement:
    """This value measures how far samples agree.

    Attributes:
        share: Share of the largest cluster among valid samples [0..1]; None without any.
        entropy: Entropy of the clusters [nats, >= 0]; None without any valid sample.
        normalised_entropy: Entropy over its largest possible value, the logarithm of the number of valid samples
            [0..1]: 0 when all agree, 1 when no two do.
        valid_count: Samples that hold an answer [count].
        invalid_count: Samples that hold none; they are dropped, and count in nothing else [count].
    """

    share: float | None
    entropy: float | None
    normalised_entropy: float | None
    valid_count: int
    invalid_count: int


def cluster(
    answers: Sequence[str],
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    aliases: Sequence[str] = (),
    same_meaning: SameMeaning | None = None,
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> tuple[Cluster, ...]:
    r"""Cluster answers that are the same: the largest cluster first, equal ones in order of their canonical forms.

    Args:
        answers: Answers alone, as `extract` finds them; those that are none of this type are dropped.
        answer_type: Type of all.
        options: Texts of a choice's options in their order.
        aliases: Further spellings of one and the same answer.
        same_meaning: Judgement of two free texts, called only for pairs that `candidate_pairs` lists, in its order;
            None merges nothing by meaning.
        mathematics: Who compares expressions.

    Returns:
        Clusters of equal answers; a number without a unit is in that of its number and any unit that has most answers.
        For TEXT those that the judgement holds for the same are merged too, only where
        `may_be_merged` allows it and the judgement agrees for every pair across the two: a chain of near-equals never
        merges its ends.

    Source:
        MC-MAS Eq. 2 and 5, equality ours (papers.md 2.1, 2.3).

    Example:
        >>> [(c.representative, c.count) for c in cluster(["1,000", "7", "1000", "1000.0"], AnswerType.NUMBER)]
        [('1,000', 3), ('7', 1)]
    """
    spellings = _by_form(answers, answer_type, options)
    known = {canonical(alias, answer_type, options=options) for alias in aliases}
    groups = _by_equality(spellings, answer_type, known, mathematics)
    if same_meaning is not None and rules_of(answer_type).is_free_text:
        groups = _merged(groups, spellings, same_meaning)
    return _clusters(groups, spellings, answer_type)


def cluster_forms(
    forms: Sequence[str], answer_type: AnswerType, *, mathematics: Mathematics = IN_THIS_PROCESS
) -> tuple[Cluster, ...]:
    r"""Cluster answers that are canonical forms already, without reading them again; none are merged by meaning.

    Example:
        >>> [(c.canonical, c.count) for c in cluster_forms(["2", r"\sqrt{4}", "2", ""], AnswerType.NUMBER)]
        [('2', 3)]
    """
    spellings = {form: Counter({form: count}) for form, count in sorted(Counter(forms).items()) if form}
    return _clusters(_by_equality(spellings, answer_type, set(), mathematics), spellings, answer_type)


def candidate_pairs(answers: Sequence[str], answer_type: AnswerType) -> tuple[tuple[str, str], ...]:
    """Return the pairs of free texts, one of them long, whose meaning `cluster` needs judged.

    Example:
        >>> long = "The treaty ended the war between both of the kingdoms for good."
        >>> candidate_pairs([long, "Carbon.", "It put an end to the war."], AnswerType.TEXT)
        (('It put an end to the war.', 'The treaty ended the war between both of the kingdoms for good.'),)
    """
    if not rules_of(answer_type).is_free_text:
        return ()
    spellings = _by_form(answers, answer_type, ())
    texts = sorted(_representative(counts) for counts in spellings.values())
    return tuple(pair for pair in combinations(texts, 2) if _needs_judgement(*pair))


def agreement(
    answers: Sequence[str],
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    aliases: Sequence[str] = (),
    same_meaning: SameMeaning | None = None,
) -> Agreement:
    """Return how far `answers` agree; arguments as for `cluster`.

    Example:
        >>> agreement(["4", "4.0", "5", "?"], AnswerType.NUMBER).share
        0.6666666666666666
    """
    clusters = cluster(answers, answer_type, options=options, aliases=aliases, same_meaning=same_meaning)
    counts = [one.count for one in clusters]
    valid = sum(counts)
    nats = entropy(counts)
    return Agreement(
        share=counts[0] / valid if counts else None,
        entropy=nats,
        normalised_entropy=None if nats is None else nats / log(valid) if valid > 1 else 0.0,
        valid_count=valid,
        invalid_count=len(answers) - valid,
    )


def entropy(counts: Sequence[int]) -> float | None:
    """Return the entropy of the shares that `counts` have in their sum [nats, >= 0]; None for an empty sum.

    Source:
        MC-MAS Eq. 10 (papers.md 2.2): H = -sum p log p, natural logarithm.

    Example:
        >>> entropy([3, 1]), entropy([4]), entropy([])
        (0.5623351446188083, 0.0, None)
    """
    total = sum(counts)
    if total == 0:
        return None
    return abs(sum(count / total * log(total / count) for count in counts if count))


def _by_form(answers: Sequence[str], answer_type: AnswerType, options: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the spellings of the valid answers with their counts, by canonical form, in the order of the forms."""
    forms: dict[str, Counter[str]] = {}
    for answer, count in Counter(map(str.strip, answers)).items():
        form = canonical(answer, answer_type, options=options)
        if form is not None:
            forms.setdefault(form, Counter())[answer] += count
    return dict(sorted(forms.items()))


def _by_equality(
    spellings: Mapping[str, Counter[str]], answer_type: AnswerType, known: set[str | None], mathematics: Mathematics
) -> list[set[str]]:
    """Return the canonical forms in groups of equal ones: first by their numbers, then by the units of these."""
    numbers = {form: number_form(form) for form in spellings} if rules_of(answer_type).is_numeric else {}
    if all(form == number for form, number in numbers.items()):
        return _grouped(spellings, _equal(spellings, answer_type, known, mathematics))
    plain: dict[str, Counter[str]] = {}
    for form, number in numbers.items():
        plain.setdefault(number, Counter()).update(spellings[form])
    plain = dict(sorted(plain.items()))
    equal = _grouped(plain, _equal(plain, answer_type, set(), mathematics))
    keys = {form: min(group) for group in equal for form in group}
    forms = list(spellings)
    counted = [CountedNumber(number=keys[numbers[one]], form=one, count=spellings[one].total()) for one in forms]
    groups: dict[int, set[str]] = {}
    for form, home in zip(forms, homes(counted), strict=True):
        groups.setdefault(home, set()).add(form)
    pairs = [(a, b) for group in groups.values() for a, b in pairwise(sorted(group))]
    return _grouped(spellings, [*pairs, *combinations([form for form in spellings if form in known], 2)])


def _equal(
    spellings: Mapping[str, Counter[str]], answer_type: AnswerType, known: set[str | None], mathematics: Mathematics
) -> list[tuple[str, str]]:
    """Return the pairs of equal canonical forms: aliases of one answer, and those that are equal as mathematics."""
    pairs = list(combinations([form for form in spellings if form in known], 2))
    if not rules_of(answer_type).is_mathematical:
        return pairs
    by_count = sorted(spellings, key=lambda form: (-spellings[form].total(), form))
    expressions = [form for form in by_count if is_expression(form)]
    compared = sorted(spellings.keys() - set(expressions[MOST_EXPRESSIONS:]))
    some = set(expressions[:MOST_EXPRESSIONS])
    ordered = [(a, b) for a in sorted(some) for b in compared if a < b or b not in some]
    return pairs + [(a, b) for a, b in ordered if same_canonical(a, b, answer_type, mathematics)]


def _grouped(spellings: Mapping[str, Counter[str]], pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
    """Return the canonical forms in groups, those of a pair together."""
    groups = {form: {form} for form in spellings}
    for a, b in pairs:
        if groups[a] is not groups[b]:
            groups[a] |= groups[b]
            groups.update(dict.fromkeys(groups[b], groups[a]))
    return list({min(group): group for group in groups.values()}.values())


def _merged(groups: list[set[str]], spellings: Mapping[str, Counter[str]], same_meaning: SameMeaning) -> list[set[str]]:
    """Return `groups` after merging those that mean the same, pair by pair in a fixed order."""
    texts = {form: _representative(counts) for form, counts in spellings.items()}
    merged: list[set[str]] = []
    for group in sorted(groups, key=lambda one: min(texts[form] for form in one)):
        match = next((one for one in merged if _mean_the_same(one, group, texts, same_meaning)), None)
        if match is None:
            merged.append(set(group))
        else:
            match |= group
    return merged


def _mean_the_same(one: set[str], other: set[str], texts: Mapping[str, str], same_meaning: SameMeaning) -> bool:
    pairs = [tuple(sorted((texts[a], texts[b]))) for a in one for b in other]
    return all(_needs_judgement(a, b) for a, b in pairs) and all(same_meaning(a, b) for a, b in sorted(pairs))


def _needs_judgement(a: str, b: str) -> bool:
    return not (is_short(a) and is_short(b)) and may_be_merged(a, b)


def _clusters(
    groups: Sequence[set[str]], spellings: Mapping[str, Counter[str]], answer_type: AnswerType
) -> tuple[Cluster, ...]:
    is_numeric = rules_of(answer_type).is_numeric
    clusters = (_cluster(group, spellings, is_numeric=is_numeric) for group in groups)
    return tuple(sorted(clusters, key=lambda one: (-one.count, one.canonical)))


def _cluster(group: set[str], spellings: Mapping[str, Counter[str]], *, is_numeric: bool) -> Cluster:
    named = with_units(sorted(group)) if is_numeric else []
    counts = _counts(group, spellings)
    representative = _representative(_counts(named or group, spellings))
    without = [form for form in group if number_form(form) == form] if named else []
    return Cluster(
        representative=representative,
        canonical=next(form for form in sorted(group) if representative in spellings[form]),
        spellings=tuple(sorted(counts)),
        count=counts.total(),
        without_unit=tuple(sorted(_counts(without, spellings))),
    )


def _counts(forms: Iterable[str], spellings: Mapping[str, Counter[str]]) -> Counter[str]:
    counts = Counter[str]()
    for form in sorted(forms):
        counts += spellings[form]
    return counts


def _representative(counts: Counter[str]) -> str:
    return min(counts, key=lambda spelling: (-counts[spelling], spelling))
