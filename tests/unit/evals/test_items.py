import json
from pathlib import Path

import pytest

from evals import prompts
from evals.errors import ItemsUnreadable
from evals.items import Item, read_items, read_sets, sets_in
from kernel.answers import AnswerType
from tests.support.models.scripted_llm import Body

CAPITAL = {"id": "towns-1", "dataset": "towns", "question": "Which town is it?", "answer": "B", "answer_type": "choice",
           "choices": ["Aarau", "Bern"]}  # fmt: skip


def written(folder: Path, name: str, *items: Body) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    return file


def many(name: str, count: int) -> list[Body]:
    return [{**CAPITAL, "id": f"{name}-{number}", "dataset": name} for number in range(count)]


def test_an_item_is_read_with_what_its_data_set_leaves_out(tmp_path: Path) -> None:
    [item] = read_items(written(tmp_path, "towns", CAPITAL), 1)

    assert (item.answer_type, item.lettered) == (AnswerType.CHOICE, (("A", "Aarau"), ("B", "Bern")))
    assert (item.context, item.aliases) == (None, None)


def test_sets_are_taken_in_turns_so_that_a_run_cut_short_is_balanced(tmp_path: Path) -> None:
    written(tmp_path, "a", *many("a", 5))
    written(tmp_path, "b", *many("b", 1))

    items = read_sets(tmp_path, ["b", "a"], 2)

    assert [item.id for item in items] == ["b-0", "a-0", "a-1"]


def test_without_a_choice_of_sets_all_are_read_but_recorded_outcomes(tmp_path: Path) -> None:
    for name in ("b", "a", "routing_a"):
        written(tmp_path, name, *many(name, 1))

    assert sets_in(tmp_path) == ["a", "b"]
    assert [item.dataset for item in read_sets(tmp_path, [], 1)] == ["a", "b"]


def test_a_separator_inside_a_question_does_not_end_its_line(tmp_path: Path) -> None:
    file = tmp_path / "towns.jsonl"
    file.write_text(json.dumps({**CAPITAL, "question": "Which\u2028town?"}, ensure_ascii=False) + "\n\n")

    assert [item.question for item in read_items(file, 5)] == ["Which\u2028town?"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: it is not JSON"),
        ("[1]", "line 2:"),
        (json.dumps({**CAPITAL, "answer_type": "poem"}), "line 2: answer_type"),
        (json.dumps({**CAPITAL, "sources": []}), "line 2: sources"),
        (json.dumps({**CAPITAL, "answer": "C"}), "line 2: the answer is 'C', which is no letter of its 2 choices"),
        (json.dumps({**CAPITAL, "question": " "}), "line 2: id, question and answer must not be empty"),
        (json.dumps({**CAPITAL, "answer_type": "code"}), "line 2: programs are not scored"),
    ],
)
def test_a_line_that_is_no_item_is_rejected_with_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "towns.jsonl"
    file.write_text(f"{json.dumps(CAPITAL)}\n{line}\n")

    with pytest.raises(ItemsUnreadable, match=complaint):
        read_items(file, 2)


def test_an_unknown_set_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    written(tmp_path, "towns", CAPITAL)

    with pytest.raises(ItemsUnreadable, match=r"no data set rivers .*; there are towns"):
        read_sets(tmp_path, ["rivers"], 1)


def test_a_folder_without_data_sets_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ItemsUnreadable, match="has no data set"):
        sets_in(tmp_path)
    with pytest.raises(ItemsUnreadable, match="is no folder"):
        sets_in(tmp_path / "missing")
    with pytest.raises(ItemsUnreadable, match="has no items"):
        read_items(written(tmp_path, "empty"), 1)


def test_two_items_of_one_name_are_rejected(tmp_path: Path) -> None:
    written(tmp_path, "towns", CAPITAL)
    written(tmp_path, "cities", CAPITAL)

    with pytest.raises(ItemsUnreadable, match="2 items are called towns-1"):
        read_sets(tmp_path, [], 1)


def test_a_question_is_put_with_context_options_and_how_to_end() -> None:
    item = Item(
        id="towns-1",
        dataset="towns",
        context="One of them is a capital.",
        question="Which is it?",
        choices=["Aarau", "Bern"],
        answer="B",
        answer_type=AnswerType.CHOICE,
    )

    assert prompts.question(item).text == (
        "One of them is a capital.\n\nWhich is it?\n\nA. Aarau\nB. Bern\n\n"
        'End your reply with a line "Final Answer: " and the letter of the right option.'
    )


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        (AnswerType.BOOLEAN, '"Final Answer: yes" or "Final Answer: no".'),
        (AnswerType.NUMBER, 'Final Answer: " and the number.'),
        (AnswerType.TEXT, 'Final Answer: " and the answer in as few words as you can.'),
    ],
)
def test_a_question_asks_for_the_form_that_its_answer_has(kind: AnswerType, end: str) -> None:
    item = Item(id="x-1", dataset="x", question="How many {{ legs }}?", answer="4", answer_type=kind)

    said = prompts.question(item).text

    assert said.startswith("How many {{ legs }}?\n\nEnd your reply")
    assert said.endswith(end)
