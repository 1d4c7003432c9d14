"""Small generated questions, for a first look without any data set. Pure."""

from collections.abc import Sequence
from random import Random
from string import ascii_uppercase

from evals.items import Item, interleaved
from kernel.answers import AnswerType

_KINDS = {
    "animal": ("horse", "sparrow", "salmon", "beetle", "otter", "goat", "lizard", "whale"),
    "tool": ("hammer", "saw", "chisel", "wrench", "drill", "pliers", "screwdriver", "file"),
    "fruit": ("pear", "plum", "grape", "lemon", "cherry", "melon", "peach", "fig"),
    "garment": ("coat", "glove", "scarf", "shirt", "sock", "skirt", "vest", "hat"),
}


def quick_items(per_set: int, seed: int) -> Sequence[Item]:
    """Items of three sets, taken in turns; the same for the same seed.

    Example:
        >>> [item.id for item in quick_items(1, 7)]
        ['sums-1', 'comparisons-1', 'kinds-1']
    """
    chance = Random(seed)
    numbers = range(1, per_set + 1)
    made = [[make(chance, number) for number in numbers] for make in (_sum, _comparison, _kind)]
    return interleaved(made)


def _sum(chance: Random, number: int) -> Item:
    terms = [chance.randint(1, 9 if number % 2 else 60) for _ in range(2 + number % 3)]
    return Item(
        id=f"sums-{number}",
        dataset="sums",
        question=f"What is {' + '.join(map(str, terms))}?",
        answer=str(sum(terms)),
        answer_type=AnswerType.NUMBER,
        dimension="math_computation",
    )


def _comparison(chance: Random, number: int) -> Item:
    one, other = chance.sample(range(2, 99), 2)
    return Item(
        id=f"comparisons-{number}",
        dataset="comparisons",
        question=f"Is {one} greater than {other}?",
        answer="yes" if one > other else "no",
        answer_type=AnswerType.BOOLEAN,
        dimension="logical_reasoning",
    )


def _kind(chance: Random, number: int) -> Item:
    wanted, *others = chance.sample(sorted(_KINDS), 4)
    words = [chance.choice(_KINDS[kind]) for kind in (wanted, *others)]
    shown = chance.sample(words, len(words))
    return Item(
        id=f"kinds-{number}",
        dataset="kinds",
        question=f"Which of these is a kind of {wanted}?",
        answer=ascii_uppercase[shown.index(words[0])],
        answer_type=AnswerType.CHOICE,
        dimension="commonsense_inference",
        choices=tuple(shown),
    )
