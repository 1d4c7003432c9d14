"""The commands as a whole: what they send, what they show, and how they end."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.__main__ import ROWS
from cli.terminal.exits import FAILED, OK, UNREACHABLE, USAGE
from cli.terminal.lazy import loaded
from tests.support.models.scripted_service import ScriptedService
from tests.support.stack import NO_SERVER, ROOT, environment
from tests.unit.cli.running import Metacog

HEAVY = ("grpc", "pydantic", "numpy", "aiohttp", "fastapi", "sqlalchemy", "chassis", "embedded", "evals")


def test_help_imports_nothing_that_takes_long() -> None:
    look = "import sys, cli.__main__ as m; sys.argv = ['metacog', '--help']\ntry: m.main()\nexcept SystemExit: pass\n"
    look += f"print('imported:', [name for name in {HEAVY} if name in sys.modules])"

    expected_text = subprocess.check_output(
        [sys.executable, "-c", look], cwd=ROOT, env=environment(), text=True, timeout=60
    )

    assert all(name in expected_text for name in ROWS)
    assert "imported: []" in expected_text


@pytest.mark.parametrize("name", ROWS)
def test_every_command_exists_and_has_a_help_text(name: str) -> None:
    command = loaded(name, ROWS[name])

    assert (command.name, bool(command.help)) == (name, True)


def test_the_error_for_a_misspelt_command_suggests_the_right_one(metacog: Metacog) -> None:
    done = metacog("dcotor")

    assert (done.status, "doctor" in done.err) == (USAGE, True)


def test_completion_offers_commands_and_their_options() -> None:
    def completed(words: str) -> str:
        variables = {"_METACOG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from cli.__main__ import app; sys.argv[0] = 'metacog'; app(prog_name='metacog')",
            ],
            cwd=ROOT,
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout

    assert {"ask", "assign", "arbitrate", "agents"} <= set(completed("metacog a").split())
    assert "--explain" in completed("metacog ask --e")
    assert {"search", "add"} <= set(completed("metacog knowledge ").split())


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "Why?"),
        ("route", "Why?"),
        ("assign", "--agent", "a*5:CE=1"),
        ("arbitrate", "Why?"),
        ("delegate", "Why?"),
        ("runs", "list"),
        ("runs", "show", "x"),
        ("feedback", "x", "--correct"),
        ("feedback", "x", "--correct", "--task"),
        ("knowledge", "list"),
        ("knowledge", "search", "x"),
        ("knowledge", "delete", "x"),
        ("agents", "list"),
        ("agents", "flows"),
        ("agents", "drift"),
        ("agents", "reliability"),
        ("profiles", "list"),
        ("profiles", "reset", "--all"),
        ("profiles", "freeze", "--all"),
        ("profiles", "export", "-"),
        ("calibrate", "--share", "0.2"),
    ],
)
def test_every_command_reports_an_unreachable_suite_in_the_same_way(
    metacog: Metacog, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for name in ("ROUTER", "ASSIGNER", "ARBITER", "DELEGATION"):
        monkeypatch.setenv(f"METACOG_{name}_URL", f"http://{NO_SERVER}")

    done = metacog(*words)

    assert (done.status, done.out) == (UNREACHABLE, "")
    assert f"at http://{NO_SERVER} cannot be reached" in done.err


def test_a_question_is_sent_with_the_given_options_only(metacog: Metacog, service: ScriptedService) -> None:
    service.stream("POST /v1/answers", ("run_finished", {"run": {"run_id": "r", "answer": "7 x 13"}}))

    done = metacog(
        *("ask", "Is 91 prime?", "--strategy", "dialectic", "--msv", "CE=0.4,conflict=0.9", "--type", "boolean"),
        *("--timeout", "1.5", "--no-fallback", "--json", "--router", service.url, "--key", "mc-1"),
    )

    assert (done.status, json.loads(done.out)["answer"]) == (OK, "7 x 13")
    assert service.asked[0].headers["authorization"] == "Bearer mc-1"
    assert service.asked[0].body == {
        "question": "Is 91 prime?",
        "strategy": "dialectic",
        "msv": {"correctness": 0.4, "conflict": 0.9},
        "answer_type": "BOOLEAN",
        "envelope": {"timeout_ms": 1500},
        "fallback": False,
    }


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        (("ask", " "), "the question is empty"),
        (("ask", "x", "--messages", "y.json"), "not both"),
        (("ask", "--messages", "missing.json"), "missing.json cannot be read"),
        (("ask", "x", "--msv", "XX=1"), "'XX=1' is not a component"),
        (("ask", "x", "--msv", "CE=high"), "'high' is not a number"),
        (("assign",), "give a file, or an --agent"),
        (("assign", "--agent", "a*x:CE=1"), "'a*x:CE=1' is not an agent"),
        (("assign", "--agent", "a:CE=1", "--pin", "BOSS=a"), "is not ROLE=ID"),
        (("profiles", "reset"), "give --agent, --dimension or --all"),
        (("feedback", "x", "--task", "--correct", "--origin", "EXAM"), "the label of a task has no origin"),
        (("feedback", "x", "--task", "--score", "1"), "give either --correct"),
        (("up", "--backend", "vllm", "--inference-url", "http://x/v1"), "give one of them"),
        (("up", "--backend", "vllm"), "vLLM has no default model"),
    ],
)
def test_invalid_input_raises_an_error_before_a_request_is_sent(
    metacog: Metacog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected_text: str
) -> None:
    monkeypatch.chdir(tmp_path)

    done = metacog(*words)

    assert done.status in (USAGE, FAILED)
    assert expected_text in " ".join(done.err.replace("│", " ").split())


def test_the_error_for_an_invalid_file_names_its_line(metacog: Metacog, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"agents": [\n  oops\n]}')

    done = metacog("assign", file)

    assert (done.status, f"{file}, line 2: it is not JSON" in done.err) == (USAGE, True)


def test_profiles_are_written_whole_and_read_again(metacog: Metacog, service: ScriptedService, tmp_path: Path) -> None:
    profile = {"profile": {"agent": "a", "dimension": "d", "competence": 0.7, "observations": 3}, "history": []}
    service.reply("GET /v1/profiles:export", json={"profiles": [profile], "next_page_token": ""})
    service.reply("POST /v1/profiles:import", json={"imported": 1, "kept": 0})
    file = tmp_path / "profiles.json"

    exported = metacog("profiles", "export", file, "--history", "--delegation", service.url)
    again = metacog("profiles", "export", file, "--delegation", service.url)
    imported = metacog("profiles", "import", file, "--keep", "--delegation", service.url)

    assert (exported.status, again.status, imported.status) == (OK, USAGE, OK)
    assert service.asked[0].query == "page_size=1000&include_history=true"
    assert service.asked[1].body == {"profiles": [profile], "rule": "KEEP"}
    assert "profiles imported: 1, unchanged: 0" in imported.out


def test_a_given_state_needs_no_question(metacog: Metacog, service: ScriptedService) -> None:
    decided = {
        "system": "SYSTEM_ONE",
        "strategy": "system1",
        "reason": "undetermined",
        "activation": None,
        "msv": None,
    }
    service.reply("POST /v1/route", json=decided)

    done = metacog("route", "--msv", "CE=0.9", "--router", service.url)

    assert service.asked[0].body == {"msv": {"correctness": 0.9}}
    assert "SYSTEM ONE  system1: too few components of the state are known" in done.out


@pytest.mark.parametrize(
    ("account", "finished", "kept"),
    [
        (
            {
                "measurements": [],
                "stages": [{"stage": "THESIS", "agent": "ada", "text": "It is odd."}],
                "assessments": [{"agent": "ben", "msv": {"correctness": 0.9}}, {"agent": "ada"}],
            },
            "2 assessments, 1 stages",
            ["It is odd.", "state of ben", "0.90"],
        ),
        (
            {"solver_results": [], "critiques": [{"agent": "cleo", "text": "It forgets.", "succeeded": True}]},
            "1 critiques",
            ["cleo: It forgets."],
        ),
        ({"groups": [], "votes": [{"index": 0, "agent": "ada", "answer": "41"}]}, "1 votes", ["ada", "41"]),
        (
            {
                "decision": None,
                "assessments": [{"agent": "ada", "threshold": 0.625}],
                "votes": [{"agent": "ben", "answer": "43", "weight": 0.25}],
            },
            "1 assessments, 1 votes",
            ["0.625", "ben", "43"],
        ),
        (None, "nothing", []),
    ],
)
def test_a_cancelled_run_says_what_it_had_finished(
    metacog: Metacog, service: ScriptedService, account: object, finished: str, kept: list[str]
) -> None:
    run = {"run_id": "r", "outcome": "CANCELLED", "created_at": "2026-03-01T12:30:00.25Z", "deliberation": account}
    service.reply("GET /v1/runs/r", json={"run": run})

    done = metacog("runs", "show", "r", "--explain", "--router", service.url)

    assert (done.status, f"finished until then: {finished}" in done.out) == (OK, True)
    assert [part for part in kept if part not in done.out.partition("finished until then")[2]] == []
    assert "none: no" not in done.out  # what was never counted is not claimed to be none
    assert "2026-03-01 12:30:00" in done.out
    assert re.search(r"confidence +unknown", done.out)
