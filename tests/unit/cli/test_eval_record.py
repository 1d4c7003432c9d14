"""`metacog eval record` and `metacog eval detectable`, as they are typed."""

from pathlib import Path

import pytest

from cli.terminal.exits import USAGE
from evals.recording.compressed import CompressedRecords
from evals.recording.recorder import record_items
from tests.unit.cli.running import Metacog
from tests.unit.evals.recording.recordings import ScriptedServices, a_sum, plan


@pytest.fixture
async def recording(tmp_path: Path) -> Path:
    file = tmp_path / "recording.jsonl.gz"
    with CompressedRecords(file) as records:
        await record_items(plan([a_sum(number) for number in range(1, 9)]), ScriptedServices().post, records)
    return file


def test_a_recording_makes_a_report_and_a_pack_without_a_suite(
    metacog: Metacog, recording: Path, tmp_path: Path
) -> None:
    done = metacog(
        "eval", "record", "--recording", recording, "--report", tmp_path / "out", "--pack", tmp_path / "pack"
    )

    assert done.status == 0, done.err
    assert "metacog eval record --recording recording.jsonl.gz --report out" in done.out
    assert (tmp_path / "out" / "report.md").read_text().strip() == done.out.strip()
    replayed = metacog("eval", "replay", "--pack", tmp_path / "pack", "--out", tmp_path / "replay")
    assert replayed.status == 0, replayed.err
    assert "| sums | 8 | 28.3 | 4 | 3 |" in replayed.out


def test_live_answers_need_a_folder(metacog: Metacog, recording: Path) -> None:
    done = metacog("eval", "record", "--recording", recording, "--live", "3")

    assert done.status == USAGE
    assert "--live needs --report" in " ".join(done.err.split())


def test_without_questions_nothing_is_recorded(metacog: Metacog) -> None:
    done = metacog("eval", "record")

    assert done.status == USAGE
    assert "give the folder with the data sets" in " ".join(done.err.split())


def test_which_gain_a_number_of_items_can_show(metacog: Metacog) -> None:
    done = metacog("eval", "detectable", "--items", "24,1600")

    assert done.status == 0, done.err
    assert "| 24 | 16.3 |" in done.out
    assert "| 1,600 | 2.0 |" in done.out
