"""Questions with known answers, read from a folder of JSON lines: one file a data set, one object a line."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from chassis.json_text import InvalidJson, loads
from chassis.serving.wire import from_plain
from evals.errors import ItemsUnreadable
from kernel.answers import AnswerType, rules_of
from kernel.errors import MalformedRequest
from kernel.values import value

SUFFIX = ".jsonl"
# Recorded outcomes of other models, which are not questions.
OUTCOMES = "routing_"


@value
class Item:
    """A question with its known answer.

    Attributes:
        id: Its name, unique over all data sets.
        dataset: Name of its data set.
        question: The question itself, without options.
        answer: The known answer, as `answer_type` writes it; for a choice its letter.
        answer_type: The form of the answer.
        dimension: What it takes, e.g. `math_computation`.
        difficulty: `easy`, `medium` or `hard`.
        context: A text that the answer rests on.
        choices: The options in order: A, B, C, ...
        aliases: Further accepted answers.
        tests: Of a program: what raises when it is wrong.
        entry_point: Of a program: name of its function.
        dimensions: Everything that it takes, where that is more than one thing.
        proxy: Where its difficulty comes from, e.g. `steps: 4`.
        checker: How its answer is checked, in words.
    """

    id: str
    dataset: str
    question: str
    answer: str
    answer_type: AnswerType
    dimension: str = ""
    difficulty: str = ""
    context: str | None = None
    choices: Sequence[str] | None = None
    aliases: Sequence[str] | None = None
    tests: str | None = None
    entry_point: str | None = None
    dimensions: Sequence[str] | None = None
    proxy: str | None = None
    checker: str | None = None

    @property
    def takes(self) -> Sequence[str]:
        """Return its dimensions; empty when unknown."""
        return tuple(self.dimensions or ((self.dimension,) if self.dimension else ()))

    @property
    def is_program(self) -> bool:
        """Whether its answer is a program, which tests decide on."""
        return rules_of(self.answer_type).is_program

    @property
    def lettered(self) -> Sequence[tuple[str, str]]:
        """Return its options, each with its letter."""
        return tuple(zip(ascii_uppercase, self.choices or (), strict=False))


def sets_in(folder: Path) -> Sequence[str]:
    """Names of the data sets in `folder`.

    Raises:
        ItemsUnreadable: When it is no folder, or has no data set.
    """
    if not folder.is_dir():
        raise ItemsUnreadable(f"{folder} is no folder; --data is one with a .jsonl file for each data set")
    found = sorted(file.stem for file in folder.glob(f"*{SUFFIX}") if not file.stem.startswith(OUTCOMES))
    if not found:
        raise ItemsUnreadable(f"{folder} has no data set: there is no .jsonl file in it")
    return found


def read_sets(folder: Path, names: Sequence[str], per_set: int, *, programs: bool = False) -> Sequence[Item]:
    """The first `per_set` items of each set, taken in turns, so that a run that is cut short is balanced.

    Args:
        folder: Where the data sets are.
        names: Which of them, in order; empty: all.
        per_set: Items of each [count, >= 1].
        programs: Whether items may ask for programs, which are judged by running their tests.

    Raises:
        ItemsUnreadable: For an unknown set, an item that is none (names the line), a name that two items have, or a
            program where none may be.
    """
    known = sets_in(folder)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ItemsUnreadable(f"there is no data set {', '.join(unknown)} in {folder}; there are {', '.join(known)}")
    taken = [read_items(folder / f"{name}{SUFFIX}", per_set, programs=programs) for name in names or known]
    return unique(interleaved(taken))


def interleaved(groups: Sequence[Sequence[Item]]) -> Sequence[Item]:
    """The first of each group, then the second of each, and so on."""
    return [item for item in chain.from_iterable(zip_longest(*groups)) if item is not None]


def read_items(file: Path, most: int, *, programs: bool = False) -> Sequence[Item]:
    """The first `most` items of one file.

    Raises:
        ItemsUnreadable: When the file cannot be read, is empty or holds something else; names the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ItemsUnreadable(f"{file} cannot be read: {error}") from error
    items = [item_of(text, f"{file}, line {number}", programs=programs) for number, text in _first(lines, most)]
    if not items:
        raise ItemsUnreadable(f"{file} has no items")
    return items


def _first(lines: Sequence[str], most: int) -> Iterator[tuple[int, str]]:
    filled = [(number, text) for number, text in enumerate(lines, 1) if text.strip()]
    yield from filled[:most]


def item_of(text: str, place: str, *, programs: bool = False) -> Item:
    """The item that one line holds.

    Raises:
        ItemsUnreadable: When it holds none; names `place`.
    """
    try:
        item = from_plain(_spelled(loads(text)), Item)
    except InvalidJson as error:
        raise ItemsUnreadable(f"{place}: {error}") from error
    except MalformedRequest as error:
        raise ItemsUnreadable(f"{place}: {error.message}") from error
    problem = _problem(item, programs=programs)
    if problem:
        raise ItemsUnreadable(f"{place}: {problem}")
    return item


def _spelled(data: Any) -> Any:  # noqa: ANN401 - what the line holds
    """`data` with its answer type as the contracts spell it."""
    if isinstance(data, Mapping) and isinstance(data.get("answer_type"), str):
        return {**data, "answer_type": data["answer_type"].upper()}
    return data


def _problem(item: Item, *, programs: bool) -> str:
    if not item.id or not item.question.strip() or not item.answer.strip():
        return "id, question and answer must not be empty"
    if item.is_program and programs:
        return "" if (item.tests or "").strip() else "a program needs tests that show whether it is right"
    if item.is_program:
        return "programs are not scored by this evaluation; leave this data set out"
    if item.answer_type is AnswerType.CHOICE and item.answer not in dict(item.lettered):
        return f"the answer is {item.answer!r}, which is no letter of its {len(item.choices or ())} choices"
    return ""


def unique(items: Sequence[Item]) -> Sequence[Item]:
    """`items`, none of which has the name of another.

    Raises:
        ItemsUnreadable: When two have one name.
    """
    name, times = Counter(item.id for item in items).most_common(1)[0]
    if times > 1:
        raise ItemsUnreadable(f"{times} items are called {name}; an item's id must be unique over all data sets")
    return items
