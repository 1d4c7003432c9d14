"""The given options are part of the command in a report, and are rejected where they would be ignored."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from cli.__main__ import app
from cli.evaluation.common import numbers
from cli.terminal.exits import USAGE
from evals.harness.arms import Plan
from tests.unit.cli.running import Metacog

if TYPE_CHECKING:
    from evals.harness.session import Session


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one question in each of the sets that some command asks for by default."""
    for name in ("truthfulqa", "mmlu"):
        line = {"id": f"{name}-1", "dataset": name, "question": "Is 2 even?", "answer": "yes", "answer_type": "boolean"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


EVERYWHERE = ["--items 3", "--seeds 0,4", "--max-tokens 64", "--concurrency 2", "--timeout 60"]


@pytest.mark.parametrize(
    ("command", "options", "defaults"),
    [
        ("mc-mas", ["--no-embeddings", "--no-equal-compute", "--solver-samples 3", "--arbitration-samples 9"],
         ["--solver-samples 5", "--arbitration-samples 50"]),
        ("delegation", ["--agents alpha,beta", "--no-equal-compute", "--autogen autogen.jsonl"], []),
        ("compare", ["--agents alpha", "--assessor draft", "--strategy arbiter"], ["--strategy dialectic"]),
        ("dialectic", ["--agents alpha", "--assessor draft", "--affect vader"], ["--sets truthfulqa,mmlu"]),
    ],
)  # fmt: skip
def test_the_given_options_are_part_of_the_command_in_a_report(
    command: str, options: list[str], defaults: list[str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = [*EVERYWHERE, "--sets mmlu", *options]

    whole = printed(monkeypatch, command, f"--data {data}", *typed)
    plain = printed(monkeypatch, command, f"--data {data}")

    assert words(whole) == words(" ".join([f"metacog eval {command} --data {data}", *typed]))
    assert words(plain) == words(" ".join([f"metacog eval {command} --data {data} --items 20 --seeds 7", *defaults]))


def test_the_live_option_is_part_of_the_command_too(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "live" in words(printed(monkeypatch, "delegation", f"--data {data}", "--live"))


def test_the_command_has_tasks_instead_of_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = printed(monkeypatch, "delegation", f"--tasks {data / 'mmlu.jsonl'}")

    assert words(made) == words(f"metacog eval delegation --tasks {data / 'mmlu.jsonl'} --seeds 7")


def test_the_command_has_the_recordings_and_the_replay_options(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = data / "recordings.jsonl"
    recordings.write_text("")
    monkeypatch.setattr("evals.mc_mas.replays.replay_plan", lambda *_: Plan(items=(), arms=()))

    typed = [f"--recordings {recordings}", "--replay", "--concurrency 2", "--timeout 60"]
    made = printed(monkeypatch, "mc-mas", *typed)

    assert words(made) == words(" ".join(["metacog eval mc-mas", *typed]))


def test_the_command_has_the_outcomes_and_a_seed_of_zero(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"id": "r-1", "question": "Which?", "strong_correct": True, "weak_correct": False}
    (data / "routing_x.jsonl").write_text(json.dumps(row) + "\n")

    typed = [f"--outcomes {data / 'routing_x.jsonl'}", "--assessors draft,probe", "--items 3", "--seed 0",
             "--concurrency 2", "--timeout 60"]  # fmt: skip
    made = printed(monkeypatch, "outcomes", *typed)

    assert words(made) == words(" ".join(["metacog eval routing", *typed]))


def printed(monkeypatch: pytest.MonkeyPatch, command: str, *options: str) -> str:
    """The command that the records of `command` would be headed by; nothing is recorded."""
    made: list[str] = []

    def kept(_plan: object, session: "Session", _addresses: object) -> None:
        made.append(session.typed)
        raise typer.Exit

    monkeypatch.setattr(f"cli.evaluation.{command.replace('-', '_')}.record", kept)
    given = [word for option in options for word in option.split()]
    done = CliRunner().invoke(app, ["eval", "routing" if command == "outcomes" else command, *given])
    assert done.exit_code == 0, done.output
    return made[0]


def words(command: str) -> list[str]:
    """The options of `command`, each with what it is given, in whatever order they were typed."""
    return sorted(command.split(" --"))


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("compare --data DATA --hub boolq", "--data would be ignored with --hub"),
        ("dialectic --hub boolq --sets mmlu", "--sets would be ignored with --hub"),
        ("mc-mas --hub boolq --data DATA --sets mmlu", "--data, --sets would be ignored with --hub"),
        ("delegation --hub boolq --sets mmlu", "--sets would be ignored with --hub"),
        ("delegation --tasks T --items 20", "--items would be ignored with --tasks"),
        ("routing --hub boolq --data DATA", "--data would be ignored with --hub"),
        ("routing --quick --data DATA --items 40", "--data, --items would be ignored with --quick"),
        ("routing --quick --hub boolq", "--hub would be ignored with --quick"),
        ("routing --quick --timeout 60", "--timeout would be ignored with --quick"),
        ("routing --outcomes FILE --data DATA", "--data would be ignored with --outcomes"),
        ("routing --outcomes FILE --hub boolq", "--hub would be ignored with --outcomes"),
        ("routing --outcomes FILE --quick", "--quick would be ignored with --outcomes"),
        ("mc-mas --recordings FILE --data DATA", "--data would be ignored with --recordings"),
        ("mc-mas --recordings FILE --hub boolq --items 3", "--hub, --items would be ignored with --recordings"),
        ("mc-mas --recordings FILE --sets mmlu --seeds 1", "--sets, --seeds would be ignored with --recordings"),
        ("mc-mas --replay --data DATA", "give the recorded samples with --recordings"),
    ],
)
def test_options_that_would_be_ignored_raise_an_error(
    metacog: Metacog, data: Path, monkeypatch: pytest.MonkeyPatch, typed: str, complaint: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    done = metacog("eval", *typed.replace("DATA", str(data)).split())

    assert (done.status, complaint in done.err) == (USAGE, True), done.err


def test_public_sets_do_not_use_the_default_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.hub.loader.load_sets", lambda *_, **__: [])

    made = printed(monkeypatch, "dialectic", "--hub boolq")

    assert words(made) == words("metacog eval dialectic --hub boolq --items 20 --seeds 7")


def test_a_seed_that_is_written_twice_is_one() -> None:
    assert numbers("7,07, 7,1", "--seeds") == (7, 1)
