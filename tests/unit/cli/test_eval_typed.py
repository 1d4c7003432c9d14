"""The command that heads a report makes the run again: whatever was typed and matters stands in it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from cli.__main__ import app

if TYPE_CHECKING:
    from evals.harness.session import Session


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one question in each of the sets that some command asks for by default."""
    for name in ("truthfulqa", "mmlu"):
        line = {"id": f"{name}-1", "dataset": name, "question": "Is 2 even?", "answer": "yes", "answer_type": "boolean"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "options", "defaults"),
    [
        ("mc-mas", ["--no-embeddings", "--no-equal-compute", "--max-tokens 64"], ["--solver-samples 5"]),
        ("delegation", ["--live", "--agents alpha,beta", "--max-tokens 64"], ["--seeds 7"]),
        ("compare", ["--timeout 60", "--concurrency 2", "--agents alpha"], ["--strategy dialectic", "--seeds 7"]),
        ("dialectic", ["--timeout 60", "--concurrency 2", "--assessor draft"], ["--items 20"]),
    ],
)
def test_what_was_typed_stands_in_the_command_that_a_report_prints(
    command: str, options: list[str], defaults: list[str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def kept(_plan: object, session: "Session", _addresses: object) -> None:
        made.append(session.typed)
        raise typer.Exit

    monkeypatch.setattr(f"cli.eval_{command.replace('-', '_')}.record", kept)
    words = [word for option in options for word in option.split()]
    for given in (words, []):
        assert CliRunner().invoke(app, ["eval", command, "--data", str(data), *given]).exit_code == 0

    [whole, plain] = made
    assert all(f" {option} " in f"{whole} " for option in [*options, *defaults])
    assert not any(option.split()[0] in plain for option in options)
