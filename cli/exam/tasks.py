"""The tasks of an exam: labelled questions, of which some of each kind are drawn at random."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from random import Random
from typing import Any

from chassis.json_text import InvalidJson, loads_request
from cli.exam.exit_errors import as_unusable_input
from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_text
from evals.benchmark.files import line_of
from evals.items import Item, interleaved, item_of, unique
from kernel.values import value

# Lines that a file may have, and problems that an error lists [count].
MOST_LINES = 100_000
MOST_PROBLEMS = 10
# Questions of a public set that the tasks are drawn from [count].
MOST_OF_A_SET = 10_000


@value
class DrawnTasks:
    """These are the tasks of one exam.

    Attributes:
        items: The tasks, one of each kind in turn, so that an exam that is cut short is balanced.
        counts: Tasks by kind [count].
        short: Kinds of which there are fewer tasks than asked for, with how many there are [count].
    """

    items: Sequence[Item]
    counts: Mapping[str, int]
    short: Mapping[str, int]

    @property
    def digest(self) -> str:
        """The digest of the tasks, by which another exam is recognized [sha256, hexadecimal]."""
        spelled = json.dumps([dict(line_of(item)) for item in self.items], sort_keys=True, default=list)
        return sha256(spelled.encode()).hexdigest()


def kind_of(item: Item) -> str:
    """Return the kind of a task: its dimension, or its dimensions joined where it takes several.

    Example:
        >>> from kernel.answers import AnswerType
        >>> facts = {"id": "a", "dataset": "d", "question": "?", "answer": "1", "answer_type": AnswerType.NUMBER}
        >>> kind_of(Item(**facts, dimension="logic")), kind_of(Item(**facts, dimensions=["logic", "code"]))
        ('logic', 'logic + code')
    """
    return " + ".join(item.takes)


def read_tasks(path: Path) -> Sequence[Item]:
    """Return the tasks of a file of JSON lines; `docs/exam.md` describes a line.

    Raises:
        UnusableInput: A line is not a task, or two have the same name; the message lists the lines.
    """
    lines = read_text(path).splitlines()
    if len(lines) > MOST_LINES:
        raise UnusableInput(f"{path} has {len(lines)} lines; the limit is {MOST_LINES}")
    items: list[Item] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            items.append(task(line, name=path.stem, number=number))
        except UnusableInput as error:
            problems.append(error.message)
    if problems:
        more = f"\n... and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        shown = "\n".join(problems[:MOST_PROBLEMS])
        raise UnusableInput(f"{path} is invalid, and nothing was sent:\n{shown}{more}")
    if not items:
        raise UnusableInput(f"{path} contains no task")
    with as_unusable_input():
        return unique(items)


def task(line: str, *, name: str = "tasks", number: int = 1) -> Item:
    """Return the task of a line.

    Args:
        line: The line.
        name: Name of the file, which names tasks without an `id`.
        number: Number of the line.

    Raises:
        UnusableInput: The line is not a task; the message names the line and the reason.

    Example:
        >>> made = task('{"question": "2 + 2?", "answer": "4", "answer_type": "number", "kind": "math_computation"}')
        >>> made.id, made.dataset, made.dimension
        ('tasks-1', 'tasks', 'math_computation')
    """
    place = f"line {number}"
    try:
        content = loads_request(line)
    except InvalidJson as error:
        raise UnusableInput(f"{place}: {error}") from error
    if not isinstance(content, dict):
        raise UnusableInput(f"{place}: not a JSON object")
    with as_unusable_input():
        item = item_of(json.dumps(_completed(content, name, number)), place, programs=True)
    if not item.takes or not all(item.takes):
        raise UnusableInput(f'{place}: it has no kind; add e.g. "kind": "math_computation"')
    return item


def _completed(content: Mapping[str, Any], name: str, number: int) -> Mapping[str, Any]:
    """Return a line with the fields that may be left out; `kind` is another name of `dimension`."""
    fields = {key: field for key, field in content.items() if key != "kind"}
    if "kind" in content and "dimension" not in content:
        fields["dimension"] = content["kind"]
    return {"id": f"{name}-{number}", "dataset": name, **fields}


def hub_tasks(names: Sequence[str]) -> Sequence[Item]:
    """Return the tasks of public data sets.

    Raises:
        UnusableInput: A set is unknown, or cannot be loaded.
        NotInstalled: The package that loads them is not installed.
    """
    from evals.hub.loader import load_sets

    with as_unusable_input():
        return load_sets(names, MOST_OF_A_SET)


def drawn(items: Sequence[Item], per_kind: int, seed: int, kinds: Sequence[str] = ()) -> DrawnTasks:
    """Draw tasks of each kind at random; the same items give the same tasks, whatever their order.

    Args:
        items: All tasks.
        per_kind: Tasks of each kind [count, >= 1]; where there are fewer, all are taken.
        seed: Seed of the draw.
        kinds: Kinds that are drawn from; empty: all.

    Raises:
        UnusableInput: There is no task of one of `kinds`; the message lists the kinds that there are.
    """
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(kind_of(item), []).append(item)
    missing = [kind for kind in kinds if kind not in by_kind]
    if missing:
        known = ", ".join(sorted(by_kind))
        raise UnusableInput(f"there is no task of the kind {', '.join(missing)}; there are {known}")
    chosen = [_of_kind(by_kind[kind], kind, per_kind, seed) for kind in kinds or sorted(by_kind)]
    counts = {kind_of(each[0]): len(each) for each in chosen}
    return DrawnTasks(
        items=interleaved(chosen),
        counts=counts,
        short={kind: count for kind, count in counts.items() if count < per_kind},
    )


def _of_kind(items: Sequence[Item], kind: str, most: int, seed: int) -> Sequence[Item]:
    chance = Random(int.from_bytes(blake2b(f"{seed}\x1f{kind}".encode(), digest_size=8).digest(), "big"))
    ordered = sorted(items, key=lambda item: item.id)
    return chance.sample(ordered, min(most, len(ordered)))
