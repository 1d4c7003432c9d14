"""The benchmark as a whole: what is taken from public sets, what is made, and in which order. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import product
from random import Random

from evals.benchmark.everyday import everyday
from evals.benchmark.programs import LEVELS, followed, written
from evals.benchmark.proxies import PROXIES
from evals.benchmark.records import reasoned, reckoned
from evals.errors import ItemsUnreadable
from evals.items import Item, interleaved, unique
from kernel.answers import AnswerType, rules_of

DIMENSIONS = (
    "logical_reasoning", "knowledge_retrieval", "code_generation", "math_computation", "commonsense_inference",
)  # fmt: skip
PER_CELL, PER_MAKER = 40, 20
# Draws after which there is taken to be no other task of a kind [count].
DRAWS = 1000
Maker = Callable[[Random, int, str], Item]
MAKERS: Sequence[Maker] = (followed, written, reckoned, reasoned, everyday)


def benchmark(items: Sequence[Item], seed: int, per_cell: int = PER_CELL, per_maker: int = PER_MAKER) -> Sequence[Item]:
    """All tasks, in an order that the seed determines.

    Args:
        items: Everything that public sets offer, each with its dimension and difficulty.
        seed: Seed of every choice.
        per_cell: Tasks of each dimension and difficulty [count, >= 1].
        per_maker: Cross-domain tasks of each of five kinds [count, >= 1].

    Returns:
        5 x 3 x `per_cell` tasks from `items`, taken in turns from the sets of a cell, and 5 x `per_maker` cross-domain
        ones.

    Raises:
        ItemsUnreadable: When a cell has too few items, or a kind of made task has too few different ones; names it.
    """
    chosen = [cell(items, *key, seed, per_cell) for key in product(DIMENSIONS, LEVELS)]
    whole = [*(item for each in chosen for item in each), *cross_domain(seed, per_maker)]
    return unique(_chance(seed, "order").sample(whole, len(whole)))


def cell(items: Sequence[Item], dimension: str, level: str, seed: int, count: int) -> Sequence[Item]:
    """`count` items of one dimension and difficulty, as evenly from its sets as these allow.

    Raises:
        ItemsUnreadable: When there are fewer.
    """
    fitting = [item for item in items if (item.dimension, item.difficulty) == (dimension, level)]
    sets = sorted({item.dataset for item in fitting})
    shuffled = [_shuffled([item for item in fitting if item.dataset == name], seed, level) for name in sets]
    taken = interleaved(shuffled)[:count]
    if len(taken) < count:
        raise ItemsUnreadable(f"{dimension}, {level}: {count} items are needed, and there are {len(taken)}")
    return [described(item) for item in taken]


def cross_domain(seed: int, per_maker: int = PER_MAKER) -> Sequence[Item]:
    """The tasks that are made here, `per_maker` of each of the five kinds, in all three difficulties, none twice.

    Each kind begins with another difficulty, so that a few of each are as even as they can be.

    Raises:
        ItemsUnreadable: When there are not so many different ones of a kind; names it.

    Example:
        >>> made = cross_domain(7)
        >>> len(made), sorted({item.difficulty for item in made}), min(len(item.takes) for item in made)
        (100, ['easy', 'hard', 'medium'], 2)
        >>> made[0].id
        'cross_followed-7-0'
    """
    return [item for place in range(len(MAKERS)) for item in _of_kind(place, seed, per_maker)]


def _of_kind(place: int, seed: int, count: int) -> Sequence[Item]:
    """`count` made tasks of one kind; the first of them are the same with a larger count."""
    made: dict[object, Item] = {}
    for number in range(count):
        item = _untaken(MAKERS[place], seed, number, LEVELS[(place + number) % len(LEVELS)], made)
        made[_content(item)] = item
    return list(made.values())


def _untaken(make: Maker, seed: int, number: int, level: str, taken: Collection[object]) -> Item:
    """One made task that is not taken; the seed is in its name, since another seed makes another of the same number."""
    for draw in range(DRAWS):
        item = make(_chance(seed, make.__name__, str(number), *([str(draw)] if draw else [])), number, level)
        if _content(item) not in taken:
            return replace(item, id=f"{item.dataset}-{seed}-{number}")
    raise ItemsUnreadable(f"{make.__name__}, {level}: there are no {number + 1} different tasks")


def _content(item: Item) -> tuple[object, ...]:
    """Return what distinguishes a task from another one."""
    return item.question, item.context, tuple(item.choices or ())


def graded(items: Sequence[Item]) -> Sequence[Item]:
    """`items`, those without a difficulty in thirds of their set: by lines of a program, else by words of the question.

    A weak proxy, and reported as one.
    """
    bare = [item for item in items if not item.difficulty]
    levels: dict[str, str] = {}
    for name in sorted({item.dataset for item in bare}):
        ordered = sorted((item for item in bare if item.dataset == name), key=lambda item: (_length(item), item.id))
        levels.update({item.id: LEVELS[3 * place // len(ordered)] for place, item in enumerate(ordered)})
    return [replace(item, difficulty=levels[item.id], proxy=_PROXY) if item.id in levels else item for item in items]


_PROXY = "length of the program or the question, thirds (weak)"


def _length(item: Item) -> int:
    return len(item.answer.splitlines()) if item.is_program else len(item.question.split())


def described(item: Item) -> Item:
    """`item` with its proxy and its checker in words."""
    proxy = item.proxy or PROXIES.get(item.dataset, f"as its set states ({item.difficulty})")
    return replace(item, proxy=proxy, checker=item.checker or checker(item.answer_type), dimensions=item.takes)


def checker(answer_type: AnswerType) -> str:
    """Return what decides whether an answer of a type is right, in words.

    Example:
        >>> [checker(each) for each in (AnswerType.BOOLEAN, AnswerType.TEXT, AnswerType.CODE)]
        ['equal yes or no', 'equal text, aliases accepted', 'unit tests in the sandbox']
    """
    rules = rules_of(answer_type)
    if rules.is_program:
        return "unit tests in the sandbox"
    return f"equal {rules.label}, aliases accepted" if rules.is_free_text else f"equal {rules.label}"


def summary(tasks: Sequence[Item]) -> Mapping[str, Mapping[str, int]]:
    """Tasks by dimension and difficulty; cross-domain ones together."""
    counts = Counter(("cross_domain" if len(item.takes) > 1 else item.dimension, item.difficulty) for item in tasks)
    names = dict.fromkeys(name for name, _ in sorted(counts))
    return {name: {level: counts[name, level] for level in LEVELS} for name in names}


def _shuffled(items: Sequence[Item], seed: int, level: str) -> Sequence[Item]:
    known = sorted(items, key=lambda item: item.id)
    return _chance(seed, known[0].dataset, level).sample(known, len(known))


def _chance(seed: int, *names: str) -> Random:
    """Chance of its own for each choice, so that one more item here changes nothing there."""
    text = "\x1f".join((str(seed), *names))
    return Random(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big"))
