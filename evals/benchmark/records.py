"""Cross-domain tasks that rest on a passage: facts to find, then to compute or to reason with. Pure."""

from collections.abc import Sequence
from random import Random
from string import ascii_uppercase

from evals.benchmark.programs import LEVELS
from evals.items import Item
from kernel.answers import AnswerType
from kernel.values import value

_HEADS = ("Al", "Bor", "Cas", "Dun", "El", "Far", "Gar", "Hol", "Ist", "Jor", "Kel", "Lam", "Mar", "Nor", "Or", "Pel")
_TAILS = ("den", "mere", "ston", "wick", "hold", "by", "field", "ford")
_GOODS = ("lamps", "ropes", "barrels", "carpets", "kettles", "ladders", "mirrors", "clocks", "saddles", "baskets")
_RIVERS = ("Tarn", "Lys", "Orre", "Bram")
# Rows that are looked up, by difficulty.
LOOKED_UP = {"easy": 2, "medium": 4, "hard": 6}


@value
class Town:
    """An invented town."""

    name: str
    founded: int
    people: int
    river: str
    has_harbour: bool


def reckoned(chance: Random, number: int, level: str) -> Item:
    """Prices to find in a passage, and a bill to add up."""
    goods = chance.sample(_GOODS, 8)
    prices = {good: chance.randint(3, 60) for good in goods}
    stock = {good: chance.randint(20, 90) for good in goods}
    bought = chance.sample(goods, LOOKED_UP[level])
    counts = {good: chance.randint(2, 12) for good in bought}
    place = _names(chance, 1)[0]
    lines = [f"The market of {place} has {stock[good]} {good}, at {prices[good]} crowns apiece." for good in goods]
    order = ", ".join(f"{counts[good]} {good}" for good in bought)
    return Item(
        id=f"cross_reckoned-{number}",
        dataset="cross_reckoned",
        question=f"A trader buys {order} at the market of {place}. How many crowns does that cost?",
        answer=str(sum(counts[good] * prices[good] for good in bought)),
        answer_type=AnswerType.NUMBER,
        dimension="knowledge_retrieval",
        difficulty=level,
        context=" ".join(lines),
        dimensions=("knowledge_retrieval", "math_computation"),
        proxy=f"prices to look up: {len(bought)}",
        checker="equal number",
    )


def reasoned(chance: Random, number: int, level: str) -> Item:
    """Towns in a passage, and the one of them that meets every condition."""
    while True:
        towns = _towns(chance, 6)
        wanted = chance.choice(towns)
        asked = chance.sample(_conditions(wanted, towns), 1 + LEVELS.index(level))
        left = [town for town in towns if all(holds(town, words) for words in asked)]
        if left == [wanted] and all(_needed(towns, asked, one) for one in asked):
            break
    shown = chance.sample(towns, len(towns))
    return Item(
        id=f"cross_reasoned-{number}",
        dataset="cross_reasoned",
        question=f"Which of these towns {' and '.join(asked)}?",
        answer=ascii_uppercase[shown.index(wanted)],
        answer_type=AnswerType.CHOICE,
        dimension="knowledge_retrieval",
        difficulty=level,
        context=" ".join(described(town) for town in chance.sample(towns, len(towns))),
        choices=tuple(town.name for town in shown),
        dimensions=("knowledge_retrieval", "logical_reasoning"),
        proxy=f"conditions that must meet: {len(asked)}",
        checker="equal choice",
    )


def described(town: Town) -> str:
    """A town in words.

    Example:
        >>> described(Town(name="Elby", founded=1402, people=9, river="Lys", has_harbour=False))
        'Elby on the river Lys was founded in 1402, has 9 thousand people, and has no harbour.'
    """
    harbour = "a harbour" if town.has_harbour else "no harbour"
    return (
        f"{town.name} on the river {town.river} was founded in {town.founded}, has {town.people} thousand people, and "
        f"has {harbour}."
    )


def holds(town: Town, words: str) -> bool:
    """Return whether a condition, as it is worded, holds for a town.

    Example:
        >>> holds(Town(name="Elby", founded=1402, people=9, river="Lys", has_harbour=False), "lies on the Lys")
        True
    """
    last = words.split()[-1]
    match words.split()[0], words.split()[1]:
        case "lies", _:
            return town.river == last
        case "was", _:
            return town.founded < int(last) if "before" in words else town.founded > int(last)
        case "has", "a" | "no":
            return town.has_harbour == ("no" not in words.split())
        case _:
            limit = int(words.split()[-3])
            return town.people > limit if "more" in words else town.people < limit


def _conditions(town: Town, towns: Sequence[Town]) -> Sequence[str]:
    """Conditions that the town meets, one of each kind."""
    middle = sorted(one.founded for one in towns)[len(towns) // 2]
    year = f"was founded before {middle}" if town.founded < middle else f"was founded after {middle - 1}"
    crowd = sorted(one.people for one in towns)[len(towns) // 2]
    more = f"counts more than {crowd - 1} thousand people" if town.people >= crowd else ""
    size = more or f"counts fewer than {crowd} thousand people"
    harbour = "has a harbour" if town.has_harbour else "has no harbour"
    return (f"lies on the {town.river}", year, size, harbour)


def _needed(towns: Sequence[Town], asked: Sequence[str], one: str) -> bool:
    """Return whether without `one` more than a single town would be left."""
    others = [words for words in asked if words != one]
    return sum(all(holds(town, words) for words in others) for town in towns) > 1


def _towns(chance: Random, count: int) -> Sequence[Town]:
    years = chance.sample(range(1100, 1900), count)
    crowds = chance.sample(range(4, 120), count)
    return [
        Town(name=name, founded=year, people=crowd, river=chance.choice(_RIVERS), has_harbour=chance.random() < 0.5)
        for name, year, crowd in zip(_names(chance, count), years, crowds, strict=True)
    ]


def _names(chance: Random, count: int) -> Sequence[str]:
    return [head + chance.choice(_TAILS) for head in chance.sample(_HEADS, count)]
