"""The `metacog` command, as a person types it."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from configuration.keys import read_keys
from tests.support.stack import ROOT


def metacog(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "cli", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_command() -> None:
    expected_text = metacog("--help").stdout

    assert all(
        command in expected_text for command in ("up", "down", "status", "config", "keys", "ask", "batch", "doctor")
    )


def test_the_agents_that_ship_are_valid() -> None:
    for name in ("agents.yaml", "agents.poster.yaml"):
        checked = metacog("config", "validate", "--agents", ROOT / "config" / name)

        assert checked.returncode == 0, checked.stderr


def test_the_error_for_an_invalid_agents_file_has_line_and_reason(tmp_path: Path) -> None:
    broken = tmp_path / "agents.yaml"
    broken.write_text("agents:\n  - id: ada\n  - id: ben\n    capacity: 0\n")

    checked = metacog("config", "validate", "--agents", broken)

    assert checked.returncode == 1
    assert "line 3: capacity of 'ben' is 0" in checked.stderr


@pytest.mark.parametrize(
    ("option", "broken", "mended", "problem"),
    [
        ("--routing", "threshold: 45\n", "threshold: 0.45\n", "line 1: threshold: it is 45.0; it must lie in [0, 1]"),
        (
            "--policy",
            "rows:\n  - name: a\n    strategy: debate\n",
            "rows:\n  - name: a\n    strategy: arbiter\n",
            "line 3: rows.0: strategy: 'debate' is none",
        ),
    ],
)
def test_a_file_of_the_router_is_checked_before_it_is_used(
    tmp_path: Path, option: str, broken: str, mended: str, problem: str
) -> None:
    file = tmp_path / "router.yaml"

    file.write_text(broken)
    rejected = metacog("config", "validate", option, file)
    file.write_text(mended)
    accepted = metacog("config", "validate", option, file)

    assert (rejected.returncode, accepted.returncode) == (1, 0)
    assert problem in rejected.stderr
    assert str(file) in accepted.stdout


def test_a_new_key_is_shown_once_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"

    key = metacog("keys", "new", "alice", "--file", file).stdout.strip()
    metacog("keys", "new", "bob", "--no-may-teach", "--file", file)

    assert key not in file.read_text()
    assert [holder["name"] for holder in yaml.safe_load(file.read_text())["keys"]] == ["alice", "bob"]
    assert read_keys(file).holder(f"Bearer {key}").name == "alice"
    assert file.stat().st_mode & 0o077 == 0


def test_a_name_gets_one_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    metacog("keys", "new", "alice", "--file", file)

    again = metacog("keys", "new", "alice", "--file", file)

    assert again.returncode == 2
    assert "already" in again.stderr
