"""Recorded outcomes of a weak and a strong model, read from JSON lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chassis.json_text import loads
from evals.errors import ItemsUnreadable
from evals.harness.item_records import introduction
from evals.items import Item, interleaved, unique
from evals.records import Record
from kernel.answers import AnswerType
from kernel.values import value

# The right answers are not in these files, and nothing is compared with them.
UNKNOWN_ANSWER = "A"


@value
class Outcome:
    """The results of two models on one question."""

    weak_correct: bool
    strong_correct: bool
    weak_model: str
    strong_model: str


@value
class Outcomes:
    """Questions with the outcomes of two models, by the questions' names."""

    items: Sequence[Item]
    by_item: Mapping[str, Outcome]

    def introduce(self, item: Item, prompt: str) -> Record:
        """The record of an item, with the outcomes."""
        one = self.by_item[item.id]
        models = {"weak_model": one.weak_model, "strong_model": one.strong_model}
        right = {"weak_correct": one.weak_correct, "strong_correct": one.strong_correct}
        return {**introduction(item, prompt), **right, **models}


def read_outcomes(files: Sequence[Path], most: int) -> Outcomes:
    """The first `most` questions of each file, the files taken in turns, so that a run that is cut short is balanced.

    Raises:
        ItemsUnreadable: For a file that cannot be read or is empty, or a line that holds no outcome; names it.
    """
    read = [_of_file(file, most) for file in files]
    items = interleaved([[item for item, _ in pairs] for pairs in read])
    return Outcomes(items=unique(items), by_item={item.id: outcome for pairs in read for item, outcome in pairs})


def _of_file(file: Path, most: int) -> Sequence[tuple[Item, Outcome]]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ItemsUnreadable(f"{file} cannot be read: {error}") from error
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][:most]
    if not filled:
        raise ItemsUnreadable(f"{file} has no outcomes")
    return [_pair(line, file.stem, f"{file}, line {number}") for number, line in filled]


def _pair(line: str, dataset: str, place: str) -> tuple[Item, Outcome]:
    try:
        row: Mapping[str, Any] = loads(line)
        choices = tuple(row["choices"]) if row.get("choices") else None
        item = Item(
            id=row["id"],
            dataset=dataset,
            question=row["question"],
            answer=UNKNOWN_ANSWER,
            answer_type=AnswerType.CHOICE if choices else AnswerType.TEXT,
            choices=choices,
        )
        outcome = Outcome(
            weak_correct=_flag(row["weak_correct"]),
            strong_correct=_flag(row["strong_correct"]),
            weak_model=row.get("weak_model", "weak"),
            strong_model=row.get("strong_model", "strong"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ItemsUnreadable(f"{place}: no outcome of two models: {error!r}") from error
    return item, outcome


def _flag(flag: object) -> bool:
    if not isinstance(flag, bool):
        raise TypeError(f"{flag!r} is neither true nor false")
    return flag
