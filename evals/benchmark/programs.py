"""Cross-domain tasks of code and mathematics: programs to follow, and programs to write. Pure."""

from collections.abc import Callable, Sequence
from random import Random

from evals.items import Item
from kernel.answers import AnswerType
from kernel.values import value

LEVELS = ("easy", "medium", "hard")
NUMBERS = range(-12, 40)

Test = Callable[[int], bool]
Fold = Callable[[Sequence[int]], int]


@value
class Rule:
    """A condition on numbers: in words, as an expression of Python, and as a function."""

    words: str
    code: str
    holds: Test


RULES = (
    Rule(words="are even", code="n % 2 == 0", holds=lambda n: n % 2 == 0),
    Rule(words="are positive", code="n > 0", holds=lambda n: n > 0),
    Rule(words="are divisible by 3", code="n % 3 == 0", holds=lambda n: n % 3 == 0),
    Rule(words="are smaller than 20", code="n < 20", holds=lambda n: n < 20),
    Rule(words="do not end in 7", code="abs(n) % 10 != 7", holds=lambda n: abs(n) % 10 != 7),
    Rule(words="leave 1 when divided by 4", code="n % 4 == 1", holds=lambda n: n % 4 == 1),
)
FOLDS: dict[str, tuple[str, Fold]] = {
    "the sum": ("sum(kept)", sum),
    "how many there are": ("len(kept)", len),
    "the sum of the squares": ("sum(n * n for n in kept)", lambda kept: sum(n * n for n in kept)),
    "the largest, or 0 if there is none": ("max(kept, default=0)", lambda kept: max(kept, default=0)),
}


def followed(chance: Random, number: int, level: str) -> Item:
    """A short program, and what it prints."""
    start, end, step = chance.randint(1, 5), chance.randint(6, 9), chance.randint(2, 4)
    divisor, begin = chance.randint(2, 4), chance.randint(0, 20)
    text, printed, steps = _PROGRAMS[level](begin, start, end, step, divisor)
    return Item(
        id=f"cross_followed-{number}",
        dataset="cross_followed",
        question=f"What number does this Python program print?\n\n```python\n{text}\n```",
        answer=str(printed),
        answer_type=AnswerType.NUMBER,
        dimension="code_generation",
        difficulty=level,
        dimensions=("code_generation", "math_computation"),
        proxy=f"steps that the loop takes: {steps}",
        checker="equal number",
    )


@value
class Task:
    """A function to write, and lists that test it."""

    rules: Sequence[Rule]
    wanted: str
    lists: Sequence[Sequence[int]]

    def results(self, rules: Sequence[Rule]) -> Sequence[int]:
        """Return what comes out of each list when only `rules` are kept."""
        _, fold = FOLDS[self.wanted]
        return [fold([n for n in each if all(rule.holds(n) for rule in rules)]) for each in self.lists]

    @property
    def needs_every_rule(self) -> bool:
        """Return whether some list separates the right function from each one that leaves out one of the rules."""
        right = self.results(self.rules)
        return all(self.results([other for other in self.rules if other is not rule]) != right for rule in self.rules)

    @property
    def varies(self) -> bool:
        """Return whether no function that returns the same for every list can be right."""
        return len(set(self.results(self.rules))) > 1


def written(chance: Random, number: int, level: str) -> Item:
    """A function to write, by rules that must all hold, each of which its tests check."""
    task = _task(chance, level)
    while not (task.varies and task.needs_every_rule):
        task = _task(chance, level)
    code, _ = FOLDS[task.wanted]
    name = f"pick_{number}"
    rules, results = task.rules, task.results(task.rules)
    words = " and ".join(rule.words for rule in rules)
    tests = [f"assert {name}({each!r}) == {made!r}" for each, made in zip(task.lists, results, strict=True)]
    condition = " and ".join(rule.code for rule in rules)
    return Item(
        id=f"cross_written-{number}",
        dataset="cross_written",
        question=(
            f"Write a Python function `{name}(numbers)` that takes a list of whole numbers, keeps those that {words}, "
            f"and returns {task.wanted} of what it kept.\nFor example: {tests[2]}"
        ),
        answer=f"def {name}(numbers):\n    kept = [n for n in numbers if {condition}]\n    return {code}\n",
        answer_type=AnswerType.CODE,
        dimension="code_generation",
        difficulty=level,
        tests="\n".join(tests),
        entry_point=name,
        dimensions=("code_generation", "logical_reasoning"),
        proxy=f"conditions: {len(rules)}",
        checker="unit tests in the sandbox",
    )


def _task(chance: Random, level: str) -> Task:
    rules = chance.sample(RULES, 1 + LEVELS.index(level))
    wanted = chance.choice(sorted(FOLDS))
    lists = [[chance.choice(NUMBERS) for _ in range(length)] for length in (0, 1, 5, 8, 12, 20)]
    return Task(rules=rules, wanted=wanted, lists=lists)


def _plain(begin: int, start: int, end: int, step: int, divisor: int) -> tuple[str, int, int]:
    text = f"total = {begin}\nfor n in range({start}, {end}):\n    total += n * {step}\nprint(total)"
    return text, begin + step * sum(range(start, end)), end - start


def _conditional(begin: int, start: int, end: int, step: int, divisor: int) -> tuple[str, int, int]:
    numbers = range(start, end + step)
    text = (
        f"total = {begin}\nfor n in range({start}, {end + step}):\n    if n % {divisor} == 0:\n        total += n\n"
        f"    else:\n        total -= {step}\nprint(total)"
    )
    return text, begin + sum(n if n % divisor == 0 else -step for n in numbers), len(numbers)


def _nested(begin: int, start: int, end: int, step: int, divisor: int) -> tuple[str, int, int]:
    pairs = [(a, b) for a in range(start, end) for b in range(1, step + 1)]
    text = (
        f"total = {begin}\nfor a in range({start}, {end}):\n    for b in range(1, {step + 1}):\n"
        f"        if (a + b) % {divisor} == 0:\n            total += a * b\nprint(total)"
    )
    return text, begin + sum(a * b for a, b in pairs if (a + b) % divisor == 0), len(pairs)


_PROGRAMS = {"easy": _plain, "medium": _conditional, "hard": _nested}
