"""Packs of recorded answers: what is read, and what is rejected."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from evals.replay.pack import (
    INVALID,
    PackInvalid,
    RecordedSet,
    chance_of_order,
    is_for_fitting,
    read_pack,
    read_set,
    write_records,
)
from tests.unit.evals.replay.packs import SAMPLED, Line, line, made_lines, write_set


def read(folder: Path, name: str, *lines: Line) -> RecordedSet:
    return read_set(write_set(folder, name, lines))


def test_equal_answers_have_the_same_number_whoever_gave_them(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "zeroeval_gsm",
        line(1, {"a": ["18.0"], "b": ["18"], "c": ["$1,8"], "d": [None]}, {"a": [1], "b": [1], "c": [0], "d": [0]}),
    )

    numbers = {name: int(agent.answers[0, 0]) for name, agent in found.agents.items()}
    assert numbers["a"] == numbers["b"] != INVALID
    assert numbers["d"] == INVALID


def test_answers_about_programs_are_compared_as_literals(tmp_path: Path) -> None:
    found = read(
        tmp_path, "my_cruxeval", line(1, {"a": ["'x'"], "b": ['"x"'], "c": ["x"]}, {"a": [1], "b": [1], "c": [0]})
    )

    assert found.agents["a"].answers[0, 0] == found.agents["b"].answers[0, 0] != found.agents["c"].answers[0, 0]


def test_a_file_with_options_holds_choices_and_any_other_texts(tmp_path: Path) -> None:
    right = {"a": [1], "b": [0]}
    choices = read(tmp_path, "quiz", line(1, {"a": ["A"], "b": ["K"]}, right, choices=["one", "two"]))
    texts = read(tmp_path, "notes", line(1, {"a": ["The Moon."], "b": ["moon"]}, right))

    assert choices.agents["b"].answers[0, 0] == INVALID  # there is no such option
    assert choices.options.tolist() == [2]
    assert texts.agents["a"].answers[0, 0] == texts.agents["b"].answers[0, 0]


def test_what_is_right_is_read_from_the_labels_and_never_from_the_reference(tmp_path: Path) -> None:
    found = read(tmp_path, "zeroeval_gsm", line(1, {"a": ["4"], "b": ["5"]}, {"a": [0], "b": [1]}))

    assert (found.agents["a"].right[0, 0], found.agents["b"].right[0, 0]) == (False, True)


def test_an_agent_that_missed_a_question_is_not_wrong_on_it(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "zeroeval_gsm",
        line(1, {"a": ["4"], "b": ["4"]}, {"a": [1], "b": [1]}),
        line(2, {"a": ["5"]}, {"a": [0]}),
    )

    assert found.agents["b"].asked.tolist() == [True, False]


def test_questions_of_equal_wording_are_on_the_same_side() -> None:
    sides = [is_for_fitting(f"Question number {number}?") for number in range(400)]

    assert 160 < sum(sides) < 240
    assert is_for_fitting("Which  one?") == is_for_fitting(" which one?\n")


def test_sorted_samples_are_rejected_and_shuffled_ones_are_not(tmp_path: Path) -> None:
    lines = made_lines(200, SAMPLED)
    shuffled = read(tmp_path, "shuffled", *lines)
    for one in lines:
        labels = one["right"]["other@0.8"]
        order = sorted(range(10), key=[at / 4 - label for at, label in enumerate(labels)].__getitem__)
        for field in ("answers", "right"):
            one[field]["other@0.8"] = [one[field]["other@0.8"][at] for at in order]

    assert (chance_of_order(shuffled) or 0.0) > 0.001
    with pytest.raises(PackInvalid, match=r"sorted.*samples|samples.*sorted"):
        read(tmp_path, "sorted", *lines)


def test_single_answers_have_no_order_to_test(tmp_path: Path) -> None:
    assert chance_of_order(read(tmp_path, "single", *made_lines(5, {"a": (0.5, 1)}))) is None


def test_an_order_that_all_agents_share_counts_once(tmp_path: Path) -> None:
    lines = made_lines(60, {"a": (0.5, 10)}, seed=3)
    alone = chance_of_order(read(tmp_path, "alone", *lines))
    for one in lines:
        for field in ("answers", "right"):
            one[field].update({f"copy-{at}": list(one[field]["a"]) for at in range(8)})
    copied = chance_of_order(read(tmp_path, "copied", *lines))

    assert alone == copied  # eight copies are no further evidence


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": 3}, "id must be a text"),
        ({"question": 3}, "question must be a text"),
        ({"answers": {}}, "same agents"),
        ({"answers": {"a": ["4"], "b": ["4"]}}, "same agents"),
        ({"right": {"a": [1, 0]}}, "same length"),
        ({"answers": {"a": [4]}}, "texts or null"),
        ({"right": {"a": [2]}}, "0 or 1"),
        ({"choices": "A, B"}, "choices"),
    ],
)
def test_a_line_outside_the_schema_is_named(tmp_path: Path, change: Line, problem: str) -> None:
    good = line(1, {"a": ["4"]}, {"a": [1]})

    with pytest.raises(PackInvalid, match=rf"set\.jsonl\.gz, line 2: .*{problem}"):
        read(tmp_path, "set", good, {**line(2, {"a": ["4"]}, {"a": [1]}), **change})


def test_an_id_that_stands_twice_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PackInvalid, match="'q1' stands on two lines"):
        read(tmp_path, "set", *[line(1, {"a": ["4"]}, {"a": [1]})] * 2)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")

    with pytest.raises(PackInvalid, match=r"broken\.jsonl\.gz cannot be read as gzip"):
        read_pack(tmp_path)
    with pytest.raises(PackInvalid, match="holds no recorded answers"):
        read_pack(tmp_path / "nowhere")


def test_the_length_of_an_output_is_unknown_where_it_was_not_recorded(tmp_path: Path) -> None:
    found = read(tmp_path, "set", line(1, {"a": ["4"], "b": ["5"]}, {"a": [1], "b": [0]}, chars={"a": 40}))

    assert found.agents["a"].characters[0] == 40
    assert np.isnan(found.agents["b"].characters[0])


def test_the_category_is_the_field_of_that_name_or_the_dataset_where_a_file_has_several(tmp_path: Path) -> None:
    right = {"a": [1]}
    lines = [line(number, {"a": ["4"]}, right, dataset=task) for number, task in enumerate(("sums", "towns", "sums"))]

    assert read(tmp_path, "tasks", *lines).categories == ("sums", "towns", "sums")
    assert read(tmp_path, "one", lines[0], lines[2]).categories == ("", "")  # it says no more than the file does
    assert read(tmp_path, "both", *[{**one, "category": "law"} for one in lines]).categories == ("law",) * 3
    bare = [{name: text for name, text in one.items() if name != "dataset"} for one in lines]
    assert read(tmp_path, "bare", *bare).categories == ("",) * 3


def test_a_dataset_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PackInvalid, match="line 1: dataset and category must be texts"):
        read(tmp_path, "tasks", line(1, {"a": ["4"]}, {"a": [1]}, dataset=7))


def test_records_give_the_same_set_without_a_word_of_it(tmp_path: Path) -> None:
    lines = made_lines(40, SAMPLED)
    lines[0]["answers"] |= {"odd": ["'one secret'", None]}
    lines[0]["right"] |= {"odd": [1, 0]}
    lines[0]["chars"] = {"odd": 31}
    path = write_set(tmp_path / "pack", "cruxeval_made", lines)

    [written] = write_records(tmp_path / "pack", tmp_path / "records", {"cruxeval_made": ["math"] * 40})

    was, now = read_set(path), read_set(written)
    for name, agent in was.agents.items():
        for field in ("answers", "right", "asked", "characters"):
            np.testing.assert_array_equal(getattr(now.agents[name], field), getattr(agent, field))
    for field in ("lengths", "options", "fitting"):
        np.testing.assert_array_equal(getattr(now, field), getattr(was, field))
    assert (len(now), now.categories, now.inferred, now.questions) == (40, was.categories, ("math",) * 40, ())
    text = gzip.decompress(written.read_bytes()).decode()
    assert "What is" not in text
    assert "secret" not in text
    assert json.loads(text.splitlines()[0])["answers"]["odd"][1] is None


def test_records_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_set(tmp_path / "pack", "quiz", made_lines(5, SAMPLED, options=4))

    first, second = (write_records(tmp_path / "pack", tmp_path / name, {})[0].read_bytes() for name in ("a", "b"))

    assert first == second


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"digest": "7"}, "digest, length and options stand for it"),
        ({"length": -1}, "digest, length and options stand for it"),
        ({"options": "four"}, "digest, length and options stand for it"),
        ({"answers": {"a": ["4"]}}, "answers of a must be numbers or null"),
        ({"answers": {"a": [True]}}, "answers of a must be numbers or null"),
    ],
)
def test_a_record_outside_the_schema_is_rejected(tmp_path: Path, changed: Line, problem: str) -> None:
    whole = {"id": "q1", "digest": "0" * 16, "length": 9, "options": 0, "answers": {"a": [0]}, "right": {"a": [1]}}
    assert len(read_set(write_set(tmp_path, "whole", [whole]))) == 1

    with pytest.raises(PackInvalid, match=problem):
        read_set(write_set(tmp_path, "changed", [{**whole, **changed}]))
