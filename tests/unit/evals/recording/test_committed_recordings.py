"""The recordings in docs/ hold no questions, and the report beside them is theirs."""

from pathlib import Path

import pytest

from evals.recording.calls import MOST_CHARACTERS
from evals.recording.compressed import read_compressed
from evals.recording.figures import recording_figures
from evals.recording.live import LIVE, live_records, live_rows
from evals.recording.recorder import HEADING, ITEM, MADE_WITH, item_records
from evals.recording.report import write_recording_report

FOLDER = Path(__file__).parents[4] / "docs" / "evaluation" / "recordings"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))
# Texts of a recording that say how it was made, or name an item.
NAMES = frozenset({"id", "dataset", "dimension", "answer_type", "digest", "kind", "source", "time", "commit"})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_recording_holds_short_answers_and_no_other_text(file: Path) -> None:
    records = read_compressed(file)

    assert {record["kind"] for record in records} <= {HEADING, MADE_WITH, ITEM, LIVE}
    for record in (one for one in records if one["kind"] == ITEM):
        assert {name for name, content in record.items() if isinstance(content, str)} <= NAMES
    answers = [one for item in item_records(records) for each in item.answers.values() for one in each]
    assert answers
    assert all(len(one.answer or "") <= MOST_CHARACTERS and len(one.invalid) <= MOST_CHARACTERS for one in answers)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_report_in_the_pages_is_made_from_the_recording(file: Path, tmp_path: Path) -> None:
    records = read_compressed(file)

    items = item_records(records)
    live = live_rows(live_records(records), items)
    made = write_recording_report(records, recording_figures(items), live, tmp_path, "made here")

    figures = made[made.index("## What was recorded") :]
    assert figures in (FOLDER / "report.md").read_text(encoding="utf-8"), (
        f"make it again: metacog eval record --recording {file.relative_to(FOLDER.parents[2])}"
        f" --report {FOLDER.relative_to(FOLDER.parents[2])}"
    )
