"""`metacog eval replay`, as it is typed."""

import json
from pathlib import Path

from cli.terminal.exits import UNREACHABLE, USAGE
from tests.unit.cli.running import Metacog
from tests.unit.evals.replay.packs import SAMPLED, made_lines, write_set


def test_a_replay_needs_no_suite_and_writes_figures_report_and_pictures(metacog: Metacog, tmp_path: Path) -> None:
    write_set(tmp_path / "pack", "cruxeval_made", made_lines(40, SAMPLED))

    done = metacog("eval", "replay", "--pack", tmp_path / "pack", "--out", tmp_path / "out")

    assert done.status == 0, done.err
    figures = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert {row["rule"] for row in figures["stopping"]} >= {"agree_2", "agree_3", "fixed_5", "arbiter"}
    report = (tmp_path / "out" / "report.md").read_text()
    assert "metacog eval replay --pack pack" in report
    assert done.out.strip() == report.strip()
    assert (tmp_path / "out" / "stopping.svg").read_text().startswith("<svg")


def test_a_folder_without_a_pack_is_named(metacog: Metacog, tmp_path: Path) -> None:
    done = metacog("eval", "replay", "--pack", tmp_path)

    assert done.status == USAGE
    assert "holds no recorded answers; name a folder with files" in " ".join(done.err.split())


def test_an_encoder_that_is_away_is_named(metacog: Metacog, tmp_path: Path) -> None:
    write_set(tmp_path / "pack", "tasks", made_lines(40, {"direct": (0.4, 1), "cot": (0.6, 1)}))

    done = metacog("eval", "replay", "--pack", tmp_path / "pack", "--encoder", "http://127.0.0.1:9/v1")

    assert done.status == UNREACHABLE
    assert "127.0.0.1:9" in done.err


def test_records_of_a_pack_give_the_figures_of_the_pack(metacog: Metacog, tmp_path: Path) -> None:
    write_set(tmp_path / "pack", "cruxeval_made", made_lines(40, SAMPLED))

    done = metacog("eval", "replay", "--pack", tmp_path / "pack", "--records", tmp_path / "records")
    assert done.status == 0, done.err
    figures = []
    for folder in ("pack", "records"):
        assert metacog("eval", "replay", "--pack", tmp_path / folder, "--out", tmp_path / "out").status == 0
        figures.append((tmp_path / "out" / "figures.json").read_text())

    assert figures[0] == figures[1]
