from pathlib import Path

import pytest

from evals.errors import RecordsUnusable
from evals.recording.compressed import CompressedRecords, read_compressed


def add(file: Path, *names: str) -> None:
    with CompressedRecords(file) as records:
        for name in names:
            records.add({"kind": "item", "id": name})


def names_in(file: Path) -> list[str]:
    return [record["id"] for record in read_compressed(file)]


def test_records_are_there_again_and_more_can_be_added(tmp_path: Path) -> None:
    file = tmp_path / "made" / "recording.jsonl.gz"

    add(file, "a", "b")
    add(file, "c")

    assert names_in(file) == ["a", "b", "c"]


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_a_record_that_a_kill_cut_off_is_dropped_and_the_file_goes_on(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "recording.jsonl.gz"
    add(file, "a", "b")
    file.write_bytes(file.read_bytes()[:-cut])

    assert names_in(file) == ["a"]
    add(file, "c")

    assert names_in(file) == ["a", "c"]


def test_one_run_has_a_file_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl.gz"

    with (
        CompressedRecords(file),
        pytest.raises(RecordsUnusable, match="another run writes to"),
        CompressedRecords(file),
    ):
        pass

    add(file, "a")
    assert names_in(file) == ["a"]


def test_a_file_of_something_else_is_rejected_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl.gz"
    file.write_bytes(b"no gzip at all")

    with pytest.raises(RecordsUnusable, match="byte 0: no compressed record"), CompressedRecords(file):
        pass

    assert file.read_bytes() == b"no gzip at all"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordsUnusable, match=r"gone\.jsonl\.gz cannot be read"):
        read_compressed(tmp_path / "gone.jsonl.gz")
