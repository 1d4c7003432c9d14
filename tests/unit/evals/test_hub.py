import sys
from collections.abc import Mapping
from typing import Any

import pytest

from evals.errors import ItemsUnreadable, NotInstalled
from evals.hub.loading import from_hub, load_sets
from evals.hub.rows import SETS
from kernel.answers import AnswerType

LABELLED = {
    "question": "Which is a town?",
    "choices": {"label": ["1", "2"], "text": ["Bern", "Rhine"]},
    "answerKey": "1",
}
# One made-up row for each set, in the set's own fields, with the answer that must come out.
ROWS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "boolq": ({"question": "is ice cold", "answer": True, "passage": "Ice is cold."}, "yes"),
    "strategyqa": ({"question": "Can a fish climb?", "answer": False}, "no"),
    "gsm8k": ({"question": "How many?", "answer": "600 + 600 = 1,200\n#### 1,200"}, "1200"),
    "svamp": ({"Body": "Ann has 2 pens.", "Question": "How many pens has she?", "Answer": 2.0}, "2"),
    "arc_easy": (LABELLED, "A"),
    "arc_challenge": (LABELLED, "A"),
    "commonsenseqa": (LABELLED, "A"),
    "truthfulqa": (
        {"question": "Is it so?", "mc1_targets": {"choices": ["Yes, truly", "No", "Perhaps"], "labels": [1, 0, 0]}},
        "C",
    ),
    "mmlu": ({"question": "Which?", "choices": ["a", "b", "c"], "answer": 2}, "C"),
    "hellaswag": ({"ctx": "She opens the door and", "endings": ["sings", "enters"], "label": "1"}, "B"),
    "piqa": ({"goal": "Open a jar", "sol1": "Turn the lid", "sol2": "Turn the table", "label": 0}, "A"),
    "winogrande": ({"sentence": "The _ fell.", "option1": "cup", "option2": "idea", "answer": "2"}, "B"),
    "humaneval": (
        {"prompt": "def f():\n", "canonical_solution": "    return 1\n", "test": "def check(f):\n    assert f() == 1",
         "entry_point": "f"},
        "def f():\n    return 1\n",
    ),
    "mbpp": ({"prompt": "Write f.", "code": "f = int", "test_list": ["assert f() == 0"]}, "f = int"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_row_of_every_public_set_becomes_an_item(name: str) -> None:
    row, answer = ROWS[name]

    [item] = load_sets([name], 5, lambda _: [row])

    assert (item.id, item.dataset, item.answer) == (f"{name}-0", name, answer)
    assert item.answer_type is not AnswerType.CODE or item.tests


def test_sets_are_taken_in_turns_and_up_to_what_is_asked_for() -> None:
    found = load_sets(["strategyqa", "mmlu"], 2, lambda wanted: [ROWS["mmlu" if "mmlu" in wanted.path else
                                                                      "strategyqa"][0]] * 3)  # fmt: skip

    assert [item.id for item in found] == ["strategyqa-0", "mmlu-0", "strategyqa-1", "mmlu-1"]


def test_an_unknown_set_and_a_row_that_is_not_as_expected_are_named() -> None:
    with pytest.raises(ItemsUnreadable, match="no public set rivers; there are boolq"):
        load_sets(["rivers"], 1, lambda _: [])
    with pytest.raises(ItemsUnreadable, match="row 0 of gsm8k is not as its readers expect: KeyError"):
        load_sets(["gsm8k"], 1, lambda _: [{"question": "How many?"}])
    with pytest.raises(ItemsUnreadable, match="mmlu has no items"):
        load_sets(["mmlu"], 1, lambda _: [])


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(NotInstalled, match=r"pip install 'metacog\[evaluation\]'"):
        from_hub(SETS["boolq"])
