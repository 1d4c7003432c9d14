"""The tasks of an exam: what a file may contain, and which tasks are drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.exam.tasks import drawn, read_tasks, task
from cli.terminal.exits import USAGE, UnusableInput
from evals.items import Item
from kernel.answers import AnswerType
from tests.unit.cli.running import Metacog

LINE = {"question": "What is 2 + 2?", "answer": "4", "answer_type": "number", "kind": "math_computation"}
CHOICE = {"question": "Which?", "answer": "B", "answer_type": "CHOICE", "choices": ["a", "b"], "kind": "logic"}


def written(folder: Path, *lines: Any) -> Path:  # noqa: ANN401
    file = folder / "mine.jsonl"
    file.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines))
    return file


def of_kind(kind: str, count: int) -> list[Item]:
    return [task(json.dumps({**LINE, "kind": kind, "id": f"{kind}-{number}"})) for number in range(count)]


def test_a_line_needs_no_name_and_no_data_set(tmp_path: Path) -> None:
    first, second = read_tasks(written(tmp_path, LINE, "\n", CHOICE))

    assert (first.id, first.dataset, first.dimension, first.answer_type) == (
        "mine-1",
        "mine",
        "math_computation",
        AnswerType.NUMBER,
    )
    assert (second.id, list(second.choices or ())) == ("mine-3", ["a", "b"])


def test_a_file_of_the_evaluation_is_a_file_of_tasks(tmp_path: Path) -> None:
    line = {
        "id": "x-1",
        "dataset": "x",
        "question": "Why?",
        "answer": "so",
        "answer_type": "text",
        "dimensions": ["code_generation", "math_computation"],
    }

    [item] = read_tasks(written(tmp_path, line))

    assert drawn([item], 1, seed=0).counts == {"code_generation + math_computation": 1}


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("{nonsense\n", "line 2: it is not JSON: "),
        ([1], "line 2: not a JSON object"),
        ({"question": "Why?", "answer": "so", "answer_type": "text"}, "line 2: it has no kind"),
        ({**LINE, "kind": ""}, "line 2: it has no kind"),
        ({**LINE, "answer": " "}, "line 2: id, question and answer must not be empty"),
        ({**LINE, "answer_type": "poem"}, "line 2: answer_type"),
        ({**LINE, "colour": "red"}, "line 2: colour"),
        ({**CHOICE, "answer": "C"}, "line 2: the answer is 'C', which is no letter of its 2 choices"),
        ({**LINE, "answer_type": "code"}, "line 2: a program needs tests"),
        ({**LINE, "id": "mine-1"}, "2 items are called mine-1"),
    ],
)
def test_an_invalid_file_raises_an_error_before_anything_is_sent(
    metacog: Metacog, tmp_path: Path, bad: object, complaint: str
) -> None:
    file = written(tmp_path, LINE, bad if isinstance(bad, str) else json.dumps(bad) + "\n")
    journal = tmp_path / "journal"

    done = metacog("exam", "--yes", "--tasks", file, "--journal", journal, "--router", "http://127.0.0.1:1")

    assert (done.status, journal.exists()) == (USAGE, False)
    assert complaint in done.err


def test_many_invalid_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as raised:
        read_tasks(written(tmp_path, *["{}\n"] * 12))

    assert raised.value.message.endswith("... and 2 more")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give either a file of tasks, or public sets with --hub"),
        (("--tasks", "a.jsonl", "--hub", "gsm8k"), "give either a file of tasks, or public sets with --hub"),
        (("--tasks", "/nowhere/a.jsonl"), "/nowhere/a.jsonl cannot be read: No such file"),
        (("--hub", "nonesuch"), "there is no public set nonesuch"),
    ],
)
def test_tasks_come_from_one_place_that_there_is(metacog: Metacog, words: tuple[str, ...], complaint: str) -> None:
    done = metacog("exam", "--yes", *words)

    assert done.status == USAGE
    assert complaint in " ".join(done.err.replace("│", " ").split())


def test_an_empty_file_contains_no_task(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="contains no task"):
        read_tasks(written(tmp_path, "\n"))


def test_the_same_seed_draws_the_same_tasks_whatever_their_order() -> None:
    items = [*of_kind("a", 40), *of_kind("b", 40)]

    first = drawn(items, 10, seed=3)
    again = drawn(items[::-1], 10, seed=3)
    other = drawn(items, 10, seed=4)

    assert first == again
    assert first.digest == again.digest != other.digest
    assert {item.id for item in first.items} != {item.id for item in other.items}
    assert first.counts == {"a": 10, "b": 10}


def test_another_kind_in_the_file_does_not_change_the_draw() -> None:
    alone = {item.id for item in drawn(of_kind("a", 40), 10, seed=3).items}
    beside = {item.id for item in drawn([*of_kind("a", 40), *of_kind("b", 5)], 10, seed=3).items}

    assert alone < beside


def test_the_kinds_take_turns() -> None:
    found = drawn([*of_kind("a", 3), *of_kind("b", 3)], 3, seed=0)

    assert [item.dimension for item in found.items] == ["a", "b"] * 3


def test_a_kind_with_too_few_tasks_gives_all_of_them_and_is_named() -> None:
    found = drawn([*of_kind("a", 5), *of_kind("b", 2)], 5, seed=0)

    assert (found.counts, found.short) == ({"a": 5, "b": 2}, {"b": 2})


def test_only_the_chosen_kinds_are_drawn_from_and_a_missing_one_is_an_error() -> None:
    items = [*of_kind("a", 5), *of_kind("b", 5)]

    assert drawn(items, 2, seed=0, kinds=["b"]).counts == {"b": 2}
    with pytest.raises(UnusableInput, match="there is no task of the kind c; there are a, b"):
        drawn(items, 2, seed=0, kinds=["a", "c"])


def test_another_answer_makes_other_tasks() -> None:
    one = [task(json.dumps(LINE))]
    other = [task(json.dumps({**LINE, "answer": "5"}))]

    assert drawn(one, 1, seed=0).digest != drawn(other, 1, seed=0).digest
