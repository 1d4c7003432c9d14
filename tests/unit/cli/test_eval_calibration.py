"""`metacog eval calibration`, as it is typed."""

import json
from pathlib import Path

from cli.terminal.exits import UNREACHABLE, USAGE
from tests.unit.cli.running import Metacog
from tests.unit.evals.replay.packs import made_lines, write_set

AGENTS = {f"model-{at}": (0.3 + 0.1 * at, 1) for at in range(6)}


def test_a_pack_needs_no_suite_and_gives_a_page_with_its_command(metacog: Metacog, tmp_path: Path) -> None:
    write_set(tmp_path / "pack", "tasks", made_lines(400, AGENTS))

    done = metacog("eval", "calibration", "--pack", tmp_path / "pack", "--out", tmp_path / "out")

    assert done.status == 0, done.err
    report = (tmp_path / "out" / "report.md").read_text()
    assert "metacog eval calibration --pack pack --seed 0" in report
    assert done.out.strip() == report.strip()
    rows = json.loads((tmp_path / "out" / "figures.json").read_text())["rows"]
    assert (rows[0]["source"], rows[0]["kind"]) == ("tasks", "all kinds")
    assert rows[0]["after"]["low"] <= rows[0]["after"]["value"] <= rows[0]["after"]["high"]


def test_a_folder_without_a_pack_is_named(metacog: Metacog, tmp_path: Path) -> None:
    done = metacog("eval", "calibration", "--pack", tmp_path)

    assert done.status == USAGE
    assert "holds no recorded answers" in " ".join(done.err.split())


def test_labelled_answers_that_were_recorded_need_no_router(metacog: Metacog, tmp_path: Path) -> None:
    right = {
        "kind": "answer",
        "id": "r",
        "source": "vote, votes",
        "question_kind": "sums",
        "confidence": 0.9,
        "score": 1.0,
    }
    lines = [{**right, "id": f"r{at}", "score": float(at % 3 > 0)} for at in range(60)]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = metacog("eval", "calibration", "--report-only", tmp_path, "--out", tmp_path / "out")

    assert done.status == 0, done.err
    assert "## vote, votes" in done.out
    assert "| sums | 60 | 0.233 " in done.out  # .9 stated, two of three right
    (tmp_path / "records.jsonl").write_text('{"kind": "run"}\n')
    other = metacog("eval", "calibration", "--report-only", tmp_path, "--out", tmp_path / "out")
    assert other.status == USAGE
    assert "none of `metacog eval calibration`" in " ".join(other.err.split())


def test_a_router_that_is_away_is_named(metacog: Metacog) -> None:
    done = metacog("eval", "calibration", "--router", "http://127.0.0.1:9")

    assert done.status == UNREACHABLE
    assert "127.0.0.1:9" in done.err
