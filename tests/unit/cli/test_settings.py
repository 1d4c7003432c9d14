"""The settings as `metacog config` and `metacog doctor` see them."""

import json
import re
from pathlib import Path

import pytest

from cli.operation.settings import INTERNAL, problems, settings, unknown_names
from cli.terminal.exits import FAILED, OK
from docs.generating.settings import rows
from embedded.settings import DEFAULT_PORTS
from tests.unit.cli.running import Metacog

ROOT = Path(__file__).parents[3]
CODE = ("kernel", "chassis", "services", "console", "encoder", "embedded", "evals", "cli")


@pytest.mark.parametrize(
    ("name", "value", "expected_text"),
    [
        ("METACOG_ROUTER_THRESHOLD", "1.5", "at most 1"),
        ("METACOG_ROUTER_THRESHOLD", "much", "a number"),
        ("METACOG_ROUTER_REST_PORT", "80.5", "a whole number"),
        ("METACOG_ROUTER_MAX_BODY_BYTES", "7", "at least 1024"),
        ("METACOG_DELEGATION_LEARNING_RATE", "0", "above 0"),
        ("METACOG_ROUTER_ASSESSOR", "oracle", "one of answers, verbalized, probe, hybrid, draft"),
        ("METACOG_ROUTER_KEEP_CONTENTS", "perhaps", "true or false"),
        ("METACOG_ROUTER_MODEL_ALIASES", "[]", "a JSON object"),
        ("METACOG_ARBITER_SOLVER_AGENTS", "ada", "a JSON list"),
    ],
)
def test_the_problem_of_an_invalid_value_describes_the_valid_values(name: str, value: str, expected_text: str) -> None:
    assert problems({name: value}) == [f"{name} is '{value}'; it must be {expected_text}"]


def test_valid_values_have_no_problem() -> None:
    fine = {
        "METACOG_ROUTER_THRESHOLD": "0.45",
        "METACOG_ROUTER_KEEP_CONTENTS": "False",
        "METACOG_ROUTER_MODEL_ALIASES": '{"a": "metacog"}',
        "METACOG_KEYS_FILE": "keys.yaml",
        "METACOG_DATABASE_URL": "",
    }

    assert problems(fine) == []


def test_the_problem_of_an_unknown_name_suggests_a_similar_one() -> None:
    strange = {"METACOG_ROUTER_TRESHOLD": "1", "METACOG_SOMETHING_ELSE_ENTIRELY": "1", "PATH": "/bin"}

    assert unknown_names(strange) == {
        "METACOG_ROUTER_TRESHOLD": "METACOG_ROUTER_THRESHOLD",
        "METACOG_SOMETHING_ELSE_ENTIRELY": "",
    }


def test_a_secret_is_never_shown(metacog: Metacog, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METACOG_PEER_KEY", "METACOG_INFERENCE_API_KEY", "METACOG_API_KEY"):
        monkeypatch.setenv(name, "mc-precious")

    table = metacog("config", "show", "--all")
    document = metacog("config", "show", "--json")

    assert "precious" not in table.out + document.out
    assert {each["name"] for each in json.loads(document.out)["settings"]} >= {"METACOG_PEER_KEY", "METACOG_API_KEY"}


def test_set_values_are_distinguished_from_defaults(metacog: Metacog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METACOG_ROUTER_THRESHOLD", "0.6")

    found = {each["name"]: each for each in json.loads(metacog("config", "show", "--all", "--json").out)["settings"]}

    assert (found["METACOG_ROUTER_THRESHOLD"]["value"], found["METACOG_ROUTER_THRESHOLD"]["from"]) == (
        "0.6",
        "environment",
    )
    assert (found["METACOG_CONSOLE_PORT"]["value"], found["METACOG_CONSOLE_PORT"]["from"]) == ("8090", "default")


def test_the_environment_and_the_files_that_it_names_are_validated(
    metacog: Metacog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "routing.yaml"
    broken.write_text("threshold: 45\n")
    whole = metacog("config", "validate", "--json")
    monkeypatch.setenv("METACOG_ROUTER_ROUTING_FILE", str(broken))
    monkeypatch.setenv("METACOG_ROUTER_GRACE_S", "-1")
    wrong = metacog("config", "validate", "--json")

    assert (whole.status, json.loads(whole.out)["valid"]) == (OK, True)
    assert wrong.status == FAILED
    assert any("line 1: threshold" in expected_text for expected_text in json.loads(wrong.out)["problems"])
    assert any(
        expected_text.startswith("METACOG_ROUTER_GRACE_S") for expected_text in json.loads(wrong.out)["problems"]
    )


def test_every_variable_that_the_code_names_is_a_setting() -> None:
    code = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    named = {name for file in code for name in re.findall(r"METACOG_[A-Z0-9_]*[A-Z0-9]", file.read_text())}
    known = {row["name"] for row in rows()}

    # A name that others begin with is written without its end, as in METACOG_ROUTER_...
    strange = {name for name in named - known if not any(each.startswith(f"{name}_") for each in known)}
    assert {name for name in strange if not name.startswith("METACOG_TEST_")} == set(INTERNAL)


def test_every_port_of_the_embedded_suite_is_a_setting_and_each_setting_occurs_once() -> None:
    names = [row["name"] for row in rows()]

    assert set(DEFAULT_PORTS) <= set(names)
    assert len(names) == len(set(names))
    assert all(each.meaning for each in settings({}))
