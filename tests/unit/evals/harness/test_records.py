from pathlib import Path

import pytest

from evals.autogen.team import answered_in
from evals.errors import RecordsUnusable
from evals.records import RecordFile, read_records

FIRST, SECOND = {"kind": "run", "seed": 7}, {"kind": "reply", "item": "a"}


def test_what_was_recorded_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "out" / "records.jsonl"

    with RecordFile(file) as recorder:
        recorder.add(FIRST)
        recorder.add(SECOND)

    assert read_records(file) == [FIRST, SECOND]


def test_a_record_is_in_the_file_before_the_next_one_comes(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"

    with RecordFile(file) as recorder:
        recorder.add(FIRST)

        assert read_records(file) == [FIRST]


def test_a_line_that_a_kill_has_torn_is_not_read_and_then_written_over(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"kind":"run","seed":7}\n{"kind":"rep')

    assert read_records(file) == [FIRST]
    with RecordFile(file) as recorder:
        recorder.add(SECOND)

    assert read_records(file) == [FIRST, SECOND]


def test_one_run_at_a_time_writes_records(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"

    with RecordFile(file) as recorder:
        recorder.add(FIRST)
        with pytest.raises(RecordsUnusable, match=r"another run writes to .*take another --out"), RecordFile(file):
            pass
        recorder.add(SECOND)
    with RecordFile(file) as later:
        later.add(FIRST)

    assert read_records(file) == [FIRST, SECOND, FIRST]


@pytest.mark.parametrize("line", ["{", "[1]", '{"seed": 7}'])
def test_a_line_in_the_middle_that_is_no_record_is_rejected_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(f'{{"kind":"run"}}\n{line}\n{{"kind":"run"}}\n')

    with pytest.raises(RecordsUnusable, match="line 2"):
        read_records(file)


def test_an_answer_that_was_cut_off_is_asked_again(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    assert answered_in(answers) == set()
    answers.write_text('{"id": "a", "reply": {}}\n{"id": "b", "re')

    assert answered_in(answers) == {"a"}
    assert answers.read_text() == '{"id": "a", "reply": {}}\n'


def test_missing_records_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RecordsUnusable, match="cannot be read"):
        read_records(tmp_path / "records.jsonl")
